"""Journals that were rewritten and re-hashed whole: no key, no receipt, only their meaning can give them away."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from machines import unchecked
from stepward.vm import MemoryJournal, Program, SQLiteJournal
from stepward.vm.journal.canonical import canonical
from stepward.vm.journal.records import NO_DIGEST, write_record
from stepward.vm.journal.store import Append, Entry
from stepward.vm.journal.verify import verify
from stepward.vm.machine.clock import ManualClock
from stepward.vm.machine.replay import replayer

PROGRAM = Program.from_dict(
    {
        "inputs": {},
        "tools": {"read": {"effect": "read", "returns": {"type": "integer"}}},
        "steps": [
            {"id": "one", "type": "tool", "tool": "read", "on_error": "retry", "max_retries": 2, "error_step": "bad"},
            {
                "id": "two",
                "type": "tool",
                "tool": "read",
                "timeout_seconds": 1,
                "on_timeout": "fallback",
                "fallback": 7,
            },
            {
                "id": "both",
                "type": "parallel",
                "parallel_steps": [
                    {"id": "left", "type": "tool", "tool": "read"},
                    {"id": "right", "type": "tool", "tool": "read", "on_error": "skip"},
                ],
                "next_step": "end",
            },
            {"id": "bad", "type": "end", "outcome": "failure"},
            {"id": "end", "type": "end"},
        ],
    }
)

Forge = Callable[[list[dict[str, Any]]], None]


def rewritten(forge: Forge) -> list[str]:
    """Return what verification says of a run whose records were changed and chained anew."""
    journal = MemoryJournal()
    unchecked({"read": lambda: 1}, journal=journal, clock=ManualClock()).run_sync(PROGRAM, run_id="r")
    data = [json.loads(entry.record) for entry in journal.read("r")]
    program = data[0]["body"]["program"]
    forge(data)
    return verified(data, journal, program)


def verified(data: list[dict[str, Any]], journal: MemoryJournal, program: str) -> list[str]:
    """Return what verification says of records that are chained anew, with the program of a journal beside them."""
    entries: list[Entry] = []
    digest = NO_DIGEST
    for seq, record in enumerate(data):
        body, note = canonical(record["body"]), canonical(record["note"])
        entries.append(write_record(seq, digest, record["kind"], body, note, record["at"]))
        digest = entries[-1].digest
    forged = MemoryJournal()
    document = journal.document(program)
    assert document is not None
    forged.put_document(program, document)
    forged.create(Append("r", -1, entries, "SUCCESS", 0.0, True), "p", "test", 1.0)
    return [fault.what for fault in verify(forged, "r", replay=replayer(forged, "r")).faults]


def of(data: list[dict[str, Any]], step: str) -> dict[str, Any]:
    return next(record for record in data if record["body"].get("step") == step)


def unchanged(data: list[dict[str, Any]]) -> None:
    assert len(data) == 7


def honest_fallback(data: list[dict[str, Any]]) -> None:
    of(data, "two")["body"] |= {"kind": "fallback", "output": 7}


def honest_skip(data: list[dict[str, Any]]) -> None:
    body = of(data, "right")["body"]
    body |= {"kind": "skipped", "error": "it failed"}
    del body["output"]


def skip(data: list[dict[str, Any]]) -> None:
    body = of(data, "left")["body"]
    body |= {"kind": "skipped", "error": "it failed"}
    del body["output"]


def fallback(data: list[dict[str, Any]]) -> None:
    of(data, "two")["body"] |= {"kind": "fallback", "output": 8}


def doubt(data: list[dict[str, Any]]) -> None:
    body = of(data, "left")["body"]
    body |= {"kind": "doubt", "error": "who knows"}
    del body["output"]


def patience(data: list[dict[str, Any]]) -> None:
    """Three attempts where the program allows two."""
    last = data.index(of(data, "one"))
    for number in (1, 2):
        again = json.loads(json.dumps(data[last]))
        again["body"] = {"error": "no", "kind": "again", "step": "one", "visit": 1}
        again["note"]["attempt"] = again["note"]["performance"] = number
        data.insert(last + number - 1, again)
    data[last + 2]["note"] |= {"attempt": 3, "performance": 3}


@pytest.mark.parametrize("forge", [unchanged, honest_fallback, honest_skip])
def test_what_the_program_admits_can_have_happened(forge: Forge) -> None:
    assert rewritten(forge) == []


@pytest.mark.parametrize(
    ("forge", "words"),
    [
        (skip, "an attempt of `left` can't come to `skipped`"),
        (fallback, "an attempt of `two` can't come to `fallback`"),
        (doubt, "an attempt of `left` can't come to `doubt`"),
        (patience, "an attempt of `one` can't come to `again`"),
    ],
)
def test_an_outcome_that_the_program_does_not_admit_is_found(forge: Forge, words: str) -> None:
    (fault,) = rewritten(forge)
    assert words in fault


def test_an_erased_run_verifies_though_its_texts_can_not_be_written_again(tmp_path: Any) -> None:
    """A value inside a longer text: what the step was called with can't be computed any more."""
    program = Program.from_dict(
        {
            "inputs": {"mail": {"type": "string", "sensitive": True}, "sum": {"type": "integer", "sensitive": True}},
            "tools": {"send": {"effect": "write", "idempotent": True, "args": {"text": {"type": "string"}}}},
            "steps": [
                {"id": "twice", "type": "set", "set": {"double": "$sum * 2"}},
                {"id": "many", "type": "condition", "condition": "$double > 5", "then": "send", "otherwise": "end"},
                {
                    "id": "send",
                    "type": "tool",
                    "tool": "send",
                    "args": {"text": "to $mail: $double"},
                    "next_step": "end",
                },
                {"id": "end", "type": "end", "output": "$mail has $double"},
            ],
        }
    )
    journal = SQLiteJournal(tmp_path / "runs.db")
    machine = unchecked({"send": lambda text: text[:0]}, journal=journal)
    assert machine.run_sync(program, {"mail": "ada@example.com", "sum": 4}, run_id="r").status == "SUCCESS"
    assert verify(journal, "r", replay=replayer(journal, "r")).is_intact
    machine.erase_sync("r")
    verdict = verify(journal, "r", replay=replayer(journal, "r"))
    assert verdict.is_intact, verdict.faults


STARTS: dict[str, tuple[Forge, str]] = {
    "a program that is no name": (lambda data: data[0]["body"].update(program=7), "does not name"),
    "policies that are no names": (lambda data: data[0]["body"].update(policies=[7]), "does not name"),
    "a waiver that no policy has": (lambda data: data[0]["body"].update(waived=["gate:allow"]), "no policy waives"),
    "an input that the program lacks": (lambda data: data[0]["body"].update(inputs={"more": 1}), "record 0"),
    "limits that are none": (lambda data: data[0]["note"].update(limits="abc"), "its limits are none"),
    "a field more": (lambda data: data[0]["body"].update(more=1), "not those of a start"),
    "an outcome that has no kind": (lambda data: data[1]["body"].pop("kind"), "of this program"),
    "an attempt without a number": (lambda data: data[1]["note"].pop("attempt"), "of this program"),
}


@pytest.mark.parametrize(("forge", "words"), STARTS.values(), ids=STARTS)
def test_what_no_machine_starts_and_what_has_an_ill_shape_is_found_in_words(forge: Forge, words: str) -> None:
    faults = rewritten(forge)
    assert any(words in fault for fault in faults), faults


@pytest.mark.parametrize("value", [True, "1", None], ids=repr)
@pytest.mark.parametrize(
    ("place", "name"),
    [("body", "visit"), ("note", "attempt"), ("note", "performance"), ("note", "started"), ("note", "took")],
)
def test_a_number_of_an_attempt_is_a_whole_number(place: str, name: str, value: Any) -> None:
    """`true` equals 1: a run with such a number was in order, and its resume tokens were of no use."""
    faults = rewritten(lambda data: data[1][place].update({name: value}))
    assert any(f"its `{name}` is no whole number" in fault for fault in faults), faults


def test_the_outcome_of_a_call_that_has_started_is_no_rejection() -> None:
    """A write whose intent is there may have happened: no record but an outcome or a doubt follows."""
    tools = {"pay": {"effect": "write", "idempotent": False}}
    steps = [{"id": "pay", "type": "tool", "tool": "pay", "is_terminal": True}]
    program = Program.from_dict({"tools": tools, "steps": steps})
    journal = MemoryJournal()

    def pay() -> None:
        raise RuntimeError("it broke")

    unchecked({"pay": pay}, journal=journal, clock=ManualClock()).run_sync(program, run_id="r")
    data = [json.loads(entry.record) for entry in journal.read("r")]
    assert [record["kind"] for record in data][:3] == ["started", "intent", "attempt"]
    data[2]["kind"] = "rejected"
    assert any("has started" in fault for fault in verified(data, journal, data[0]["body"]["program"]))
