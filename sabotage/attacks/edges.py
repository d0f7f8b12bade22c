"""Injection at the edges of the machine: odd requests, odd replies of adapters, odd ends of tools."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections import UserDict
from collections.abc import Callable, Coroutine, Iterator
from decimal import Decimal
from functools import cache
from typing import Any, Final, NamedTuple

from stepward.sabotage.attack import Attack, Family
from stepward.sabotage.invariants import Breach, Invariant, Outcome
from stepward.sabotage.playing.case import Case
from stepward.vm.errors import StepwardError
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.journal.sqlite import SQLiteJournal
from stepward.vm.journal.store import Journal
from stepward.vm.language.policy import Policy
from stepward.vm.language.program import Program
from stepward.vm.machine.authority import Envelope
from stepward.vm.machine.clock import ManualClock
from stepward.vm.machine.execution import ExecutionVM
from stepward.vm.machine.models import ModelFailed, ModelReply
from stepward.vm.machine.run import Run
from stepward.vm.machine.tools import InDoubt, Suspend, ToolError

MOST_ERROR: Final = 2_000
"""Characters of an error text on record."""


def _program(*steps: dict[str, Any], **more: Any) -> Program:
    return Program.from_dict({"name": "edges", "language": 2, "inputs": {}, "steps": list(steps), **more})


# -- requests ------------------------------------------------------------------------------------------------------


@cache
def _asks() -> Program:
    """Return a program that waits for a person."""
    return _program(
        {"id": "ask", "type": "tool", "tool": "ask", "is_terminal": True},
        inputs={"x": {"default": 1}},
        tools={"ask": {"effect": "write", "suspends": True, "args": {}}},
    )


NAMES: Final[tuple[Any, ...]] = (
    *("", "x" * 201, "ann\n", "a\nb", "a\x00b", "\u2028", " ", "ann ", " ann", "ann\u3164", 5, True, ["ann"]),
)
"""What names nobody."""


class _Lazy(UserDict[str, Any]):
    """A mapping that fails when it is read."""

    def __iter__(self) -> Iterator[str]:
        raise ConnectionError("the row is gone")


IDS: Final[tuple[Any, ...]] = ("", "x" * 201, "r\n", "a\x00b", "\ud800", 5, None, ["r"], b"r")
"""What is the id of no run."""

INPUTS: Final[tuple[Any, ...]] = (float("nan"), float("inf"), {1, 2}, b"x", {"y": {3: 4}}, "\ud800", _Lazy({"a": 1}))
"""What is no value."""


_REQUESTS: Final = (
    *(("person", name) for name in NAMES),
    *(("caller", name) for name in NAMES if isinstance(name, str)),
    *(("id", value) for value in IDS),
    *(("input", value) for value in INPUTS),
    ("name", "x" * 200),
    ("policy", None),
)


class OddRequests(Attack):
    """Requests name persons, callers and gates as nobody is called, and bring inputs that are no values or fail when
    they are read. A machine has its one policy without a list around it."""

    family = Family.INJECTION
    surface = "requests to the machine"
    action = "names that are none, inputs that can't be read"
    invariant = Invariant.REFUSAL
    defence = "a request is refused by the machine's own errors before anything is written or called"
    severity = "high"
    enumerates = "names and inputs that are none"
    weight = 50
    draws = True

    def play(self, case: Case) -> Outcome:
        """Make each request, and check that nothing has come of it."""
        case.pick("the case", _only())
        for kind, value in case.each("request", _REQUESTS):
            match kind:
                case "person":
                    self._refuse(case, f"a person `{value!r}`", by=value)
                    self._refuse_later(case, value)
                case "caller":
                    self._refuse(case, f"a caller `{value!r}`", envelope=Envelope(value, "gate"))
                    self._refuse(case, f"a gate `{value!r}`", envelope=Envelope("ann", value))
                case "id":
                    self._look_for(case, value)
                case "input":
                    self._refuse(case, f"an input `{value!r:.40}`", {"x": value})
                case "name":
                    self._name(case, value)
                case _:
                    self._one_policy(case)
        return Outcome.BLOCKED

    def _machine(self, case: Case, store: Journal, called: list[str], **more: Any) -> ExecutionVM:
        def ask() -> Suspend:
            called.append("ask")
            return Suspend("?")

        options = {"random": case.random, "clock": ManualClock(), **case.weakness.options, **more}
        return ExecutionVM({"ask": ask}, journal=store, checker=None, **options)

    def _refuse(self, case: Case, what: str, inputs: Any = None, **options: Any) -> None:
        store, called = MemoryJournal(), list[str]()
        case.act(f"start a run with {what}")
        _refused(case, what, self._machine(case, store, called).run(_asks(), inputs or {}, run_id="r", **options))
        case.hold(not called and store.row("r") is None, self.invariant, f"{what} is refused, and a run was made")

    def _refuse_later(self, case: Case, name: Any) -> None:
        """Make the requests to a run that waits in such a name."""
        store, called = MemoryJournal(), list[str]()
        machine = self._machine(case, store, called)
        run = case.do(machine.run(_asks(), run_id="r"))
        work: dict[str, Callable[[], Coroutine[Any, Any, Any]]] = {
            "resume": lambda: machine.resume(run.suspensions[0].token, None, by=name),
            "cancel": lambda: machine.cancel("r", by=name),
            "erase": lambda: machine.erase("r", by=name),
            "prune": lambda: machine.prune(1e12, by=name),
        }
        for what, ask in work.items():
            case.act(f"{what} as {name!r}")
            _refused(case, f"{what} as {name!r}", ask())
            is_so = store.row("r") is not None and case.do(machine.get("r")).seq == run.seq
            case.hold(is_so, self.invariant, f"`{what}` as {name!r} is refused, and the run has changed")

    def _look_for(self, case: Case, run: Any) -> None:
        """Make requests to a run of such an id, in a file."""
        with tempfile.TemporaryDirectory(prefix="stepward-", ignore_cleanup_errors=True) as folder:
            store = SQLiteJournal(os.path.join(folder, "runs.db"))
            machine = self._machine(case, store, [])
            work: dict[str, Callable[[], Coroutine[Any, Any, Any]]] = {
                "get": lambda: machine.get(run),
                "cancel": lambda: machine.cancel(run),
                "erase": lambda: machine.erase(run),
                "reconcile": lambda: machine.reconcile(run, "ask", "done", 1),
                "resume": lambda: machine.resume(f"{run}.x", 1),
            }
            if run is not None:  # a run without an id gets one
                work["start"] = lambda: machine.run(_asks(), run_id=run)
            for what, ask in work.items():
                case.act(f"{what} the run {run!r}")
                _refused(case, f"{what} the run {run!r}", ask())
            left = list(store.names())
            store.close()
        case.hold(not left, self.invariant, f"there are the runs {left}")

    def _name(self, case: Case, name: str) -> None:
        """Check that a name of the largest length is taken."""
        store = MemoryJournal()
        run = case.do(self._machine(case, store, []).run(_asks(), run_id="r", by=name, envelope=Envelope(name, name)))
        case.hold(run.status == "SUSPENDED", self.invariant, f"a name of {len(name)} characters is refused")

    def _one_policy(self, case: Case) -> None:
        """Check that a policy alone holds as one in a list."""
        policy, called = Policy.from_dict({"policy": "none", "allow": [{"tool": "other"}]}), list[str]()
        for policies in (policy, [policy]):
            run = case.do(self._machine(case, MemoryJournal(), called, policy=policies).run(_asks()))
            case.hold(run.status == "FAILED" and not called, Invariant.PERMISSION, "a policy alone does not hold")


def _only() -> Any:
    from hypothesis import strategies as st

    return st.just(0)


def _refused(case: Case, what: str, work: Coroutine[Any, Any, Any]) -> None:
    """Check that a request is refused by an error of the machine."""
    try:
        case.do(work)
    except StepwardError:
        return
    raise Breach(Invariant.REFUSAL, f"{what}: it is not refused")


# -- replies -------------------------------------------------------------------------------------------------------


class ExpectedResult(NamedTuple):
    """What has to come of an answer: how the step ends, the name of its error, its value, and what is charged."""

    kind: str
    name: str = ""
    value: Any = None
    tokens: int = 0
    cost: int | Decimal = 0


FAILS: Final = ExpectedResult("skipped", "Unexpected")
UNFIT: Final = ExpectedResult("skipped", "BadOutput", tokens=3, cost=2)
HUGE: Final = 2**53 - 1


class _Sly(str):
    """A text that says to be any other."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return True


def _replies_with(content: Any, tokens: Any = 3, cost: Any = 2, model: Any = "m") -> Callable[[], Any]:
    return lambda: ModelReply(content, tokens, cost, model)


def _raises(error: BaseException) -> Callable[[], Any]:
    def fail() -> Any:
        raise error

    return fail


NUMBER: Final[tuple[tuple[str, Callable[[], Any], ExpectedResult], ...]] = (
    ("a number", _replies_with(5), ExpectedResult("success", value=5, tokens=3, cost=2)),
    ("a number as JSON", _replies_with(" 0.50 "), ExpectedResult("success", value=Decimal("0.5"), tokens=3, cost=2)),
    ("no number", _replies_with("NaN"), UNFIT),
    ("no end", _replies_with("Infinity"), UNFIT),
    ("an exponent", _replies_with("1e999999999"), UNFIT),
    ("a truth", _replies_with("true"), UNFIT),
    ("a text", _replies_with('"5"'), UNFIT),
    ("two values", _replies_with("5 6"), UNFIT),
    ("deep JSON", _replies_with("[" * 100_000), UNFIT),
    ("a text that lies", _replies_with(_Sly("7")), ExpectedResult("success", value=7, tokens=3, cost=2)),
    ("plain text for a reply", lambda: "5", FAILS),
    ("None for a reply", lambda: None, FAILS),
    ("an unknown cost", _replies_with(5, cost=None), ExpectedResult("skipped", "Unexpected", tokens=3)),
    ("a cost below zero", _replies_with(5, cost=-7), ExpectedResult("success", value=5, tokens=3)),
    ("a cost that is no number", _replies_with(5, cost=float("nan")), ExpectedResult("success", value=5, tokens=3)),
    (
        "a cost in cents",
        _replies_with(5, cost=Decimal("0.07")),
        ExpectedResult("success", value=5, tokens=3, cost=Decimal("0.07")),
    ),
    ("tokens below zero", _replies_with(5, tokens=-9), ExpectedResult("success", value=5, cost=2)),
    ("tokens as a text", _replies_with(5, tokens="many"), ExpectedResult("success", value=5, cost=2)),
    ("tokens without end", _replies_with(5, tokens=float("inf")), ExpectedResult("success", value=5, cost=2)),
    ("very many tokens", _replies_with(5, tokens=10**40), ExpectedResult("success", value=5, tokens=HUGE, cost=2)),
    (
        "an error that costs",
        _raises(ModelFailed("no", ModelReply("", 4, 1, "m"))),
        ExpectedResult("skipped", "Unexpected", None, 4, 1),
    ),
    ("an error", _raises(ValueError("no")), FAILS),
    ("an end of the process", _raises(SystemExit(1)), FAILS),
    ("an error of time", _raises(TimeoutError("slow")), FAILS),
    ("a cancellation", _raises(asyncio.CancelledError()), FAILS),
)
"""Replies of a model that has to say a number, in a program with `max_cost`, and what comes of them."""


_NAMES: Final = ("names of models", lambda: None, None)
"""In place of a reply: what the adapter is told is looked at."""


class RepliesAtTheEdge(Attack):
    """An adapter of a model returns what is no reply, numbers that are none, costs and tokens below zero and without
    end, or fails, with and without a cost."""

    family = Family.INJECTION
    surface = "adapter of a model"
    action = "replies, costs and tokens that are none"
    invariant = Invariant.BOUNDS
    defence = "a reply counts if it is one, and what it cost is charged in any case"
    severity = "high"
    enumerates = "odd replies and errors of an adapter"
    weight = 50
    draws = True

    def play(self, case: Case) -> Outcome:
        """Play each reply, and compare the step and the charges."""
        case.pick("the case", _only())
        step = {"id": "ask", "type": "llm", "prompt": "?", "returns": {"type": "number"}, "on_error": "skip"}
        for what, reply, due in case.each("reply", (*NUMBER, _NAMES)):
            if due is None:
                self._settings(case)
                continue
            case.act(f"the model replies {what}")
            run = case.do(_asking(case, _Adapter(reply)).run(_program(step, max_cost=10**9)))
            _compare(case, what, run, due)
            charged = (run.tokens, run.cost)
            expected = (due.tokens, due.cost)
            case.hold(charged == expected, self.invariant, f"{what}: {charged} are charged, not {expected}")
        return Outcome.ABSORBED

    def _settings(self, case: Case) -> None:
        """Check what an adapter is told, and that it is not asked for a model that it does not have."""
        step = {"id": "ask", "type": "llm", "prompt": "?", "model": "large", "on_error": "skip"}
        for names, due in ((("large",), 1), (("small",), 0), ((), 0)):
            adapter = _Adapter(_replies_with("yes"), names)
            run = case.do(_asking(case, adapter).run(_program({**step, "temperature": 0.5, "max_output_tokens": 9})))
            settings = [(one.model, one.temperature, one.max_output_tokens) for one in adapter.asked]
            is_so = settings == [("large", Decimal("0.5"), 9)] * due
            case.hold(is_so, Invariant.DATA, f"an adapter for {names} is asked {settings}")
            case.hold(("ask.output" in run.view("tool")) is bool(due), Invariant.DATA, f"{names} give a reply")


class _Adapter:
    """An adapter whose replies are those of a function; `asked` are its requests."""

    def __init__(self, reply: Callable[[], Any], names: tuple[str, ...] = ()) -> None:
        self.asked: list[Any] = []
        self.names = names
        self._reply = reply

    async def complete(self, request: Any) -> Any:
        """Return the reply of the function."""
        self.asked.append(request)
        return self._reply()


def _asking(case: Case, adapter: _Adapter) -> ExecutionVM:
    return case.machine({}, adapter, clock=ManualClock())


def _compare(case: Case, what: str, run: Run, due: ExpectedResult, kind: str = "") -> None:
    """Compare the one attempt of a run with what has to come of it."""
    attempt = next(one for one in run.trace if one.kind == "attempt")
    found = (attempt.outcome, attempt.error_name or "", attempt.output)  # type: ignore[union-attr]
    expected = (kind or due.kind, due.name, due.value)
    case.hold(found == expected, Invariant.DATA, f"{what}: the step comes to {found}, and not {expected}")


# -- tools ---------------------------------------------------------------------------------------------------------


class _Mute(Exception):  # noqa: N818 - a specimen
    def __str__(self) -> str:
        raise SystemExit(3)


class _Declined(Exception):  # noqa: N818 - a specimen
    pass


_Declined.__name__ = "Declined"


class _Late(_Declined):
    pass


DECLINED: Final = ExpectedResult("skipped", "Declined")
ENDS: Final[tuple[tuple[str, Callable[[], Any], ExpectedResult], ...]] = (
    ("an error by name", _raises(ToolError("Declined", "no")), DECLINED),
    ("an error by class", _raises(_Declined("no")), DECLINED),
    ("an error of a class below", _raises(_Late("no")), DECLINED),
    ("an error that is not declared", _raises(ToolError("Refused", "no")), FAILS),
    ("an error whose name lies", _raises(ToolError(_Sly("Refused"), "no")), FAILS),
    ("an error of time", _raises(TimeoutError("slow")), FAILS),
    ("a cancellation", _raises(asyncio.CancelledError()), FAILS),
    ("an end of the process", _raises(SystemExit(2)), FAILS),
    ("an error that can't be written", _raises(_Mute()), FAILS),
    ("a long error", _raises(ValueError("x" * MOST_ERROR)), FAILS),
    ("an error that is too long", _raises(ValueError("x" * (MOST_ERROR + 1))), FAILS),
    ("a suspension", lambda: Suspend("?"), ExpectedResult("skipped", "BadOutput")),
    ("a text", lambda: "x", ExpectedResult("skipped", "BadOutput")),
    ("no value", lambda: {1, 2}, ExpectedResult("skipped", "BadOutput")),
    ("what fails when it is read", lambda: _Lazy({"a": 1}), ExpectedResult("skipped", "BadOutput")),
    ("doubt", _raises(InDoubt("lost")), FAILS),
)
"""The ends of a call that has to return a number, without a leave to suspend, and what comes of them in a read."""

IN_DOUBT: Final = ("a suspension", "a text", "no value", "what fails when it is read", "doubt")
"""What leaves a write in doubt: it may have happened."""


class ToolsAtTheEdge(Attack):
    """A tool raises errors by name, by class and by names that lie, times out by itself, suspends without leave, and
    returns what is no value: in a read and in a write, with a time-out and without."""

    family = Family.INJECTION
    surface = "functions of tools"
    action = "each way in which a call can end"
    invariant = Invariant.DATA
    defence = "an error has the name that its manifest lists, and a write that may have happened is in doubt"
    severity = "high"
    enumerates = "the ends of a call, of a read and of a write"
    weight = 50
    draws = True

    def play(self, case: Case) -> Outcome:
        """Play each end of a call, and compare what comes of it."""
        case.pick("the case", _only())
        for effect, timeout in case.each("tool", (("read", None), ("write", 9), ("write", None), ("read", 9))):
            for what, end, due in ENDS:
                self._play(case, f"{what} of a {effect}", end, due, effect, timeout)
        return Outcome.ABSORBED

    def _play(
        self, case: Case, what: str, end: Callable[[], Any], due: ExpectedResult, effect: str, timeout: int | None
    ) -> None:
        step: dict[str, Any] = {"id": "call", "type": "tool", "tool": "call", "on_error": "skip"}
        step |= {} if timeout is None else {"timeout_seconds": timeout}
        facts = {"effect": effect, "args": {}, "returns": {"type": "number"}, "errors": ["Declined"]}

        async def call() -> Any:
            return end()

        machine = case.machine({"call": call}, clock=ManualClock())
        case.act(f"the call ends in {what}")
        run = case.do(machine.run(_program(step, tools={"call": facts})))
        is_in_doubt = effect == "write" and what.removesuffix(" of a write") in IN_DOUBT
        if is_in_doubt:
            attempt = next(one for one in run.trace if one.kind == "attempt")
            is_so = (run.status, attempt.outcome) == ("IN_DOUBT", "doubt")  # type: ignore[union-attr]
            case.hold(is_so, Invariant.KEPT, f"{what}: the run is {run.status}")
            return
        _compare(case, what, run, due)
        text = run.view("tool")["call.error"]
        case.hold(len(text) <= MOST_ERROR + 1, Invariant.BOUNDS, f"{what}: {len(text)} characters are on record")
        is_cut = what.startswith("an error that is too long")
        case.hold(text.endswith("…") is is_cut, self.invariant, f"{what}: the text is cut: {not is_cut}")
