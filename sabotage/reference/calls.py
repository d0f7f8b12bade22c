"""One call of a tool or a model: its state, and the meaning of its answer."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from stepward.sabotage.reference.answers import Answer, Cut, Expired, Raised, Replied, Returned, TimedOut, Waits
from stepward.sabotage.reference.facts import WORST, Tool
from stepward.sabotage.reference.plain import NoValue, size, to_value
from stepward.sabotage.reference.types import is_of

if TYPE_CHECKING:
    from stepward.vm.language.types import TypeSpec


@dataclass
class Call:
    """The state of a call in the current visit.

    `phase` is `ready`, `asked`, `waits`, `doubt`, or how it ended: `success`, `fallback`, `failed`, `skipped`. `before`
    counts attempts in earlier rounds of a retried parallel step. `is_repeat`: the last performance did not happen and
    is repeated. `cut`: the process died in its last attempt, which is made again. `is_blocked`: no policy allows the
    call. `may_have_happened`: the last attempt of a write left that open, and another one follows.
    """

    step: Any
    tool: Tool = WORST
    returns: TypeSpec | None = None
    phase: str = "ready"
    attempt: int = 0
    before: int = 0
    performance: int = 0
    is_repeat: bool = False
    cut: Cut | None = None
    is_blocked: bool = False
    may_have_happened: bool = False
    args: dict[str, Any] = field(default_factory=dict)
    prompt: str = ""
    system: str | None = None
    answer: Answer | Cut | None = None
    value: Any = None
    error: str = ""
    name: str = ""
    says: tuple[str, ...] = ()
    hidden: set[tuple[str, ...]] = field(default_factory=set)
    """The fields of the output that repeat a sensitive value."""

    @property
    def is_model(self) -> bool:
        """Whether the call asks a model, not a tool."""
        return bool(self.step.type == "llm")

    @property
    def cost(self) -> int:
        """The steps that the next attempt costs: one, unless it is the first, or is paid for ("Control flow" 10)."""
        return int(self.attempt > 0 and not (self.cut is not None and self.cut.is_started))

    @property
    def is_same_performance(self) -> bool:
        """Whether the next start belongs to the same performance ("Failure" 7)."""
        return self.performance > 0 and (self.is_repeat or (not self.is_model and self.tool.idempotent))

    def fails(self, why: str, name: str, *says: str) -> None:
        """End the call without an output: skipped or failed ("Failure" 1). `name` is that of the error, which `says`
        some texts."""
        self.phase = "skipped" if self.step.on_error == "skip" else "failed"
        self.error, self.name, self.says = why, name, says

    def succeeds(self, value: Any) -> None:
        """End the call with an output."""
        self.phase, self.value, self.error = "success", value, ""


class AnswerMeaning(NamedTuple):
    """The meaning of an answer: `is_fine` with a value, or the reason for its absence."""

    is_fine: bool
    value: Any = None
    why: str = ""
    may_have_happened: bool = False
    name: str = "Unexpected"


def meaning_of(call: Call, answer: Answer, most_bytes: int) -> AnswerMeaning:
    """Return the meaning of an answer.

    A tool that raises reports that nothing happened. InDoubt, and a late or ill-typed answer of a write, leave that
    open ("Failure" 5). A model, and a tool without effect, can't be in doubt ("Failure, Choices").
    """
    if isinstance(answer, Returned | Replied):
        try:
            value = fitting(call, answer.value if isinstance(answer, Returned) else answer.content, most_bytes)
        except NoValue as error:
            return AnswerMeaning(False, why=f"ill-typed: {error}", may_have_happened=True, name="BadOutput")
        return AnswerMeaning(True, value)
    if isinstance(answer, Raised):
        listed = () if call.is_model else (name for name in answer.names if name in call.tool.errors)
        return AnswerMeaning(False, why=f"raised: {answer.why}", name=next(iter(listed), "Unexpected"))
    names = {TimedOut: "Timeout", Waits: "BadOutput", Expired: "Deadline"}
    name = names.get(type(answer), "Unexpected")
    return AnswerMeaning(False, why=type(answer).__name__, may_have_happened=True, name=name)


def fitting(call: Call, raw: Any, most_bytes: int) -> Any:
    """Return a raw output as a value of the declared type. Raises NoValue if it has another type or is too large."""
    value = _reply(call, raw) if call.is_model else to_value(raw)
    if not is_of(value, call.returns):
        raise NoValue(repr(value))
    if size(value) > most_bytes:
        raise NoValue(f"{size(value)} bytes")
    return value


def _reply(call: Call, raw: Any) -> Any:
    """Read a reply: for a closed set, compare it exactly after strip; for a type, parse JSON or take parsed data."""
    value = to_value(raw)
    if call.step.allowed_outputs is not None:
        if not isinstance(value, str) or value.strip() not in call.step.allowed_outputs:
            raise NoValue("none of its allowed_outputs")  # an error without the reply, so that it stays the same
        return value.strip()
    declared = call.step.returns
    if not isinstance(value, str) or declared is None or "string" in (declared.type or ()):
        return value
    try:
        return to_value(json.loads(value, parse_float=Decimal, parse_constant=_refused))
    except (ValueError, RecursionError, ArithmeticError):
        raise NoValue("no JSON") from None


def _refused(word: str) -> Any:
    raise NoValue(word)


def judge(call: Call, most_bytes: int) -> None:
    """Decide the next phase of an answered call: its end, another attempt, doubt, or waiting."""
    answer = call.answer
    assert answer is not None
    assert not isinstance(answer, Cut), "the call is made again"
    call.answer, call.may_have_happened = None, False
    is_asking = isinstance(answer, Waits) and size(to_value(answer.request)) <= most_bytes
    if is_asking and call.tool.suspends and not call.is_model:
        call.phase = "waits"  # it has started and not ended ("Failure" 8)
        return
    meaning = meaning_of(call, answer, most_bytes)
    if meaning.is_fine:
        call.succeeds(meaning.value)
        return
    step, call.error = call.step, meaning.why
    is_open = meaning.may_have_happened and not call.is_model and call.tool.effect == "write"
    if is_open and not call.tool.idempotent:
        call.phase = "doubt"
        return
    if call.attempt - call.before < _attempts(call, meaning.name, is_open=is_open):
        call.phase, call.may_have_happened = "ready", is_open
    elif isinstance(answer, TimedOut) and step.on_timeout == "fallback":
        _falls_back(call, most_bytes)
    elif is_open:
        call.phase = "doubt"
    else:
        call.fails(meaning.why, meaning.name, *([answer.why] if isinstance(answer, Raised) else []))


def has_deadline(call: Call) -> bool:
    """Return whether a call may wait only for some time."""
    return call.step.type == "tool" and call.step.deadline_seconds is not None


def _attempts(call: Call, name: str, *, is_open: bool) -> int:
    """Return how many attempts there are in all after an error: the first entry of `retry` that takes it says it.

    A write that is not idempotent is never tried again by `retry` ("Errors by name" 4).
    """
    step, tool = call.step, call.tool
    is_once = not call.is_model and tool.effect == "write" and not tool.idempotent
    for entry in () if is_once else step.retry or ():
        if name in entry.errors or "any" in entry.errors:
            return int(entry.max_attempts)
    return int(step.max_retries) if is_open or step.on_error == "retry" else 1


def _falls_back(call: Call, most_bytes: int) -> None:
    """Apply the `fallback`: the attempts are used up, and the last one timed out ("Failure" 4)."""
    value = to_value(call.step.fallback)
    if size(value) > most_bytes:
        call.fails(f"{size(value)} bytes", "BadOutput")
    else:
        call.phase, call.value, call.error = "fallback", value, ""
