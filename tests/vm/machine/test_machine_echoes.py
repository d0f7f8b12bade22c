"""What an output repeats of a sensitive value is sealed: it is nowhere but in the vault, and not there once erased."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from machines import Bench, ask, assign, both, check, end, program, tool, unchecked
from stepward.sabotage.drawn.spellings import BY_HALF, SPELLINGS
from stepward.vm import InDoubt, Program, Run, SQLiteJournal, Suspend
from stepward.vm.journal.canonical import Sealed
from stepward.vm.journal.verify import verify
from stepward.vm.machine.clock import ManualClock
from stepward.vm.machine.history import load
from stepward.vm.machine.redaction import MAX_UNINDEXED, Searched, Spellings
from stepward.vm.machine.replay import replayer

IBAN, MAIL, SALARY = "DE89370400440532013000", "ada.king@example.com", 98_765_432
HIDDEN = {"type": "string", "sensitive": True}
INPUTS = {"iban": HIDDEN}
TOOLS = {
    "read": {"effect": "read"},
    "write": {"effect": "write", "idempotent": False},
    "again": {"effect": "write", "idempotent": True},
    "ask": {"effect": "write", "idempotent": False, "suspends": True},
}


class Files(Bench):
    """A bench on a file, that can look for texts in all of its files."""

    def __init__(self, folder: Path, *args: Any, **more: Any) -> None:
        self.folder = folder
        super().__init__(*args, journal=SQLiteJournal(folder / "runs.db"), **more)

    def told(self, *texts: str, vault: bool = False) -> list[str]:
        """Return which of the texts stand in a file: in one of the vault, or in another."""
        self.journal.close()
        files = [path for path in self.folder.iterdir() if (".vault" in path.name) is vault]
        assert files
        raw = b"".join(path.read_bytes() for path in files)
        self.journal = SQLiteJournal(self.folder / "runs.db")
        self.vm = unchecked(self.tools, self.model, self.journal, clock=self.clock)
        return [text for text in texts if json.dumps(text, ensure_ascii=False)[1:-1].encode() in raw]

    def is_in_order(self, run: str = "run") -> bool:
        """Return whether the journal is what this machine would have written."""
        return verify(self.journal, run, replay=replayer(self.journal, run)).faults == ()


def output_of(bench: Bench, step: str, run: str = "run") -> Any:
    """Return the last output of a step as its record has it: with what is sealed."""
    found = load(bench.journal, run, bench.stored)
    assert found is not None
    return [one.body["output"] for one in found.events if one.body.get("step") == step and "output" in one.body][-1]


def sealed_in(value: Any) -> list[Any]:
    """Return the sealed parts of a value."""
    if isinstance(value, Sealed):
        return [value.value]
    if isinstance(value, dict):
        return [part for item in value.values() for part in sealed_in(item)]
    return [part for item in value for part in sealed_in(item)] if isinstance(value, tuple) else []


def paying(**more: Any) -> Program:
    """Return the program of a payment whose confirmation goes to a model, and to a tool."""
    return program(
        tool("a", "write", args={"iban": "$iban"}, output_key="said"),
        ask("tell", "The result was $said", on_error="skip"),
        check("c", "$said contains 'x'", "b", "b"),
        tool("b", "again", args={"it": "$said"}, next_step="end"),
        end(output="$said"),
        inputs={"iban": more.pop("iban", HIDDEN)},
        **more,
    )


# -- in each spelling, in each place -----------------------------------------------------------------------------------


@pytest.mark.one_in(3)
@pytest.mark.parametrize("secret", [IBAN, MAIL, "Grüße an Ömer", "two\nlines of \"it'", "123456"])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_text_that_repeats_a_value_is_sealed(tmp_path: Path, spelling: str, secret: str) -> None:
    if spelling == "but the last one" or (len(secret) == 6 and spelling in BY_HALF):
        pytest.skip("of an output half a value counts beside a mask alone, and from six characters on")
    said = SPELLINGS[spelling](secret)
    bench = Files(tmp_path, {"a": said}, model={"tell": "fine"})
    run = bench.run(paying(), iban=secret)
    assert (run.status, run.output) == ("SUCCESS", said)
    assert bench.tools.asked[-1].args == {"it": said}, "the program can use it as it is"
    assert bench.model.asked == []
    assert [body["rule"] for body in bench.bodies("rejected")] == ["sensitive-to-model"]
    assert said not in f"{run.view('trace')} {run.view('model')} {run.snapshot().decode()}"
    assert bench.told(secret, said) == []
    assert bench.told(said, vault=True) == [said]
    assert bench.is_in_order()
    before = run.trace_hash
    assert bench.vm.erase_sync("run").trace_hash == before
    assert bench.told(secret, said) == bench.told(secret, said, vault=True) == []
    assert bench.is_in_order()


PLACES: dict[str, tuple[Any, Any]] = {
    "a text": (f"paid to {IBAN}", [f"paid to {IBAN}"]),
    "a field": ({"ok": True, "to": IBAN}, [IBAN]),
    "deep in objects": ({"a": {"b": {"to": f"it is {IBAN}", "of": 7}}}, [f"it is {IBAN}"]),
    "in a list": (["fine", IBAN, ["x", IBAN.lower()]], [IBAN, IBAN.lower()]),
    "a key": ({"by": {IBAN: {"sum": 5}}, "n": 1}, [{IBAN: {"sum": 5}}]),
    "a key and what is below": ({IBAN: IBAN}, [{IBAN: IBAN}]),
    "a number": ({"was": SALARY, "is": SALARY + 1}, [SALARY]),
    "a number as text": ({"was": f"{SALARY:,}", "is": str(SALARY + 1)}, [f"{SALARY:,}"]),
    "nothing of it": ({"ok": True, "no": None, "n": 3, "who": "Ada"}, []),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("source", ["tool", "reply", "resumed", "reconciled", "parallel"])
def test_the_smallest_part_that_repeats_it_is_sealed(tmp_path: Path, source: str, name: str) -> None:
    said, sealed = PLACES[name]
    get = tool("get", "ask", args={"iban": "$iban", "salary": "$salary"})
    if source == "reply":
        get = ask("get", returns={"type": ["string", "object", "array"]})
    steps = [both("p", get, tool("other")) if source == "parallel" else get, end(output="$get.output")]
    first = {"resumed": Suspend(), "reconciled": InDoubt("?")}.get(source, [said])
    bench = Files(tmp_path, {"get": first}, model={"get": [said]})
    inputs = {"iban": HIDDEN, "salary": {"type": "integer", "sensitive": True}}
    run = bench.run(program(*steps, inputs=inputs, tools=TOOLS), iban=IBAN, salary=SALARY)
    if source == "resumed":
        run = bench.resume(run, said)
    elif source == "reconciled":
        run = bench.checked(bench.vm.reconcile_sync("run", "get", "done", said))
    assert run.status == "SUCCESS"
    assert json.loads(json.dumps(run.output)) == said
    assert sealed_in(output_of(bench, "get")) == sealed
    assert bench.told(IBAN, IBAN.lower(), str(SALARY) + ",", f"{SALARY:,}") == []
    assert bench.is_in_order()


# -- what is not sealed ------------------------------------------------------------------------------------------------

PLAIN: dict[str, tuple[Any, Any, Any]] = {
    "another value": (HIDDEN, IBAN, f"paid to {IBAN[::-1]}"),
    "one that is too short": (HIDDEN, "12345", "paid to 12345"),
    "a boolean": ({"type": "boolean", "sensitive": True}, True, {"true": True, "it": "true, really true"}),
    "a member of an enum": ({"enum": ["premium", "default"], "sensitive": True}, "default", "the default way"),
    "a domain": (HIDDEN, MAIL, "sent by mx1.example.com, for example"),
    "half of it in other words": (HIDDEN, "Payment of December", "the month of December, a Payment"),
    "a longer number": ({"type": "integer", "sensitive": True}, SALARY, {"n": SALARY * 10, "m": SALARY + 1}),
    "null": ({"type": ["string", "null"], "sensitive": True}, None, {"n": None, "m": "nullable"}),
    "blanks": (HIDDEN, " " * 8, "a" + " " * 12 + "b"),
}


@pytest.mark.parametrize("name", PLAIN)
def test_what_repeats_nothing_stays_as_it_is(name: str) -> None:
    spec, given, said = PLAIN[name]
    bench = Bench({"a": said})
    run = bench.run(program(tool("a", args={"x": "$iban"}), inputs={"iban": spec}), iban=given)
    assert run.status == "SUCCESS"
    assert json.loads(json.dumps(output_of(bench, "a"))) == said


def test_what_the_program_lists_is_never_sealed() -> None:
    tools = {
        "choose": {"effect": "read", "returns": {"enum": ["approved", "declined"]}},
        "row": {
            "effect": "read",
            "returns": {
                "type": "object",
                "properties": {"approved": {"enum": [123456, "approved"]}, "by": {"type": "string"}},
            },
        },
    }
    steps = [
        tool("a", "choose", args={"x": "$iban"}),
        tool("b", "row", args={"x": "$iban"}),
        ask("c", allowed_outputs=["approved", "declined"]),
        ask("d", "they say $a.output and $b.output.approved and $c.output"),
    ]
    said = {"a": "approved", "b": {"approved": "approved", "by": "so: approved"}}
    bench = Bench(said, model={"c": "approved", "d": "fine"})
    run = bench.run(program(*steps, inputs=INPUTS, tools=tools), iban="approved")
    assert (run.status, bench.model.asked[-1].prompt) == ("SUCCESS", "they say approved and approved and approved")
    assert sealed_in(output_of(bench, "b")) == ["so: approved"]


def test_a_fallback_is_the_programs_own() -> None:
    from machines import Late

    late = {"timeout_seconds": 1, "on_timeout": "fallback", "fallback": "unknown account"}
    bench = Bench({"a": Late(5)})
    bench.run(program(tool("a", args={"x": "$iban"}, **late), inputs=INPUTS), iban="unknown account")
    assert output_of(bench, "a") == "unknown account"


def test_what_is_around_an_echo_does_not_become_sensitive() -> None:
    words = "The payment was accepted by the bank"
    bench = Bench({"a": f"{words}: {IBAN}", "b": words, "c": f"{words}...", "d": {"a": IBAN, "b": "beside it"}})
    steps = [tool("a", args={"x": "$iban"}), assign("s", v="$a.output"), tool("b"), tool("c"), tool("d")]
    bench.run(program(*steps, inputs=INPUTS), iban=IBAN)
    assert sealed_in(output_of(bench, "a")) == [f"{words}: {IBAN}"]
    assert (output_of(bench, "b"), output_of(bench, "c")) == (words, f"{words}...")
    assert sealed_in(output_of(bench, "d")) == [IBAN]


# -- which values are known --------------------------------------------------------------------------------------------

SECRET_OUTPUT = {
    "load": {
        "effect": "read",
        "returns": {"type": "object", "properties": {"pin": HIDDEN, "n": {"type": "number", "sensitive": True}}},
    },
    **TOOLS,
}


def test_values_of_outputs_and_computed_numbers_are_known_too() -> None:
    steps = [
        tool("get", "load"),
        assign("s", v="$get.output.n * 1000"),
        tool("a"),
        assign("t", v=0),
        tool("b", args={"x": "$v"}),
    ]
    bench = Bench({"get": {"pin": "hunter-2222", "n": 4321}, "a": "it is HUNTER-2222", "b": "4,321,000 and 4321"})
    bench.run(program(*steps, tools=SECRET_OUTPUT))
    assert sealed_in(output_of(bench, "a")) == ["it is HUNTER-2222"]
    assert sealed_in(output_of(bench, "b")) == ["4,321,000 and 4321"], "also once the name has another value"


def test_attempts_that_fail_and_quote_it_come_before_one_that_repeats_it(tmp_path: Path) -> None:
    bench = Files(tmp_path, {"a": [ValueError(f"no {IBAN}"), ValueError(IBAN.lower()), f"got {IBAN}"]})
    steps = [tool("a", "again", args={"x": "$iban"}, on_error="retry", max_retries=3), end(output="$a.output")]
    run = bench.run(program(*steps, inputs=INPUTS), iban=IBAN)
    assert (run.status, run.output) == ("SUCCESS", f"got {IBAN}")
    assert bench.told(IBAN, IBAN.lower()) == []
    assert bench.is_in_order()


def in_order(order: tuple[str, ...], answers: dict[str, Any]) -> Callable[..., Any]:
    """Return an async tool whose calls come back in an order."""
    import asyncio

    async def read(who: str, x: Any = None) -> Any:
        for _ in range(3 * order.index(who)):
            await asyncio.sleep(0)
        return answers[who]

    return read


def test_siblings_seal_the_same_in_whatever_order_they_come_back() -> None:
    parts = [tool(name, args={"who": name, "x": "$iban"}) for name in "abc"]
    returns = {"type": "object", "properties": {"pin": HIDDEN}}
    tools = {"read": {"effect": "read"}, "load": {"effect": "read", "returns": returns}}
    parts[1]["tool"] = "load"
    steps = [both("p", *parts, output_key="all"), tool("d", args={"who": "d"}), end(output="$all")]
    answers = {"a": f"of {IBAN}", "b": {"pin": "hunter-2222"}, "c": "hunter-2222", "d": "hunter-2222"}
    seen = set()
    for order in itertools.permutations("abc"):
        bench = Bench()
        read = in_order((*order, "d"), answers)
        bench.vm = unchecked(tools={"read": read, "load": read}, journal=bench.journal, clock=bench.clock)
        run = bench.run(program(*steps, inputs=INPUTS, tools=tools), iban=IBAN)
        came = [body["step"] for body in bench.bodies("attempt")]
        sealed = tuple((name, str(sealed_in(output_of(bench, name)))) for name in "abcd")
        seen.add((run.trace_hash, sealed))
        assert came == [*order, "d"]
    assert len(seen) == 1
    sealed = dict(seen.pop()[1])
    assert sealed["a"] == str([f"of {IBAN}"])
    assert sealed["c"] == "[]", "what a sibling brings is not known until the step is left"
    assert sealed["d"] == str(["hunter-2222"])


def test_a_payload_is_held_against_what_siblings_brought() -> None:
    steps = [both("p", tool("get", "load"), tool("w", "ask")), end()]
    bench = Bench({"get": {"pin": "hunter-2222", "n": 1}, "w": Suspend()})
    run = bench.run(program(*steps, tools=SECRET_OUTPUT))
    bench.resume(run, "the pin is hunter-2222")
    assert sealed_in(output_of(bench, "w")) == ["the pin is hunter-2222"]


# -- whoever goes on seals the same ------------------------------------------------------------------------------------


def goes_on(journal: Any, answers: dict[str, Any], token: str) -> Run:
    """Resume a run by a machine that knows nothing but the journal."""
    bench = Bench(answers, journal=journal)
    return bench.vm.resume_sync(token, "yes")


@pytest.mark.parametrize("waits", [True, False])
def test_a_machine_that_goes_on_finds_the_values_in_the_vault(tmp_path: Path, waits: bool) -> None:
    steps = [
        tool("get", "load", output_key="v"),
        assign("s", v=None),
        tool("get2", "load", output_key="v"),
        tool("w", "ask"),
        tool("a", args={"x": "$iban"}),
        end(output="$a.output"),
    ]
    echo = f"{IBAN} {MAIL} hunter-2222"
    answers = {"get": {"pin": "hunter-2222", "n": 1}, "get2": {"pin": "x", "n": 1}, "a": ["hunter-2222!", echo][:1]}
    bench = Files(tmp_path, {**answers, "w": Suspend() if waits else "yes"})
    run = bench.run(program(*steps, inputs=INPUTS, tools=SECRET_OUTPUT), iban=IBAN)
    if waits:
        assert run.status == "SUSPENDED"
        run = goes_on(SQLiteJournal(tmp_path / "runs.db"), answers, run.suspensions[0].token)
    assert (run.status, run.output) == ("SUCCESS", "hunter-2222!")
    assert sealed_in(output_of(bench, "a")) == ["hunter-2222!"]
    assert bench.told("hunter-2222") == []
    assert bench.is_in_order()
    assert run.trace_hash == Bench({**answers, "w": "yes"}).run(bench_program(steps), iban=IBAN).trace_hash


def bench_program(steps: list[dict[str, Any]]) -> Program:
    return program(*steps, inputs=INPUTS, tools=SECRET_OUTPUT)


def test_a_call_that_a_dead_machine_left_repeats_it_sealed(tmp_path: Path) -> None:
    class Dies(BaseException):
        pass

    journal = SQLiteJournal(tmp_path / "runs.db")
    steps = [tool("a", "again", args={"x": "$iban"}), tool("b", "again", args={"x": "$a.output"}), end()]
    made = program(*steps, inputs=INPUTS)
    first = Bench({"a": f"A {IBAN}", "b": Dies()}, journal=journal)
    with pytest.raises(Dies):
        first.vm.run_sync(made, {"iban": IBAN}, run_id="run")
    clock = ManualClock()
    clock.time = first.clock.time + 10**9
    later = Files(tmp_path, {"b": f"B {IBAN.lower()}"})
    later.clock.time = clock.time
    (run,) = later.vm.recover_sync()
    assert run.status == "SUCCESS"
    assert [later.tools.asked[0].args["x"], sealed_in(output_of(later, "b"))] == [f"A {IBAN}", [f"B {IBAN.lower()}"]]
    assert later.told(IBAN, IBAN.lower()) == []
    assert later.is_in_order()


def test_a_run_without_anything_sensitive_is_written_as_ever() -> None:
    bench = Bench({"a": IBAN})
    bench.run(program(tool("a", args={"x": "$iban"}), inputs={"iban": {"type": "string"}}), iban=IBAN)
    assert output_of(bench, "a") == IBAN
    assert bench.journal.vault.get("run") == {}


# -- the recogniser ----------------------------------------------------------------------------------------------------


def sought(*secrets: str) -> Searched:
    """Return what looks for these values."""
    found = Searched()
    for secret in secrets:
        spelled = Spellings.of(secret)
        assert spelled is not None
        found.add(spelled)
    return found


@pytest.mark.parametrize("mask", ["****", "…", "xxxx ", "••••", "...", "##"])
def test_half_of_a_value_beside_a_mask_is_recognised(mask: str) -> None:
    known = sought(IBAN)
    for said in (f"{mask}{IBAN[11:]}", f"account {IBAN[:11]}{mask}", f"{mask}{IBAN[11:15]} {IBAN[15:]}".lower()):
        assert known.repeats(said)
    assert not known.repeats(f"{mask}{IBAN[12:]}")
    for said in (f"account {IBAN[11:]}", f"account #{IBAN[11:]}", f"x{IBAN[11:]}", f"{IBAN[:11]} is a start"):
        assert not known.repeats(said)


@pytest.mark.parametrize("part", ["a", "ab", "*", "…x", "a "])
def test_a_text_that_is_made_for_it_takes_no_long(part: str) -> None:
    before = time.process_time()
    known = sought(part * 100_000)
    for said in ("a" * 10**6, "ab" * 10**6, "*" * 10**6, "a" * 10**6 + "b**", "%61" * 10**5, "a " * 10**6):
        known.repeats(said)
    assert time.process_time() - before < 10


@pytest.mark.parametrize(("number", "is_it"), [(SALARY, True), (Decimal("98765432.5"), False), (-SALARY, True)])
def test_a_number_repeats_a_value_where_it_has_its_digits(number: Any, is_it: bool) -> None:
    for secret in (str(SALARY), f"{SALARY:,}", "98 765 432"):
        assert sought(secret).repeats(number) is is_it


@pytest.mark.parametrize("spelling", [name for name in SPELLINGS if name != "but the last one"])
def test_one_value_among_many_is_recognised_too(spelling: str) -> None:
    many = sought(MAIL, IBAN, *(f"{number:09d}-{number:x}" for number in range(2 * MAX_UNINDEXED)))
    said = SPELLINGS[spelling]
    assert many.repeats(said(IBAN))
    assert many.repeats(said(MAIL))
    assert not many.repeats(said(IBAN[::-1]))


def test_a_loop_that_brings_a_value_each_time_takes_no_long() -> None:
    numbers = itertools.count()
    returns = {"type": "object", "properties": {"s": HIDDEN, "t": {"type": "string"}, "n": {"type": "integer"}}}
    steps = [
        tool("a", "load", max_visits=3000, next_step="c"),
        check("c", "$a.output.n < 1500", "a", "end"),
        end(),
    ]

    def load() -> dict[str, Any]:
        number = next(numbers)
        return {"s": f"{number * 7919:012d}", "t": "fifty characters of text, as many tools return them", "n": number}

    before = time.process_time()
    made = program(*steps, tools={"load": {"effect": "read", "returns": returns}}, max_steps=9000)
    assert Bench({"a": load}).vm.run_sync(made).status == "SUCCESS"
    assert time.process_time() - before < 3, "one by one they took 4 seconds, and 17 of twice as many"
