"""A copy of a store has what the store had at one moment, in any kind of store, and its runs go on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from databases import Place
from journals import KEY
from machines import Bench, end, program, tool
from stepward.vm import MemoryJournal, Run, SQLiteJournal, Suspend
from stepward.vm.journal.copying import Copied, copy_runs
from stepward.vm.journal.encryption import is_encrypted
from stepward.vm.journal.run_keys import FileKeys
from stepward.vm.journal.store import Append, Journal, JournalError, Lease
from stepward.vm.journal.verify import verify_all
from stepward.vm.machine.replay import replayer
from stepward.vm.machine.stored_due import stored_due

SMALL = program(tool("a", "again"), end())
WAITS = program(
    tool("a", "ask"),
    tool("b", "again", args={"who": "$who"}),
    end(output="$who"),
    inputs={"who": {"type": "string", "sensitive": True}},
)
LONG = program(tool("a", "again"), tool("b", "again"), end(), max_steps=1)
REST = program(tool("c", "read"), end(), name="rest")

Opener = Callable[[], Journal]


@pytest.fixture(params=["sqlite", "postgres"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    """Open the same store again at each call."""
    if request.param == "sqlite":
        return lambda: SQLiteJournal(tmp_path / "target.db")
    place = request.getfixturevalue("postgres")
    from stepward.vm.journal.postgres import PostgresJournal

    return lambda: PostgresJournal(place.conninfo, schema=place.schema)


def filled(journal: Journal) -> Bench:
    """Return a machine whose store has a run that ended, one that waits, an orphan, a chain, one that was erased."""
    bench = Bench({"a": [Suspend("may I?")]}, journal=journal, key=KEY)
    bench.run(WAITS, "waits", who="ann")
    bench.run(WAITS, "erased", who="bob")
    bench.vm.erase_sync("erased")
    bench.tools.answers.clear()
    bench.run(SMALL, "small")
    bench.run(LONG, "chain")
    bench.clock.time += 5_000_000
    assert bench.vm.continue_run_sync("chain", REST, grant={"steps": 5}).status == "SUCCESS"
    orphan(bench)
    return bench


def orphan(bench: Bench) -> None:
    """Let a machine die in the midst of a run."""

    class Died(BaseException):
        pass

    bench.tools.answers["dies"] = [Died()]
    with pytest.raises(Died):
        bench.vm.run_sync(program(tool("dies", "again"), end()), run_id="orphan")
    del bench.tools.answers["dies"]


def copied(source: Journal, target: Journal) -> list[Copied]:
    return list(copy_runs(source, target, stored_due(source)))


def all_of(journal: Journal) -> dict[str, Any]:
    """Return all that a store has of its runs, but for leases."""
    return {
        run: (
            journal.read(run),
            journal.head(run),
            row._replace(expires=0.0),
            journal.vault.get(run),
        )
        for run in journal.names()
        if (row := journal.row(run)) is not None
    }


def faults(journal: Journal) -> list[str]:
    checks = verify_all(journal, keys=[KEY.public], replay=lambda run, _: replayer(journal, run))
    return [fault.what for verdict in checks for fault in verdict.faults]


def test_a_copy_and_the_copy_of_the_copy_have_all_and_verify(make: Opener, tmp_path: Path) -> None:
    with closing(SQLiteJournal(tmp_path / "source.db")) as source, closing(make()) as middle:
        filled(source)
        found = copied(source, middle)
        assert [one.why for one in found] == [None] * 6
        assert all_of(middle) == all_of(source)
        assert faults(middle) == []
        with closing(SQLiteJournal(tmp_path / "again.db")) as again:
            copied(middle, again)
            assert all_of(again) == all_of(source)
            assert faults(again) == []


def test_runs_go_on_in_a_copy(make: Opener, tmp_path: Path) -> None:
    with closing(SQLiteJournal(tmp_path / "source.db")) as source, closing(make()) as target:
        bench = filled(source)
        token = bench.vm.get_sync("waits").suspensions[0].token
        copied(source, target)
        there = Bench(journal=target, key=KEY)
        there.clock.time = bench.clock.time
        assert target.due(bench.clock.time / 1e6) == source.due(bench.clock.time / 1e6 + 100) == {"bench": 1}
        run = there.vm.resume_sync(token, "yes")
        assert (run.status, run.output) == ("SUCCESS", "ann")
        (run,) = there.vm.recover_sync()
        assert (run.id, run.status) == ("orphan", "SUCCESS")
        assert there.vm.run_sync(SMALL, run_id="small").status == "SUCCESS"
        assert there.tools.steps() == ["b", "dies"], "nothing that was done is done again"
        assert target.vault.get("erased") == {}
        assert faults(target) == []


def test_a_second_copy_adds_what_is_new_and_takes_away_what_was_erased(make: Opener) -> None:
    source = MemoryJournal()
    bench = filled(source)
    with closing(make()) as target:
        copied(source, target)
        assert sum(one.records for one in copied(source, target)) == 0
        token = bench.vm.get_sync("waits").suspensions[0].token
        bench.vm.resume_sync(token, "yes")
        bench.run(SMALL, "later")
        assert {one.run for one in copied(source, target) if one.records} == {"waits", "later"}
        assert target.vault.get("waits")
        bench.vm.erase_sync("waits")
        copied(source, target)
        assert target.vault.get("waits") == {}
        assert all_of(target) == all_of(source)


class Meanwhile(MemoryJournal):
    """A target in which something happens in the source when the first run comes."""

    def __init__(self, happens: Callable[[], object]) -> None:
        super().__init__()
        self.happens: Callable[[], object] | None = happens

    def create(self, append: Append, program: str, holder: str, ttl: float) -> Lease | None:
        happens, self.happens = self.happens, None
        if happens is not None:
            happens()
        return super().create(append, program, holder, ttl)


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
def test_a_copy_is_of_one_moment(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """A chain of which the second run came meanwhile is copied without it, and as it was before it."""
    source: Journal = MemoryJournal()
    if kind == "sqlite":
        source = SQLiteJournal(tmp_path / "source.db")
    if kind == "postgres":
        place = request.getfixturevalue("postgres")
        from stepward.vm.journal.postgres import PostgresJournal

        source = PostgresJournal(place.conninfo, schema=place.schema)
    with closing(source):
        bench = Bench(journal=source, key=KEY)
        bench.run(SMALL, "first")
        bench.tools.answers["ask"] = [Suspend("may I?")]
        waits = bench.run(program(tool("ask", "ask"), tool("b", "again"), end(), max_steps=1), "second")

        def happens() -> None:
            bench.tools.answers.clear()
            bench.vm.resume_sync(waits.suspensions[0].token, "yes")
            bench.vm.continue_run_sync("second", REST, grant={"steps": 5})

        target = Meanwhile(happens)
        before = all_of(source)
        assert [one.run for one in copied(source, target)] == ["first", "second"]
        assert all_of(target) == before
        assert all_of(source) != before
        assert faults(target) == []
        copied(source, target)
        assert all_of(target) == all_of(source)


def test_what_is_erased_while_it_is_copied_is_copied_again_as_erased() -> None:
    source = MemoryJournal()
    bench = Bench({"a": [Suspend("may I?")]}, journal=source, key=KEY)
    bench.run(SMALL, "first")
    bench.run(WAITS, "second", who="ann")
    target = Meanwhile(lambda: bench.vm.erase_sync("second"))
    assert [(one.run, one.why) for one in copied(source, target)] == [("first", None), ("second", None)]
    assert all_of(target) == all_of(source)
    assert faults(target) == []


@pytest.mark.parametrize("what", ["erased", "erased again", "pruned", "pruned again"])
def test_what_is_destroyed_in_the_source_is_in_the_target_where_both_are_in_one_database(
    postgres: Place, what: str
) -> None:
    """The server destroys nothing while somebody sees it, and the snapshot of the copy sees all of the database."""
    from stepward.vm.journal.postgres import PostgresJournal

    with (
        closing(PostgresJournal(postgres.conninfo, schema=postgres.schema)) as source,
        closing(PostgresJournal(postgres.conninfo, schema=f"{postgres.schema}_copy")) as target,
    ):
        bench = filled(source)
        if what.endswith("again"):
            copied(source, target)
            assert target.vault.get("waits")
        bench.vm.erase_sync("waits")
        if what.startswith("pruned"):
            assert "waits" in {one.run for one in bench.vm.prune_sync(bench.clock.time / 1e6 + 1) if one.why is None}
        assert {one.why for one in copied(source, target)} == {None}
        assert target.vault.get("waits") == {}
        assert all_of(target) == all_of(source)
        assert set(target.pruned()) == set(source.pruned())
        assert faults(target) == []


@pytest.mark.parametrize("goes", ["erased", "pruned"])
def test_values_of_another_run_with_the_id_of_one_that_is_gone_stay(goes: str) -> None:
    source, target = MemoryJournal(), MemoryJournal()
    bench = filled(source)
    bench.vm.erase_sync("waits")
    if goes == "pruned":
        bench.vm.prune_sync(bench.clock.time / 1e6 + 1)
        assert "waits" in set(source.pruned())
    Bench({"a": [Suspend("may I?")]}, journal=target).run(WAITS, "waits", who="eve")
    before = target.vault.get("waits")
    assert before
    found = {one.run: one.why for one in copied(source, target)}
    assert found["waits"] == "the target has it with other records: copy into another journal"
    assert target.vault.get("waits") == before


def test_values_stay_encrypted_and_their_keys_where_they_are(make: Opener, tmp_path: Path) -> None:
    keys = FileKeys(tmp_path / "keys")
    with closing(SQLiteJournal(tmp_path / "source.db", keys=keys)) as source:
        Bench({"a": [Suspend("may I?")]}, journal=source).run(WAITS, "waits", who="ann")
    with closing(SQLiteJournal(tmp_path / "source.db")) as source, closing(make()) as target:
        assert [one.why for one in copied(source, target)] == [None]
        assert all(map(is_encrypted, target.vault.get("waits").values()))


def test_what_is_damaged_or_another_run_is_left_out_and_the_rest_is_copied() -> None:
    source, target = MemoryJournal(), MemoryJournal()
    bench = Bench(journal=source)
    for name in ("changed", "cut", "other", "good"):
        bench.run(SMALL, name)
    bench.run(program(tool("x", "again"), end(), name="unknown"), "undocumented")
    changed, cut = source._runs["changed"].entries, source._runs["cut"]
    changed[1] = changed[1]._replace(record=changed[1].record.replace(b"visit", b"visid"))
    del cut.entries[1]
    del source._documents[bench.bodies("started", "undocumented")[0]["program"]]
    Bench(journal=target).run(REST, "other")
    found = {one.run: one.why for one in copied(source, target)}
    assert found["good"] is None
    assert str(found["changed"]).startswith("record 1 was changed")
    assert "`stepward verify` says more" in str(found["cut"])
    assert found["other"] == "the target has it with other records: copy into another journal"
    assert "is missing or was changed" in str(found["undocumented"])
    assert set(target.names()) == {"other", "good"}


def test_a_target_that_is_ahead_is_left_as_it_is() -> None:
    source, target = MemoryJournal(), MemoryJournal()
    bench = Bench({"a": [Suspend("may I?")]}, journal=source)
    run: Run = bench.run(program(tool("a", "ask"), end()), "waits")
    copied(source, target)
    Bench(journal=target).vm.resume_sync(run.suspensions[0].token, "yes")
    before = all_of(target)
    assert copied(source, target) == [Copied("waits")]
    assert all_of(target) == before


def test_a_copy_that_broke_off_is_finished_by_the_next() -> None:
    source = MemoryJournal()
    filled(source)

    class Full(MemoryJournal):
        room = 3

        def append(self, append: Append, fence: int | None) -> None:
            self.room -= 1
            if self.room == 0:
                raise OSError("the disk is full")
            super().append(append, fence)

    target = Full()
    with pytest.raises(OSError, match="full"):
        copied(source, target)
    assert target.due(1e12) == {}, "half a run is due to nobody"
    copied(source, target)
    assert all_of(target) == all_of(source)


def test_a_lost_connection_ends_a_snapshot_instead_of_showing_another_moment(postgres: Place) -> None:
    import psycopg

    from stepward.vm.journal.postgres import PostgresJournal

    with closing(PostgresJournal(postgres.conninfo, schema=postgres.schema)) as source:
        Bench(journal=source).run(SMALL, "small")
        with source.frozen() as still:
            assert still.head("small") == source.head("small")
            with psycopg.connect(postgres.conninfo, autocommit=True) as other:
                other.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state = 'idle in transaction'"
                )
            with pytest.raises(JournalError, match="lost while it was copied: copy again"):
                still.head("small")
        assert source.head("small") is not None
