"""Replies from a cache: when one is looked for and kept, what it costs, and what a machine does with a bad one."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from machines import ask, both, check, end, program, tool, unchecked
from stepward.sabotage.stores.plain_records import oddities
from stepward.vm import CacheFault, Limits, MemoryJournal, ModelReply, ModelRequest, Program, Run, ScriptedModel
from stepward.vm.journal.canonical import canonical
from stepward.vm.journal.records import read_record, write_record
from stepward.vm.journal.store import Append
from stepward.vm.machine.clock import ManualClock
from stepward.vm.machine.replay import replay
from stepward.vm.models.cache import CachedReply, read_entry, reply_key, write_entry
from stepward.vm.models.opening import open_cache
from stepward.vm.trace import Attempt
from stepward.vm.values import FrozenMap


class Table:
    """A cache in memory that notes what it is asked."""

    def __init__(self) -> None:
        self.entries: dict[str, bytes] = {}
        self.asked: list[str] = []

    def get(self, key: str) -> bytes | None:
        self.asked.append(key)
        return self.entries.get(key)

    def put(self, key: str, entry: bytes) -> None:
        self.entries[key] = entry

    def values(self) -> list[Any]:
        return [read_entry(key, entry).value for key, entry in self.entries.items()]


class Broken(Table):
    """A cache that raises."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def get(self, key: str) -> bytes | None:
        raise self.error

    def put(self, key: str, entry: bytes) -> None:
        raise self.error


OWN = FrozenMap({"model": "m 1"})


class Replier:
    """A model that answers with replies in turn."""

    def __init__(self, *said: Any, parameters: Any = OWN) -> None:
        self.said = list(said)
        self.parameters = parameters
        self.asked: list[ModelRequest] = []

    async def complete(self, request: ModelRequest) -> ModelReply:
        self.asked.append(request)
        said = self.said[min(len(self.asked), len(self.said)) - 1]
        if isinstance(said, Exception):
            raise said
        return said if isinstance(said, ModelReply) else ModelReply(said, 5, Decimal("0.5"), "m-1")


def run(made: Program, model: Any, cache: Any, journal: Any = None, **inputs: Any) -> Run:
    tools = {"read": lambda **_: "4711 4711 4711", "write": lambda **_: "done"}
    machine = unchecked(tools, model, journal or MemoryJournal(), cache=cache, retry_delay=lambda attempt: 0.0)
    return machine.run_sync(made, inputs, run_id="run")


def cached(name: str = "a", prompt: str = "hm", **fields: Any) -> dict[str, Any]:
    return ask(name, prompt, cache=True, **fields)


ONE = program(cached())


@pytest.fixture(autouse=True)
def nothing_is_lost(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.WARNING, "stepward.cache")
    return


# -- hits --------------------------------------------------------------------------------------------------------------


def test_a_later_run_takes_the_reply_and_pays_nothing() -> None:
    cache, model, journal = Table(), Replier("first", "second"), MemoryJournal()
    first = run(ONE, model, cache)
    again = run(ONE, model, cache, journal)
    assert len(model.asked) == 1
    assert (first.tokens, first.cost) == (5, Decimal("0.5"))
    assert (again.status, again.tokens, again.cost, again.view("trace")["a.output"]) == ("SUCCESS", 0, 0, "first")
    assert first.trace_hash == again.trace_hash
    (attempt,) = [one for one in again.trace if isinstance(one, Attempt)]
    assert (attempt.cached, attempt.tokens, attempt.cost, attempt.model) == (True, 0, 0, "m-1")
    assert not [one for one in first.trace if isinstance(one, Attempt) and one.cached]
    records = [json.loads(entry.record) for entry in journal.read("run", 0)]
    assert [(one["v"], one["note"].get("cached")) for one in records] == [(1, None), (2, True)]


def test_a_journal_with_a_hit_is_replayed_and_conforms_to_its_page() -> None:
    cache, journal = Table(), MemoryJournal()
    run(ONE, Replier("x"), cache)
    again = run(ONE, Replier("x"), cache, journal)
    played = replay(journal, "run")
    assert played is not None
    assert played.faults == ()
    records = [entry.record for entry in journal.read("run", 0)]
    document = journal.document(json.loads(records[0])["body"]["program"])
    assert document is not None
    assert list(oddities("run", records, document, again.trace_hash)) == []


def test_a_run_without_a_hit_has_the_same_bytes_as_one_without_a_cache() -> None:
    journals = [MemoryJournal(), MemoryJournal()]
    for journal, cache in zip(journals, (None, Table()), strict=True):
        unchecked({}, Replier("x"), journal, cache=cache, clock=ManualClock()).run_sync(ONE, run_id="run")
    without, beside = ([entry.record for entry in journal.read("run", 0)] for journal in journals)
    assert without == beside


VALUES: list[tuple[dict[str, Any], Any, Any]] = [
    ({"allowed_outputs": ["yes", "no"]}, " yes\n", "yes"),
    ({"returns": {"type": "string"}}, "#7 {}", "#7 {}"),
    ({"returns": {"type": "number"}}, "0.10", Decimal("0.1")),
    ({"returns": {"enum": ["a", "b"]}}, '"a"', "a"),
    ({"returns": {"type": "object", "properties": {"n": {"type": "integer"}}}}, {"n": 2**70}, {"n": 2**70}),
    ({"returns": {"type": "array"}}, ["a", None, True, {"#n": "#n1"}], ("a", None, True, {"#n": "#n1"})),
]


@pytest.mark.parametrize(("fields", "said", "value"), VALUES)
def test_a_kept_reply_is_exactly_the_value_that_was_accepted(fields: Any, said: Any, value: Any) -> None:
    cache, model = Table(), Replier(said, RuntimeError("asked again"))
    made = program(cached(**fields), end("z", output="$a.output"))
    outputs = [run(made, model, cache).output for _ in range(2)]
    assert (outputs, len(model.asked)) == ([value, value], 1)


def test_everything_that_decides_the_reply_is_in_the_key() -> None:
    given: dict[str, Any] = {"parameters": "m", "prompt": "p", "system": None, "allowed": None, "schema": None}
    others = {"parameters": "n", "prompt": "q", "system": "", "allowed": ("x",), "schema": {"type": "string"}}
    keys = [reply_key(**given), *(reply_key(**{**given, name: value}) for name, value in others.items())]
    keys += [
        reply_key(**{**given, "allowed": ("x", "y")}),
        reply_key(**{**given, "schema": {"maximum": Decimal("0.1")}}),
    ]
    assert len(set(keys)) == len(keys)


def test_other_programs_share_a_reply_and_another_model_does_not() -> None:
    cache, model = Table(), Replier("x")
    run(ONE, model, cache)
    run(program(cached("b"), end("z")), model, cache)
    assert len(model.asked) == 1
    run(ONE, model := Replier("x", parameters={"model": "m 2"}), cache)
    assert len(model.asked) == 1


def test_it_works_in_an_event_loop_and_in_parallel_steps() -> None:
    cache, model = Table(), Replier("x")
    made = program(both("p", cached("a", "one"), cached("b", "two"), ask("c", "three")))
    for number in range(2):
        machine = unchecked({}, model, MemoryJournal(), cache=cache)
        assert asyncio.run(machine.run(made, run_id=f"r{number}")).status == "SUCCESS"
    assert sorted(one.step for one in model.asked) == ["a", "b", "c", "c"]


# -- what is not looked for, and what is not kept ----------------------------------------------------------------------


def test_without_the_field_nothing_is_looked_for_or_kept() -> None:
    cache = Table()
    run(program(ask("a"), ask("b", cache=False)), Replier("x"), cache)
    assert (cache.asked, cache.entries) == ([], {})


def test_a_second_visit_asks_again_and_keeps_nothing() -> None:
    made = program(
        cached(allowed_outputs=["more", "done"], max_visits=5, next_step="c"),
        check("c", "$a.output == 'done'", "z", "a"),
        end("z"),
    )
    cache = Table()
    first, later = Replier("more", "more", "done"), Replier("more", "done")
    assert run(made, first, cache).status == "SUCCESS"
    assert cache.values() == ["more"]
    assert run(made, later, cache).status == "SUCCESS"
    assert [one.visit for one in later.asked] == [2, 3]


def test_only_accepted_replies_are_kept_and_a_retry_asks_the_model() -> None:
    made = program(cached(allowed_outputs=["yes"], on_error="retry"))
    cache, model = Table(), Replier("maybe", ValueError("down"), "yes")
    assert run(made, model, cache).status == "SUCCESS"
    assert (cache.values(), len(cache.asked), len(model.asked)) == (["yes"], 1, 3)
    failing = Table()
    assert run(made, Replier("maybe"), failing).status == "FAILED"
    assert failing.entries == {}


SECRET = {"type": "string", "sensitive": True}


def test_a_prompt_that_repeats_a_sensitive_value_is_neither_looked_for_nor_kept() -> None:
    cache = Table()
    for fields in ({"prompt": "about $open"}, {"prompt": "hm", "system": "about $open"}):
        made = program(cached(**fields), inputs={"secret": SECRET, "open": {"type": "string"}})
        outcome = run(made, Replier("x"), cache, secret="DE02 1203", open="pay DE021203 now")
        assert (outcome.status, cache.asked, cache.entries) == ("SUCCESS", [], {})
        run(made, Replier("x"), other := Table(), secret="DE02 1203", open="pay nobody")
        assert len(other.entries) == 1


def test_a_sensitive_prompt_stays_refused_whatever_the_cache_has() -> None:
    made = program(cached(prompt="about $secret"), inputs={"secret": SECRET})
    key = reply_key("m 1", "about abcdef", None, None, None)
    cache = Table()
    cache.put(key, write_entry(key, CachedReply("stolen", "m")))
    model = Replier("x")
    outcome = run(made, model, cache, secret="abcdef")
    assert (outcome.status, cache.asked, model.asked) == ("FAILED", [], [])


def test_a_sensitive_reply_is_not_kept() -> None:
    cache = Table()
    run(program(cached(returns=SECRET)), Replier("4711 0815"), cache)
    tools = {"read": {"effect": "read", "returns": SECRET}}
    made = program(tool("t", "read"), cached(), tools=tools)  # the model repeats what only the tool knew
    assert run(made, Replier("it is 471147114711"), cache).status == "SUCCESS"
    assert cache.entries == {}


def test_a_model_without_parameters_is_not_cached_and_this_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    for parameters in (None, "", 7):
        caplog.clear()
        cache = Table()
        run(program(cached("a"), cached("b", "ho")), Replier("x", parameters=parameters), cache)
        assert (cache.asked, cache.entries) == ([], {})
        assert len(caplog.messages) == 1
        assert "`parameters`" in caplog.messages[0]


def test_parameters_that_raise_fail_no_run(caplog: pytest.LogCaptureFixture) -> None:
    class Odd(ScriptedModel):
        parameters = property(lambda _: 1 / 0, lambda *_: None)  # type: ignore[assignment]

    assert run(ONE, Odd({"a": "x"}), Table()).status == "SUCCESS"
    assert "can't be read" in caplog.messages[0]


# -- attacks -----------------------------------------------------------------------------------------------------------


def poisoned(made: Program, change: Any) -> tuple[Run, Replier, Table]:
    """Run a program with the entry of an earlier run changed."""
    cache = Table()
    run(made, Replier("3"), cache)
    ((key, entry),) = cache.entries.items()
    cache.entries[key] = change(key, entry)
    model = Replier("4")
    return run(made, model, cache), model, cache


NUMBER = program(cached(returns={"type": "integer", "maximum": 9}), end("z", output="$a.output"))


@pytest.mark.parametrize("value", ["3", 10, None, Decimal("3.5"), (3,), {"n": 3}, True, "x" * 2_000_000])
def test_a_poisoned_entry_of_another_type_is_refused_and_the_model_asked(
    value: Any, caplog: pytest.LogCaptureFixture
) -> None:
    outcome, model, cache = poisoned(NUMBER, lambda key, _: write_entry(key, CachedReply(value, "m")))
    assert (outcome.status, outcome.output, outcome.tokens, len(model.asked)) == ("SUCCESS", 4, 5, 1)
    assert cache.values() == [4]
    assert "does not accept" in caplog.messages[0]


def test_a_poisoned_choice_is_refused() -> None:
    made = program(cached(allowed_outputs=["3", "4"]), end("z", output="$a.output"))
    for value in ("5", " 3", 3, None, ("3",)):
        outcome, model, _ = poisoned(made, lambda key, _, value=value: write_entry(key, CachedReply(value, "m")))
        assert (outcome.output, len(model.asked)) == ("4", 1)


DAMAGES = {
    "of another question": lambda key, _: write_entry("0" * 64, CachedReply(3, "m")),
    "empty": lambda *_: b"",
    "cut": lambda _, entry: entry[:-1],
    "no bytes": lambda *_: 7,
    "no object": lambda *_: b"[]",
    "deep": lambda *_: b"[" * 100_000,
    "a field less": lambda *_: b'{"key":"x","v":1}',
    "of a later version": lambda _, entry: entry.replace(b'"v":1', b'"v":2'),
    "with a sensitive value": lambda _, entry: entry.replace(b'"reply":3', b'"reply":"#v0123456789abcdef:00"'),
    "a number that is none": lambda _, entry: entry.replace(b'"reply":3', b'"reply":"#nNaN"'),
    "a fraction": lambda _, entry: entry.replace(b'"reply":3', b'"reply":3.0'),
    "a model that is no text": lambda _, entry: entry.replace(b'"model":"m-1"', b'"model":[]'),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_entry_is_passed_over(damage: str, caplog: pytest.LogCaptureFixture) -> None:
    outcome, model, _ = poisoned(NUMBER, DAMAGES[damage])
    assert (outcome.status, outcome.output, len(model.asked)) == ("SUCCESS", 4, 1), damage
    assert len(caplog.messages) == 1


@pytest.mark.parametrize("error", [CacheFault("it is locked"), OSError("gone"), ZeroDivisionError()])
def test_a_broken_cache_fails_no_run_and_is_reported_once(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    machine = unchecked({}, Replier("x"), MemoryJournal(), cache=Broken(error))
    for number in range(3):
        assert machine.run_sync(ONE, run_id=f"r{number}").status == "SUCCESS"
    assert ["not taken" in one for one in caplog.messages] == [True, False]


def test_a_hit_that_is_too_large_for_the_state_fails_as_any_reply_does() -> None:
    made = program(cached("a", returns={"type": "string"}), cached("b", "ho", returns={"type": "string"}))
    cache = Table()
    run(made, Replier("x" * 600), cache)
    machine = unchecked({}, Replier("x"), MemoryJournal(), cache=cache, limits=Limits(state_bytes=1_000))
    outcome = machine.run_sync(made, run_id="run")
    assert (outcome.status, outcome.tokens) == ("FAILED", 0)
    played = replay(machine.journal, "run")
    assert played is not None
    assert played.faults == ()


FORGED: dict[str, tuple[dict[str, Any], Any]] = {
    "a hit that was charged": ({"tokens": 5}, True),
    "a hit that cost something": ({"cost": "0.5"}, True),
    "a mark that is no truth value": ({"cached": "yes"}, True),
    "a mark that says no": ({"cached": False}, True),
    "a hit of a step without a cache": ({}, False),
}


@pytest.mark.parametrize("forgery", FORGED)
def test_a_forged_hit_is_found_by_a_replay(forgery: str) -> None:
    note, may = FORGED[forgery]
    made = program(ask("a", "hm", **({"cache": True} if may else {})))
    journal, cache = MemoryJournal(), Table()
    run(ONE, Replier("x"), cache)
    run(made, Replier("x"), cache, journal)
    forged = MemoryJournal()
    entries = journal.read("run", 0)
    last = read_record(entries[1])
    if forgery != "a hit of a step without a cache":
        assert last.note["cached"] is True
    text = {**last.note, "tokens": 0, "cost": "0", "cached": True, **note}
    bent = write_record(1, entries[0].digest, "attempt", canonical(last.body), canonical(text), last.at, 2)
    digest = read_record(entries[0]).body["program"]
    document = journal.document(digest)
    assert document is not None
    forged.put_document(digest, document)
    forged.create(Append("run", -1, [entries[0]], "RUNNING", 0.0, False, None), "bench", "me", 60.0)
    forged.append(Append("run", 0, [bent], "SUCCESS", 0.0, True, None), 1)
    played = replay(forged, "run")
    assert played is not None
    assert [fault.what for fault in played.faults] == ["record 1: the reply to `a` can't come from a cache in this way"]


def test_a_hit_does_not_count_towards_budgets_and_a_miss_does() -> None:
    made = program(cached("a"), cached("b", "ho"), max_cost=Decimal("0.5"), max_tokens=5)
    cache = Table()
    assert run(made, Replier("x"), cache).status == "BUDGET_EXCEEDED"
    assert run(made, Replier("x"), cache).status == "SUCCESS"  # the first reply is free, and the second affordable
    assert run(made, Replier("x"), cache).cost == 0


def test_a_name_of_a_cache_that_can_be_none_is_refused(tmp_path: Path) -> None:
    for name in ("", ":memory:"):
        with pytest.raises(CacheFault):
            open_cache(name)
    outcome = [run(ONE, model, tmp_path / "replies.db") for model in (Replier("x"), Replier("y"))]
    assert outcome[1].tokens == 0
