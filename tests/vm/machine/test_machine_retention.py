"""Fast: which old runs are pruned, what stays of them, and that nothing happens twice afterwards."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from journals import KEY, STRANGER
from machines import TOOLS, Bench, end, program, tool
from stepward.vm import MemoryJournal, Program, Suspend
from stepward.vm.journal.copying import copy_runs
from stepward.vm.journal.pruning import Pruned, PrunedRefused
from stepward.vm.journal.receipts import Receipt
from stepward.vm.journal.rotation import sign_anew
from stepward.vm.journal.signing import SigningKey
from stepward.vm.journal.store import Head, LeaseLost
from stepward.vm.journal.verify import verify, verify_all
from stepward.vm.machine.refusals import NoSuchRun, RunRefused
from stepward.vm.machine.replay import replayer
from stepward.vm.machine.retention import CHANGED
from stepward.vm.machine.stored_due import stored_due

NEW = SigningKey.from_seed(bytes([7] * 32))
DAY = 86_400_000_000
SMALL = program(tool("a", "again"), end())
ASKS = program(tool("ask", "ask"), tool("b", "again"), end(), max_steps=1)
REST = program(tool("c", "read"), end(), name="rest")
SECRET = program(tool("d", "again", args={"who": "$who"}), end(), inputs={"who": {"type": "string", "sensitive": True}})


def shown(bench: Bench, days: float = 0) -> dict[str, str | None]:
    """Return which runs would be pruned that ended so many days ago, and why the others stay."""
    return {one.run: one.why for one in bench.vm.prunable_sync(bench.clock.time / 1e6 - days * 86_400)}


def pruned(bench: Bench, days: float = 0) -> dict[str, str | None]:
    return {one.run: one.why for one in bench.vm.prune_sync(bench.clock.time / 1e6 - days * 86_400, by="ann")}


def receipt(bench: Bench, run: str, key: SigningKey | None = None) -> Receipt:
    found = bench.vm.get_sync(run)
    head = bench.journal.head(run)
    assert head is not None
    return Receipt.give(run, head.seq, head.digest, found.status, bytes.fromhex(found.trace_hash), key)


def test_runs_that_ended_long_ago_are_pruned_and_no_others() -> None:
    bench = Bench()
    bench.run(SMALL, "old")
    bench.tools.answers["ask"] = [Suspend("may I?")]
    bench.run(ASKS, "waits")
    bench.clock.time += 10 * DAY
    bench.run(SMALL, "new")
    bench.clock.time += 1
    assert shown(bench, 5) == {"old": None}
    assert set(bench.journal.names()) == {"old", "waits", "new"}, "a dry run changes nothing"
    assert pruned(bench, 5) == {"old": None}
    assert set(bench.journal.names()) == {"waits", "new"}
    assert pruned(bench, 5) == {}
    with pytest.raises(NoSuchRun, match="run `old` was pruned"):
        bench.vm.get_sync("old")


def test_a_run_is_pruned_whichever_record_ends_it() -> None:
    bench = Bench({"b": ValueError("no")})
    bench.run(program(tool("a", "again", is_terminal=True)), "by a step")
    bench.run(program(tool("b", "again"), end()), "by a failure")
    bench.tools.answers["ask"] = [Suspend("may I?")]
    bench.run(ASKS, "cancelled")
    bench.vm.cancel_sync("cancelled")
    assert "ended" not in bench.kinds("by a step")
    bench.clock.time += 1
    assert pruned(bench) == {"cancelled": None, "by a failure": None, "by a step": None}


def test_an_id_that_was_pruned_is_never_used_again() -> None:
    bench = Bench()
    bench.run(SMALL)
    bench.run(SECRET, "secret", who="ann")
    bench.clock.time += 1
    assert pruned(bench) == {"secret": None, "run": None}
    for again, inputs in ((SMALL, {}), (SECRET, {"who": "ann"})):
        for run in ("run", "secret"):
            with pytest.raises(RunRefused, match=f"run `{run}` was pruned, and no other run gets its id"):
                bench.vm.run_sync(again, inputs, run_id=run)
            with pytest.raises(RunRefused, match="was pruned"):
                bench.vm.queue_sync(again, inputs, run_id=run)
    assert bench.tools.steps() == ["a", "d"], "nothing happened twice"


def test_sensitive_values_of_a_pruned_run_are_destroyed() -> None:
    bench = Bench()
    bench.run(SECRET, "secret", who="ann")
    assert bench.journal.vault.get("secret")
    bench.clock.time += 1
    pruned(bench)
    assert bench.journal.vault.get("secret") == {}
    with pytest.raises(LeaseLost):
        bench.journal.vault.put("secret", {"late": b"1"})
    kept = Pruned.from_bytes(bench.journal.kept("secret") or b"")
    assert (kept.status, kept.name, kept.by, len(kept.digests)) == ("SUCCESS", "bench", "ann", 5)


def chain(bench: Bench) -> None:
    """Make a run that used up its steps, and one that continues it."""
    bench.run(program(tool("a", "again"), tool("b", "again"), end(), max_steps=1), "chain")
    bench.clock.time += 10 * DAY
    bench.vm.continue_run_sync("chain", REST, grant={"steps": 5})
    bench.clock.time += 1


def test_a_run_stays_while_one_that_continues_it_stays() -> None:
    bench = Bench()
    chain(bench)
    assert pruned(bench, 5) == {"chain": "run `chain~1` stands on it"}
    assert verify(bench.journal, "chain~1", replay=replayer(bench.journal, "chain~1")).is_intact
    assert pruned(bench) == {"chain~1": None, "chain": None}


def test_a_run_stays_while_one_that_continues_it_waits() -> None:
    bench = Bench({"c": [Suspend("may I?")]})
    bench.run(program(tool("a", "again"), tool("b", "again"), end(), max_steps=1), "chain")
    asks = program(tool("c", "ask"), end(), name="rest")
    assert bench.vm.continue_run_sync("chain", asks, grant={"steps": 5}).status == "SUSPENDED"
    bench.clock.time += 100 * DAY
    assert pruned(bench) == {"chain": "run `chain~1` stands on it"}


def test_a_run_stays_if_one_that_stands_on_it_changes_while_both_are_pruned() -> None:
    class Changing(MemoryJournal):
        def prune(self, head: Head, kept: bytes) -> bool:
            return head.run != "chain~1" and super().prune(head, kept)

    bench = Bench(journal=Changing())
    chain(bench)
    assert pruned(bench) == {"chain~1": CHANGED, "chain": "run `chain~1` stands on it"}
    assert set(bench.journal.names()) == {"chain", "chain~1"}


def test_a_run_stays_that_is_continued_while_others_are_pruned() -> None:
    class Continuing(MemoryJournal):
        def prune(self, head: Head, kept: bytes) -> bool:
            if head.run == "later":
                with ThreadPoolExecutor(1) as another:
                    work = Bench(journal=self).vm.continue_run_sync
                    another.submit(work, "chain", REST, grant={"steps": 5}).result()
            return super().prune(head, kept)

    bench = Bench(journal=Continuing())
    bench.run(program(tool("a", "again"), tool("b", "again"), end(), max_steps=1), "chain")
    bench.run(SMALL, "later")
    bench.clock.time += 1
    assert pruned(bench) == {"later": None, "chain": "run `chain~1` stands on it"}
    assert verify(bench.journal, "chain~1", replay=replayer(bench.journal, "chain~1")).is_intact


def test_names_that_look_like_turns_or_continuations_keep_nothing() -> None:
    bench = Bench()
    for name in ("a.1", "b", "b.x", "c~1"):
        bench.run(SMALL, name)
    bench.clock.time += 10 * DAY
    for name in ("a.2", "b~1", "c~2"):
        bench.run(SMALL, name)
    bench.clock.time += 1
    assert pruned(bench, 5) == {"a.1": None, "b": None, "b.x": None, "c~1": None}


def test_a_damaged_run_stays() -> None:
    bench = Bench()
    bench.run(SMALL)
    entries = bench.journal._runs["run"].entries
    entries[1] = entries[1]._replace(record=entries[1].record.replace(b"visit", b"visid"))
    bench.clock.time += 1
    (why,) = pruned(bench).values()
    assert str(why).startswith("it can't be read: ")


# -- receipts ----------------------------------------------------------------------------------------------------------


def test_receipts_verify_after_their_run_was_pruned() -> None:
    bench = Bench({"ask": [Suspend("may I?")]}, key=KEY)
    run = bench.run(program(tool("ask", "ask"), end()))
    early = receipt(bench, "run", KEY)
    bench.resume(run, "yes")
    late = receipt(bench, "run", KEY)
    bench.clock.time += 1
    pruned(bench)
    verdict = verify(bench.journal, "run", keys=[KEY.public], receipts=[early, late])
    assert (verdict.is_intact, verdict.is_pruned, verdict.receipts) == (True, True, 2)
    assert (verdict.records, verdict.signed_by) == (late.seq + 1, KEY.public.id)
    assert [one.is_pruned for one in verify_all(bench.journal, keys=[KEY.public])] == [True]


def test_a_receipt_of_what_never_was_does_not_fit() -> None:
    bench = Bench()
    bench.run(SMALL)
    good = receipt(bench, "run")
    bench.clock.time += 1
    pruned(bench)
    for wrong, words in (
        (Receipt.give("run", good.seq + 1, good.digest, good.status, good.trace), "ended with record"),
        (Receipt.give("run", 1, good.digest, good.status, good.trace), "was not the one that a receipt was given for"),
        (Receipt.give("run", good.seq, good.digest, "FAILED", good.trace), "says another end"),
        (Receipt.give("run", good.seq, good.digest, good.status, bytes(32)), "says another end"),
    ):
        verdict = verify(bench.journal, "run", receipts=[good, wrong])
        assert [words in fault.what for fault in verdict.faults] == [True]
        assert verdict.receipts == 1
    forged = Receipt.give("run", good.seq, good.digest, good.status, good.trace, STRANGER)
    assert not verify(bench.journal, "run", keys=[KEY.public], receipts=[forged]).is_intact


def test_what_is_kept_can_not_be_changed_under_a_key() -> None:
    bench = Bench(key=KEY)
    bench.run(SMALL)
    bench.run(SMALL, "other")
    bench.clock.time += 1
    pruned(bench)
    head, kept = bench.journal._kept["run"]
    assert verify(bench.journal, "run", keys=[STRANGER.public]).faults[0].what.endswith("none of the given keys")
    for change, words in (
        ((b'"status":"SUCCESS"', b'"status":"FAILED"'), "is signed by none of the given keys"),
        ((b'"v":1', b'"v":2'), "can't be read"),
        ((b'"at":', b'"at": '), "can't be read"),
        ((b'"run":"run"', b'"run":"ran"'), "is of another run"),
    ):
        bench.journal._kept["run"] = (head, kept.replace(*change))
        assert words in " ".join(fault.what for fault in verify(bench.journal, "run", keys=[KEY.public]).faults)
    bench.journal._kept["run"] = (head, bench.journal._kept["other"][1])
    assert "is of another run" in verify(bench.journal, "run", keys=[KEY.public]).faults[0].what


@pytest.mark.parametrize("kept", [b"", b"{}", b"null", b"\xff", b'{"v":1}'])
def test_what_is_nothing_kept_is_refused(kept: bytes) -> None:
    with pytest.raises(PrunedRefused):
        Pruned.from_bytes(kept)


def test_a_new_key_signs_what_is_kept() -> None:
    bench = Bench(key=KEY)
    bench.run(SMALL)
    bench.clock.time += 1
    pruned(bench)
    (found,) = sign_anew(bench.journal, STRANGER, [NEW.public])
    assert "none of the given keys" in found.faults[0].what
    assert [one.is_new for one in sign_anew(bench.journal, NEW, [KEY.public])] == [True]
    assert [one.is_new for one in sign_anew(bench.journal, NEW, [KEY.public])] == [False]
    assert verify(bench.journal, "run", keys=[NEW.public]).is_intact


# -- copies ------------------------------------------------------------------------------------------------------------


def test_a_copy_prunes_what_its_source_has_pruned_and_takes_its_ids() -> None:
    bench, backup, fresh = Bench(key=KEY), MemoryJournal(), MemoryJournal()
    bench.run(SMALL)
    bench.run(SECRET, "secret", who="ann")
    list(copy_runs(bench.journal, backup, stored_due(bench.journal)))
    bench.clock.time += 1
    pruned(bench)
    for target in (backup, fresh):
        found = list(copy_runs(bench.journal, target, stored_due(bench.journal)))
        assert {one.run: one.why for one in found} == {"run": None, "secret": None}
        assert list(target.names()) == []
        assert target.vault.get("secret") == {}
        assert all(one.is_intact for one in verify_all(target, keys=[KEY.public]))
        for again, inputs, run in ((SMALL, {}, "run"), (SECRET, {"who": "ann"}, "secret")):
            with pytest.raises(RunRefused, match="was pruned"):
                Bench(journal=target).vm.run_sync(again, inputs, run_id=run)
        assert target.vault.get("secret") == {}, "the refused request leaves no values"
    assert [one.is_new for one in sign_anew(fresh, NEW, [KEY.public])] == [True, True]


def test_a_pruned_run_does_not_come_back_from_an_old_copy() -> None:
    bench, backup = Bench(), MemoryJournal()
    bench.run(SMALL)
    list(copy_runs(bench.journal, backup, stored_due(bench.journal)))
    bench.clock.time += 1
    pruned(bench)
    assert [one.why for one in copy_runs(backup, bench.journal, stored_due(backup))] == [None]
    assert list(bench.journal.names()) == []


def test_a_copy_with_another_run_of_a_pruned_id_is_left() -> None:
    bench, target = Bench(), MemoryJournal()
    bench.run(SMALL)
    Bench(journal=target).run(Program.from_dict({"name": "x", "inputs": {}, "tools": TOOLS, "steps": [end()]}))
    bench.clock.time += 1
    pruned(bench)
    (found,) = copy_runs(bench.journal, target, stored_due(bench.journal))
    assert found.why == "the target has it with other records: copy into another journal"
    assert list(target.names()) == ["run"]
