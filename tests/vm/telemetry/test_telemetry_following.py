"""Fast: whose spans a record ends, in whichever order threads, machines and processes come with what they stored."""

from __future__ import annotations

import json
from typing import Any

import pytest

from machines import Bench, assign, end, program, tool
from stepward.vm import MemoryJournal, Suspend
from stepward.vm.journal.store import Append, AppendConflict, Entry
from stepward.vm.telemetry import following
from stepward.vm.telemetry.following import Followed
from stepward.vm.telemetry.watching import WatchedJournal


def stored(*steps: dict[str, Any]) -> tuple[MemoryJournal, list[Entry]]:
    bench = Bench()
    bench.run(program(*steps))
    return bench.journal, bench.journal.read("run")


def appended(followed: Followed, entries: list[Entry], status: str) -> Append:
    """Return an append of this process that is under way."""
    followed.mine.update(entry.digest for entry in entries)
    return Append("run", entries[0].seq - 1, entries, status, 0.0, True, None)


def named(spans: Any) -> list[str]:
    return [span.name for span in spans]


STEPS = (assign("a", x="1"), assign("b", y="2"), end("c"))


def test_spans_of_a_run_that_goes_on_wait_for_the_next_records() -> None:
    journal, entries = stored(*STEPS)
    followed = Followed(journal, values=False)
    assert followed.follow(appended(followed, entries[:2], "RUNNING")) == []
    assert named(followed.rest()) == ["step a"]
    assert followed.rest() == []
    assert named(followed.follow(appended(followed, entries[2:], "SUCCESS"))) == [
        "step b",
        "step c",
        "invoke_workflow bench",
    ]


def test_many_records_and_old_ones_wait_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    journal, entries = stored(*STEPS)
    for limit, value in (("MAX_WAITING", 2), ("MAX_WAIT", 0.0)):
        with monkeypatch.context() as patch:
            patch.setattr(following, limit, value)
            followed = Followed(journal, values=False)
            assert named(followed.follow(appended(followed, entries[:2], "RUNNING"))) == ["step a"]


def test_a_thread_that_comes_late_finds_its_spans_sent_by_the_other_one() -> None:
    journal, entries = stored(*STEPS)
    followed = Followed(journal, values=False)
    early, late = appended(followed, entries[:3], "RUNNING"), appended(followed, entries[3:], "SUCCESS")
    assert named(followed.follow(late)) == ["step a", "step b", "step c", "invoke_workflow bench"]
    assert followed.follow(early) == []
    assert followed.rest() == []


def test_what_another_process_has_stored_is_read_and_not_sent() -> None:
    journal, entries = stored(*STEPS)
    followed = Followed(journal, values=False)
    assert named(followed.follow(appended(followed, entries[3:], "SUCCESS"))) == ["step c", "invoke_workflow bench"]


def test_a_run_that_was_dropped_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "MAX_RUNS", 0)
    journal, entries = stored(*STEPS)
    followed = Followed(journal, values=False)
    assert named(followed.follow(appended(followed, entries[:3], "RUNNING"))) == ["step a", "step b"]
    followed.mine.clear()
    assert named(followed.follow(appended(followed, entries[3:], "SUCCESS"))) == ["step c", "invoke_workflow bench"]


def test_only_what_the_store_has_taken_is_told() -> None:
    bench = Bench({"a": lambda: Suspend({})})
    bench.run(program(tool("a", "ask"), end()))
    told: list[str] = []
    mine: set[bytes] = set()
    watched = WatchedJournal(bench.journal, lambda append: told.append(append.run), mine)
    entry = bench.journal.read("run")[-1]
    with pytest.raises(AppendConflict):
        watched.append(Append("run", 0, [entry._replace(seq=1)], "RUNNING", 0.0, True, None), None)
    assert watched.create(Append("run", -1, [entry._replace(seq=0)], "RUNNING", 0.0, True, None), "x", "y", 1.0) is None
    assert (told, mine) == ([], set())
    assert watched.create(Append("new", -1, [entry._replace(seq=0)], "RUNNING", 0.0, True, None), "x", "y", 1.0)
    assert (told, mine) == (["new"], set())


def test_a_watched_store_answers_as_the_store_does() -> None:
    journal, entries = stored(*STEPS)
    watched = WatchedJournal(journal, lambda _: None, set())
    digest = json.loads(entries[0].record)["body"]["program"]
    assert watched.vault is journal.vault
    assert watched.read("run", 1) == entries[1:]
    assert (watched.head("run"), watched.row("run")) == (journal.head("run"), journal.row("run"))
    assert watched.rows(["SUCCESS"], limit=1) == journal.rows()
    assert (list(watched.names()), watched.document(digest)) == (["run"], journal.document(digest))
    lease = watched.acquire("run", "me", 1e12, 9.0)
    assert lease is not None
    assert watched.renew(lease, 1e12, 10.0).expires == 1e12 + 10
    watched.release(lease)
    watched.put_document("d", b"{}")
    assert journal.document("d") == b"{}"
    watched.close()
