"""Fast: the list of runs that a studio follows: readers get differences, the newest state wins, memory is bounded."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from stepward.validator.studio import feed as feeds
from stepward.validator.studio import live as lives
from stepward.validator.studio.feed import MOST_RUNS, Feed
from stepward.validator.studio.live import Live
from stepward.vm.journal.store import JournalError, Row


class Rows:
    """A journal that has only a list of runs."""

    def __init__(self) -> None:
        self.rows_now: list[Row] = []
        self.fails = False

    def rows(self, statuses: Any = None, *, limit: int) -> list[Row]:
        if self.fails:
            raise JournalError("the disk is gone")
        found = [row for row in self.rows_now if statuses is None or row.status in statuses]
        return found[-limit:]


def row(number: int, status: str = "SUCCESS", seq: int = 3) -> Row:
    return Row(f"r{number}", "p", status, seq, float(number), float(number), 0.0)


def feed_of(journal: Rows) -> Feed:
    now = iter(range(10_000))
    return Feed(journal, lambda: float(next(now)))  # type: ignore[arg-type]


def names(data: dict[str, Any]) -> list[str]:
    return [one[0] for one in data["runs"]]


def test_a_reader_gets_what_changed_and_only_its_newest_state() -> None:
    journal = Rows()
    feed = feed_of(journal)
    journal.rows_now = [row(1), row(2, "RUNNING", 0)]
    assert feed.look()
    assert not feed.look()
    whole = feed.since(-1)
    assert (whole["all"], names(whole), whole["going"]) == (True, ["r1", "r2"], 1)
    version = feed.version
    journal.rows_now[1] = row(2, "RUNNING", 1)
    feed.look()
    journal.rows_now[1] = row(2, "SUSPENDED", 2)
    feed.look()
    found = feed.since(version)
    assert (found["all"], names(found), found["waiting"]) == (False, ["r2"], 1)
    assert found["runs"][0][2:5:2] == ["SUSPENDED", 3]
    assert names(feed.since(feed.version)) == []


def test_memory_is_bounded_and_those_that_wait_stay() -> None:
    journal = Rows()
    feed = feed_of(journal)
    journal.rows_now = [row(0, "SUSPENDED"), *(row(number) for number in range(1, 50))]
    feed.look()
    version = feed.version
    for start in range(50, 6_000, 400):
        journal.rows_now += [row(number) for number in range(start, start + 400)]
        feed.look()
    whole = feed.since(-1)
    assert len(whole["runs"]) == MOST_RUNS + 1
    assert "r0" in names(whole)
    assert len(feed._gone) <= feeds.MOST_GONE
    assert feed.since(version)["all"], "who was away for too long gets the whole list"
    recent = feed.version
    journal.rows_now += [row(9_999)]
    feed.look()
    found = feed.since(recent)
    assert (names(found), len(found["gone"])) == (["r9999"], 1)


def test_runs_are_counted_as_they_come_and_end() -> None:
    journal = Rows()
    feed = feed_of(journal)
    journal.rows_now = [row(number) for number in range(5)]
    feed.look()
    assert feed.rate is None, "those that were there before did not come just now"
    journal.rows_now += [row(number, "RUNNING") for number in range(5, 25)]
    feed.look()
    feed.look()
    assert (feed.rate, feed.ended) == (10.0, 5)
    journal.rows_now[-1] = row(24)
    feed.look()
    assert feed.ended == 6


def test_runs_that_came_while_nobody_looked_are_not_counted_as_new() -> None:
    journal, now = Rows(), [0.0]
    feed = Feed(journal, lambda: now[0])  # type: ignore[arg-type]
    feed.look()
    journal.rows_now = [row(number) for number in range(400)]
    now[0] = 600.0
    feed.look()
    assert feed.rate is None
    now[0] = 605.0
    journal.rows_now.append(row(400))
    feed.look()
    assert feed.rate == 0.2


# -- the stream --------------------------------------------------------------------------------------------------------


def event(text: str) -> tuple[str, dict[str, Any]]:
    id, data = text.rstrip("\n").split("\n")
    return id.removeprefix("id: "), json.loads(data.removeprefix("data: "))


def test_updates_come_in_batches_and_a_journal_that_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lives, "PAUSE", 0.01)
    journal = Rows()
    feed = feed_of(journal)
    live = Live(feed)

    async def read() -> None:
        updates = live.updates("")
        assert (await anext(updates)).startswith("retry: ")
        assert event(await anext(updates))[1]["runs"] == []
        journal.rows_now = [row(number) for number in range(200)]
        id, found = event(await anext(updates))
        assert len(found["runs"]) == 200, "one update for all of them"
        journal.fails = True
        assert event(await anext(updates))[1]["trouble"] == "the disk is gone"
        journal.fails = False
        assert event(await anext(updates))[1]["trouble"] == ""
        again = live.updates(id)
        await anext(again)
        assert event(await anext(again))[1]["all"] is False
        await again.aclose()
        await updates.aclose()

    asyncio.run(read())


def test_nobody_looks_at_the_journal_while_nobody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lives, "PAUSE", 0.0)
    journal = Rows()
    looks: list[int] = []
    feed = feed_of(journal)
    monkeypatch.setattr(feed, "look", lambda: looks.append(1))
    live = Live(feed)

    async def read() -> None:
        updates = live.updates("")
        await anext(updates)
        await anext(updates)
        await asyncio.sleep(0.05)
        await updates.aclose()
        assert live._looking is not None
        await asyncio.wait_for(live._looking, 20)

    asyncio.run(read())
    assert looks
