"""A machine and the store that somebody else has written: it goes on only with what a machine wrote."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from journals import KEY, STRANGER
from machines import Bench, assign, check, end, program, tool, unchecked
from stepward.sabotage.stores.forging import Data, chained, entry_of, raw_store_of
from stepward.vm import DeliveryRefused, ExecutionVM, InDoubt, MemoryJournal, SQLiteJournal
from stepward.vm.journal.receipts import Receipt
from stepward.vm.journal.store import Append, Entry, Head, JournalError
from stepward.vm.journal.verify import verify
from stepward.vm.machine.history import fold, load, stored_plan
from stepward.vm.machine.replay import replayer
from stepward.vm.machine.tools import Suspend

WAITS = program(tool("ask", "ask"), tool("pay", "write"), end())


def waiting(**machine: Any) -> tuple[Bench, Any]:
    """Return a run that waits for somebody."""
    bench = Bench({"ask": Suspend("may I?")}, **machine)
    return bench, bench.run(WAITS)


def later(bench: Bench, **machine: Any) -> ExecutionVM:
    """Return another machine at the same store, when nobody has a lease any more."""
    bench.clock.time += 1_000_000_000
    return unchecked(bench.tools, bench.model, bench.journal, clock=bench.clock, **machine)


def put(bench: Bench, entries: list[Entry], signature: bytes | None) -> None:
    last = entries[-1]
    raw_store_of(bench.journal).put("run", entries, Head("run", last.seq, last.digest, signature), None)


# -- signatures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("signer", [None, STRANGER])
def test_a_machine_with_a_key_does_nothing_with_a_run_that_it_did_not_sign(signer: Any) -> None:
    """Else it would sign, with the next record, what somebody else has written."""
    bench, run = waiting(key=KEY)
    head = bench.journal.head("run")
    signature = None if signer is None else signer.sign_head("run", head.seq, head.digest)
    put(bench, bench.journal.read("run"), signature)
    vm = later(bench, key=KEY)
    for call in (
        lambda: vm.get_sync("run"),
        lambda: vm.recover_sync("run"),
        lambda: vm.resume_sync(run.suspensions[0].token, "yes"),
        lambda: vm.resume_sync("run.wrong", "yes"),
        lambda: vm.cancel_sync("run"),
        lambda: vm.erase_sync("run"),
        lambda: vm.run_sync(WAITS, run_id="run"),
    ):
        with pytest.raises(JournalError, match=f"not signed by the key {KEY.id}"):
            call()
    assert bench.journal.head("run") == head._replace(signature=signature)
    assert bench.tools.steps() == ["ask"]
    put(bench, bench.journal.read("run"), head.signature)
    assert later(bench, key=KEY).resume_sync(run.suspensions[0].token, "yes").status == "SUCCESS"
    assert verify(bench.journal, "run", keys=[KEY.public]).is_intact


class Crowded(MemoryJournal):
    """A store in which somebody without the key appends a request to cancel, just before the run's second append."""

    def append(self, append: Append, fence: int | None) -> None:
        if fence is not None and not any(b'"cancel"' in entry.record for entry in self.read(append.run)):
            last = self.read(append.run)[-1]
            record = {"at": 0, "body": {}, "kind": "cancel", "note": {}}
            forged = entry_of(record, last.digest, last.seq + 1)
            super().append(Append(append.run, last.seq, [forged], "RUNNING", 0.0, True), None)
        super().append(append, fence)


def test_a_driver_does_not_sign_what_somebody_without_the_key_has_appended() -> None:
    bench = Bench(journal=Crowded(), key=KEY)
    with pytest.raises(JournalError, match="not signed"):
        bench.vm.run_sync(program(tool("pay", "write"), end()), run_id="run")
    assert bench.tools.steps() == []
    assert Bench(journal=Crowded()).run(program(tool("pay", "write"), end())).status == "CANCELLED"


# -- the head ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", [0, 1, 2])
@pytest.mark.parametrize("key", [None, KEY])
def test_a_run_that_was_cut_while_its_head_was_left_is_refused(kept: int, key: Any, tmp_path: Path) -> None:
    bench = Bench(journal=SQLiteJournal(tmp_path / "runs.db"), key=key)
    bench.run(program(tool("pay", "write"), end()))
    raw_store_of(bench.journal).put("run", bench.journal.read("run")[:kept], None, None)
    for call in (bench.vm.get_sync, later(bench, key=key).recover_sync):
        with pytest.raises(JournalError, match=r"head|start"):
            call("run")
    assert bench.tools.steps() == ["pay"]


# -- types of columns --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "statement", "words"),
    [
        ("", "UPDATE documents SET text = CAST(text AS TEXT)", "document"),
        ("", "UPDATE runs SET seq = 'x'", "head"),
        ("", "UPDATE runs SET digest = 'x'", "head"),
        ("", "UPDATE records SET digest = 'x' WHERE seq = 1", "record 1"),
        (".vault", "UPDATE secrets SET value = 'x'", "neither in the vault nor erased"),
    ],
)
def test_a_value_of_another_type_is_refused_in_words(file: str, statement: str, words: str, tmp_path: Path) -> None:
    store = SQLiteJournal(tmp_path / "runs.db")
    Bench(journal=store).run(program(end(output="$x"), inputs={"x": {"type": "string", "sensitive": True}}), x="y")
    with closing(sqlite3.connect(f"{tmp_path / 'runs.db'}{file}")) as connection, connection:
        connection.execute(statement)
    with pytest.raises(JournalError, match=words):
        unchecked(journal=store).get_sync("run")


def test_a_resume_token_that_was_edited_in_the_vault_is_not_handed_out() -> None:
    bench, run = waiting()
    (name,) = bench.journal.vault.get("run")
    for secret in (b"\xff", b"another", b""):
        raw_store_of(bench.journal).put_secrets("run", {name: secret})
        found = bench.vm.get_sync("run")
        assert found.suspensions[0].token == ""
        with pytest.raises(DeliveryRefused):
            bench.vm.resume_sync("run.another", "yes")
    assert bench.resume(run, "yes").status == "SUCCESS"


# -- the meaning, where there is no key --------------------------------------------------------------------------------


def flip(data: list[Data]) -> None:
    data[1]["body"] |= {"branch": "otherwise", "next": "pay"}


def mistype(data: list[Data]) -> None:
    data[2]["body"]["values"]["v"] = 2


BRANCHES = program(
    check("c", "1 < 2", "s", "pay"),
    assign("s", {"next_step": "look"}, v=1),
    tool("look", next_step="e"),
    tool("pay", "write"),
    end("e"),
)


@pytest.mark.parametrize(("forge", "kept", "seq"), [(flip, 2, 1), (mistype, 3, 2)])
def test_a_machine_without_a_key_does_nothing_on_the_word_of_records_that_no_machine_wrote(
    forge: Callable[[list[Data]], None], kept: int, seq: int
) -> None:
    bench = Bench()
    bench.run(BRANCHES)
    data = [json.loads(entry.record) for entry in bench.journal.read("run")]
    bench.tools.asked.clear()
    put(bench, chained(data[:kept]), None)
    assert later(bench).get_sync("run").status == "RUNNING"
    forge(data)
    put(bench, chained(data[:kept]), None)
    with pytest.raises(JournalError, match=f"record {seq}: the machine would not have written"):
        later(bench).recover_sync("run")
    assert bench.tools.steps() == []
    assert bench.journal.rows()[0].expires == 0.0


def test_honest_halves_of_runs_are_gone_on_with() -> None:
    bench = Bench()
    bench.run(BRANCHES)
    entries = list(bench.journal.read("run"))
    for length in range(1, len(entries)):
        put(bench, entries[:length], None)
        assert later(bench).recover_sync("run")[0].status == "SUCCESS"


@pytest.mark.parametrize("change", [{"key": "0" * 64}, {"performance": 2}, {"attempt": 2}])
def test_an_intent_of_another_performance_is_found(change: dict[str, Any]) -> None:
    bench = Bench()
    bench.run(program(tool("pay", "write"), end()))
    data = [json.loads(entry.record) for entry in bench.journal.read("run")]
    assert data[1]["kind"] == "intent"
    put(bench, chained(data), None)
    assert verify(bench.journal, "run", replay=replayer(bench.journal, "run")).is_intact
    for record in data[1:3]:
        record["note"] |= {name: value for name, value in change.items() if name in record["note"]}
    put(bench, chained(data), None)
    (fault,) = verify(bench.journal, "run", replay=replayer(bench.journal, "run")).faults
    assert fault.what.startswith("record 1: ")


# -- receipts ----------------------------------------------------------------------------------------------------------


def test_what_a_receipt_says_of_status_and_trace_is_held_against_the_records() -> None:
    bench, run = waiting()
    early = Receipt.give("run", run.seq, bytes.fromhex(run.head), run.status, bytes.fromhex(run.trace_hash))
    over = bench.resume(run, "yes")
    late = Receipt.give("run", over.seq, bytes.fromhex(over.head), over.status, bytes.fromhex(over.trace_hash))

    def faults(*receipts: Receipt) -> list[tuple[int | None, str]]:
        check = replayer(bench.journal, "run", receipts)
        found = verify(bench.journal, "run", receipts=receipts, replay=check).faults
        return [(fault.seq, str(fault)) for fault in found]

    assert faults(late, early) == []
    lies = Receipt.give("run", early.seq, early.digest, "SUCCESS", early.trace)
    where = f"the receipt for record {early.seq} says the"
    assert faults(lies, late) == [(early.seq, f"{where} status `SUCCESS`, and it was `SUSPENDED`")]
    lies = Receipt.give("run", early.seq, early.digest, early.status, late.trace)
    said, is_so = late.trace.hex(), early.trace.hex()
    assert faults(lies) == [(early.seq, f"{where} trace hash `{said}`, and it was `{is_so}`")]
    elsewhere = Receipt.give("run", early.seq, bytes(32), "SUCCESS", early.trace)
    assert [seq for seq, _ in faults(elsewhere)] == [early.seq]


# -- what a record says beside its kind --------------------------------------------------------------------------------


def rewritten(bench: Bench, edit: Callable[[list[Data]], None]) -> list[str]:
    """Return what a replay finds in a run whose records were edited, and all hashed anew."""
    records = [json.loads(entry.record) for entry in bench.journal.read("run")]
    edit(records)
    put(bench, chained(records), None)
    return [fault.what for fault in verify(bench.journal, "run", replay=replayer(bench.journal, "run")).faults]


def reconciled(verdict: Any) -> Bench:
    bench = Bench({"pay": InDoubt("who knows")})
    bench.run(program(tool("pay", "write"), end()))
    bench.vm.reconcile_sync("run", "pay", verdict, "receipt" if verdict == "done" else None)
    return bench


def last_of(records: list[Data], kind: str) -> Data:
    return [record for record in records if record["kind"] == kind][-1]


@pytest.mark.parametrize(
    ("verdict", "edit"),
    [
        ("abandon", lambda record: record["body"].update(ends="SUCCESS", reason="declared")),
        ("abandon", lambda record: record["body"].update(more=1)),
        ("abandon", lambda record: record["note"].update(verdict="done")),
        ("done", lambda record: record["note"].update(verdict="perhaps")),
        ("done", lambda record: record["body"].update(kind="failed")),
        ("done", lambda record: record["body"].pop("kind")),
        ("done", lambda record: record["body"].update(more=1)),
    ],
)
def test_a_delivery_says_what_its_verdict_says_and_no_more(verdict: Any, edit: Callable[[Data], None]) -> None:
    bench = reconciled(verdict)
    assert not rewritten(bench, lambda _: None)
    assert rewritten(bench, lambda records: edit(last_of(records, "reconciled")))


@pytest.mark.parametrize("kind", ["intent", "attempt"])
def test_a_record_with_a_field_more_is_none_of_the_machine(kind: str) -> None:
    bench = Bench()
    bench.run(program(tool("pay", "write"), end()))
    (fault,) = rewritten(bench, lambda records: last_of(records, kind)["body"].update(more=1))
    assert "fields" in fault


@pytest.mark.parametrize(("kind", "field"), [("started", "inputs"), ("assigned", "values")])
def test_a_record_makes_no_room_for_a_name_that_the_program_does_not_have(kind: str, field: str) -> None:
    bench = Bench()
    run = bench.run(program(assign("a", x=1), end()))
    found = load(bench.journal, run.id, partial(stored_plan, bench.journal))
    assert found is not None
    events = [
        one._replace(body={**one.body, field: {**one.body[field], "no_such": 1}}) if one.kind == kind else one
        for one in found.events
    ]
    with pytest.raises(JournalError):
        fold(found.plan, events)
    assert "no_such" not in found.plan.names_of_slots.values()
