"""One call of a tool or a model: what it is asked, and what its answer means."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from stepward.sabotage.reference.answers import Answer, Raised, Replied, Returned, TimedOut, Waits
from stepward.sabotage.reference.facts import WORST, Tool
from stepward.sabotage.reference.plain import NoValue, size, to_value
from stepward.sabotage.reference.types import is_of

if TYPE_CHECKING:
    from stepward.vm.language.types import TypeSpec


@dataclass
class Call:
    """How far a call of the present visit is.

    `phase` is `ready`, `asked`, `waits`, `doubt`, or how it ended: `success`, `fallback`, `failed`, `skipped`.
    `before` are the attempts of earlier rounds of a retried parallel step. `is_repeat` says that the last performance
    is to be done again because it did not happen, `is_blocked` that no policy allows the call.
    """

    step: Any
    tool: Tool = WORST
    returns: TypeSpec | None = None
    phase: str = "ready"
    attempt: int = 0
    before: int = 0
    performance: int = 0
    is_repeat: bool = False
    is_blocked: bool = False
    args: dict[str, Any] = field(default_factory=dict)
    prompt: str = ""
    system: str | None = None
    answer: Answer | None = None
    value: Any = None
    error: str = ""
    hidden: set[tuple[str, ...]] = field(default_factory=set)
    """The fields of the output that repeat a sensitive value."""

    @property
    def is_model(self) -> bool:
        """Whether a model is asked, not a tool."""
        return bool(self.step.type == "llm")

    @property
    def is_same_performance(self) -> bool:
        """Whether the next start is one more of the same performance ("Failure" 7)."""
        return self.performance > 0 and (self.is_repeat or (not self.is_model and self.tool.idempotent))

    def fails(self, why: str) -> None:
        """End the call without an output: it was skipped or it failed ("Failure" 1)."""
        self.phase = "skipped" if self.step.on_error == "skip" else "failed"
        self.error = why

    def succeeds(self, value: Any) -> None:
        """End the call with an output."""
        self.phase, self.value, self.error = "success", value, ""


class Heard(NamedTuple):
    """What an answer says: `is_fine` with a value, or that and why there is none."""

    is_fine: bool
    value: Any = None
    why: str = ""
    may_have_happened: bool = False


def heard(call: Call, answer: Answer, most_bytes: int) -> Heard:
    """Return what an answer says.

    A tool that raises says that nothing happened; who can't know says so; a late or ill-typed answer of a write leaves
    it open ("Failure" 5). A model, and a tool without effect, can't be in doubt ("Failure, Choices").
    """
    if isinstance(answer, Returned | Replied):
        try:
            value = fitting(call, answer.value if isinstance(answer, Returned) else answer.content, most_bytes)
        except NoValue as error:
            return Heard(False, why=f"ill-typed: {error}", may_have_happened=True)
        return Heard(True, value)
    if isinstance(answer, Raised):
        return Heard(False, why=f"raised: {answer.why}")
    return Heard(False, why=type(answer).__name__, may_have_happened=True)


def fitting(call: Call, raw: Any, most_bytes: int) -> Any:
    """Return a raw output as a value of the declared type; raises NoValue where it is none, or too large."""
    value = _reply(call, raw) if call.is_model else to_value(raw)
    if not is_of(value, call.returns):
        raise NoValue(repr(value))
    if size(value) > most_bytes:
        raise NoValue(f"{size(value)} bytes")
    return value


def _reply(call: Call, raw: Any) -> Any:
    """A closed set is compared exactly after strip; a structured reply is JSON, or data that the adapter has read."""
    value = to_value(raw)
    if call.step.allowed_outputs is not None:
        if not isinstance(value, str) or value.strip() not in call.step.allowed_outputs:
            raise NoValue(repr(value))
        return value.strip()
    declared = call.step.returns
    if not isinstance(value, str) or declared is None or "string" in (declared.type or ()):
        return value
    try:
        return to_value(json.loads(value, parse_float=Decimal, parse_constant=_refused))
    except (ValueError, RecursionError, ArithmeticError):
        raise NoValue(value) from None


def _refused(word: str) -> Any:
    raise NoValue(word)


def judge(call: Call, most_bytes: int) -> None:
    """Decide what an attempt that was answered leads to: an end of the call, a further attempt, doubt, or waiting."""
    answer = call.answer
    assert answer is not None
    call.answer = None
    if isinstance(answer, Waits) and call.tool.suspends and not call.is_model:
        call.phase = "waits"  # it has started and not ended ("Failure" 8)
        return
    said = heard(call, answer, most_bytes)
    if said.is_fine:
        call.succeeds(said.value)
        return
    step, call.error = call.step, said.why
    is_open = said.may_have_happened and not call.is_model and call.tool.effect == "write"
    if is_open and not call.tool.idempotent:
        call.phase = "doubt"
        return
    attempts = step.max_retries if is_open or step.on_error == "retry" else 1
    if call.attempt - call.before < attempts:
        call.phase = "ready"
    elif isinstance(answer, TimedOut) and step.on_timeout == "fallback":
        _falls_back(call, most_bytes)
    elif is_open:
        call.phase = "doubt"
    else:
        call.fails(said.why)


def _falls_back(call: Call, most_bytes: int) -> None:
    """A `fallback` applies when the attempts are used up, and the last one timed out ("Failure" 4)."""
    value = to_value(call.step.fallback)
    if size(value) > most_bytes:
        call.fails(f"{size(value)} bytes")
    else:
        call.phase, call.value, call.error = "fallback", value, ""
