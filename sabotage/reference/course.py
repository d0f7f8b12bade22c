"""The course of a run from its first step to its end, and its interface to the outside."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from fractions import Fraction
from typing import Any, Literal

from stepward.sabotage.reference import facts
from stepward.sabotage.reference.answers import Answer, Cut, Expired, PendingCall, Raised, Replied, TimedOut
from stepward.sabotage.reference.calls import Call, fitting, has_deadline, judge
from stepward.sabotage.reference.data import FieldPath, outermost
from stepward.sabotage.reference.echoes import sought
from stepward.sabotage.reference.plain import NoValue, Unworded, to_value
from stepward.sabotage.reference.run import Happened, Over
from stepward.sabotage.reference.sequence import Sequence
from stepward.sabotage.reference.types import completed
from stepward.sabotage.reference.waves import Pause


class Reference(Sequence):
    """One run of a program, as the specification predicts it.

    `start` and each answer continue the run until a call needs an answer, a person has to act, or the run is over.
    `policies` are those of the machine; `waived` are lifted rules, as `policy:rule`. `max_output_bytes`,
    `max_state_bytes` and `max_steps` are the machine's own limits. Of a sensitive value the state has a reference, of
    whose size the reference knows nothing: such a run needs a state that is large enough.
    """

    _course: Pause | None = None

    # -- state for the outside -----------------------------------------------------------------------------------------

    @property
    def values(self) -> dict[str, Any]:
        """The variables that are defined: inputs, output keys, names of `set`."""
        return {where[0]: value for where, value in self._data.values.items() if len(where) == 1}

    @property
    def outputs(self) -> dict[str, Any]:
        """The outputs that are defined, by step and sub-step."""
        return {where[0]: value for where, value in self._data.values.items() if where[1:] == ("output",)}

    @property
    def errors(self) -> dict[str, Unworded]:
        """The steps and sub-steps that last ended without an output, with their errors."""
        return {where[0]: value for where, value in self._data.values.items() if where[1:] == ("error",)}

    @property
    def error_names(self) -> dict[str, str]:
        """The names of these errors, in a program of language 2."""
        return {where[0]: name for where, name in self._data.values.items() if where[1:] == ("error_name",)}

    @property
    def item_errors(self) -> dict[str, Any]:
        """The errors of items that are defined, by step."""
        return {where[0]: value for where, value in self._data.values.items() if where[1:] == ("errors",)}

    @property
    def hidden(self) -> dict[str, set[FieldPath]]:
        """The variables and outputs that are sensitive or have a sensitive part, with the fields that are."""
        return {".".join(where): outermost(paths) for where, paths in self._data.hidden.items()}

    @property
    def asked(self) -> tuple[PendingCall, ...]:
        """The calls that wait for an answer, in program order."""
        return tuple(
            self._everywhere(
                lambda: [self._asked(call) for call in self._calls if call.phase == "asked" and call.answer is None]
            )
        )

    def _asked(self, call: Call) -> PendingCall:
        tool = "" if call.is_model else call.step.tool
        visit = self._visits[self._at]
        place = (call.step.id, visit, call.attempt, call.performance, tool, call.args, call.prompt, call.system)
        return PendingCall(*place, self._frames)

    @property
    def waiting(self) -> tuple[str, ...]:
        """The suspended steps, in program order."""
        return tuple(call.step.id for call in self._all_calls() if call.phase == "waits")

    @property
    def doubtful(self) -> tuple[str, ...]:
        """The steps in doubt, in program order."""
        return tuple(call.step.id for call in self._all_calls() if call.phase == "doubt")

    @property
    def is_over(self) -> bool:
        """Whether the run has ended."""
        return self.status not in ("", "RUNNING", "SUSPENDED", "IN_DOUBT")

    def broken(self) -> tuple[str, ...]:
        """Return the `followed_by` rules that the ended run broke."""
        if not self.is_over:
            return tuple(self._broken)
        last = [monitor.rule.name for monitor in self._rules if monitor.is_broken(self.status, self.reason)]
        return (*self._broken, *last)

    # -- events of a run -----------------------------------------------------------------------------------------------

    def start(self, inputs: Mapping[str, Any], by: str = "", caller: str = "") -> None:
        """Start the run, by the person `by`, for the caller of a gateway who may not settle its own calls.

        Raises ValueError if the inputs must be refused ("The program" 2, "Types").
        """
        assert self._course is None, "a run starts once"
        self._by, self._caller = by, caller
        try:
            values = completed({name: to_value(value) for name, value in inputs.items()}, self._types.inputs)
        except NoValue as error:
            raise ValueError(str(error)) from None
        if values is None:
            raise ValueError("an input is missing, unknown or of another type")
        self._data.change([((name,), value) for name, value in values.items()])
        for name, value in values.items():
            self._data.hide((name,), self._types.hidden_input(name, value))
            self._secrets |= set(sought(value, self._types.inputs[name]))
        self._course = self._run()
        self._go_on()

    def answer(self, step: str, answer: Answer, frame: Any = None) -> None:
        """Give an answer to a waiting call; `frame` is where it is, needed only for items that run at once.

        The run continues when every call of the wave has its answer; in a step with `depends_on`, after each answer.
        """
        call = self._find(step, "asked", frame)
        assert call.answer is None, "a call is answered once"
        assert not isinstance(answer, TimedOut) or call.step.timeout_seconds is not None, "it can't be late"
        call.answer = answer
        if isinstance(answer, Replied | Raised) and type(answer.tokens) is int and answer.tokens > 0:
            self.tokens += answer.tokens
        if isinstance(answer, Replied) and answer.cost > 0:
            self.cost += answer.cost
        if not self.asked or self._is_ordered or self._members:
            self._go_on()

    def interrupt(self, is_started: Callable[[PendingCall], bool]) -> None:
        """Let the process die, which ends a wave ("Parallel, Choices"). `is_started` says whether the journal has the
        start of an attempt."""

        def cut() -> list[Call]:
            # With `depends_on` there are no waves.
            calls = [one for one in self._calls if one.phase == "asked" and one.answer is None and not self._is_ordered]
            for call in calls:
                call.answer = Cut(is_started(self._asked(call)))
            return calls

        if self._everywhere(cut):
            self._go_on()

    def takes(self, step: str, output: Any, frame: Any = None) -> bool:
        """Return whether a step that waits or is in doubt accepts an output from outside: it must have the step's
        type, and fit into what its frame may leave."""
        call = next(one for one in self._found(step, frame) if one.phase in ("waits", "doubt"))
        try:
            fitting(call, output, self._room_for(call))
        except NoValue:
            return False
        return True

    def takes_now(self, step: str, output: Any, frame: Any) -> bool:
        """Deliver the output of a step that waits or is in doubt. Return False for an ill-typed one."""
        return self._delivered(
            next(one for one in self._found(step, frame) if one.phase in ("waits", "doubt")), output, ""
        )

    def resume(self, step: str, payload: Any, by: str = "", frame: Any = None) -> bool:
        """Deliver the output of a suspended step. Return False for an ill-typed one: the step still waits ("Failure"
        8)."""
        return self._delivered(self._find(step, "waits", frame), payload, by)

    @property
    def deadlines(self) -> dict[tuple[str, Any], int]:
        """The suspended steps that have a deadline, with their frames, and how long each waits, in microseconds."""
        waiting = [(call, frame) for call, frame in self._placed("waits") if has_deadline(call)]
        return {(call.step.id, frame): _in_microseconds(call.step.deadline_seconds) for call, frame in waiting}

    def pass_deadlines(self, places: Collection[tuple[str, Any]]) -> None:
        """Let the deadlines of suspended steps in their frames pass at once ("Deadlines")."""
        for step, frame in places:
            call = self._find(step, "waits", frame)
            assert has_deadline(call), "it has no deadline"
            call.answer = Expired()
            judge(call, self._room_for(call))
        self._go_on()

    def reconcile(
        self,
        step: str,
        verdict: Literal["done", "not_done", "abandon"],
        output: Any = None,
        by: str = "",
        frame: Any = None,
    ) -> bool:
        """Settle a step in doubt. Return False for an ill-typed output ("Failure" 7)."""
        call = self._find(step, "doubt", frame)
        if verdict == "done":
            return self._delivered(call, output, by)
        if verdict == "abandon":
            self._end(Over("CANCELLED", "abandoned"))
            return True
        call.phase, call.is_repeat = "ready", True
        self._go_on()
        return True

    def cancel(self) -> None:
        """Cancel the run: calls under way finish, and no further call starts ("Failure, Choices").

        Steps without calls are still executed. If they reach an end without another call, the run ends there.
        """
        if self.status == "RUNNING":
            self._is_cancelled = True
        elif not self.is_over:
            self._end(Over("CANCELLED", "cancelled"))

    def _delivered(self, call: Call, output: Any, by: str) -> bool:
        try:
            value = fitting(call, output, self._room_for(call))
        except NoValue:
            return False
        known = self._known_anywhere()
        self._past.append(Happened("settled", call.step.tool, by))
        call.succeeds(value)
        self._find_echoes(call, known)  # a delivery comes after all siblings have returned
        self._go_on()
        return True

    def _room_for(self, call: Call) -> int:
        """Return the bytes of the largest output of a call, as its branch sees it ("Branches, Choices")."""
        found = self._everywhere(lambda: [self._most_bytes] if any(one is call for one in self._calls) else [])
        return int(found[0])

    def _find(self, step: str, phase: str, frame: Any) -> Call:
        return next(call for call in self._found(step, frame) if call.phase == phase)

    def _found(self, step: str, frame: Any) -> list[Call]:
        """Return the calls of a step, in one frame or in all."""
        placed = self._everywhere(lambda: [(call, self._frames) for call in self._calls])
        return [call for call, where in placed if call.step.id == step and frame in (None, where)]

    def _placed(self, phase: str) -> list[tuple[Call, Any]]:
        """Return the calls in a phase, each with its frame."""
        return self._everywhere(lambda: [(call, self._frames) for call in self._calls if call.phase == phase])

    @property
    def held(self) -> tuple[tuple[str, str, Any], ...]:
        """What waits for somebody: the phase `waits` or `doubt`, the step, and its frame; in program order."""
        return tuple(
            (phase, call.step.id, frame) for phase in ("waits", "doubt") for call, frame in self._placed(phase)
        )

    def _go_on(self) -> None:
        assert self._course is not None
        self.status = "RUNNING"
        try:
            next(self._course)
        except Over as over:
            self._end(over)

    def _end(self, over: Over) -> None:
        """End the run: after that, nothing happens ("Control flow" 8)."""
        self.status, self.reason, self.says = over.status, over.reason, over.says
        if over.reason in ("cancelled", "guardrail", "max_steps", "max_tokens", "cost", "time"):
            self.in_doubt = self._everywhere(self._doubts)
        self._fold()
        self.ended_beside = bool(self._members)
        self._calls, self._members, self._resting = [], [], None

    def _doubts(self) -> list[str]:
        writes = (call for call in self._calls if not call.is_model and call.tool.effect == "write")
        ids = [call.step.id for call in writes if call.phase == "doubt" or call.may_have_happened]
        within, around = "", ""
        called = {step.id for step in facts.all_steps(self.program.whole_steps) if step.type == "call"}
        for step, _, _, item in self._frames:
            within += step.removeprefix(around) + ("/" if step in called else f"[{item}]/")
            around = f"{step}/" if step in called else around
        return [f"{within}{name.removeprefix(around)}" for name in ids]


def _in_microseconds(seconds: Any) -> int:
    exact = Fraction(seconds) * 1_000_000
    return -(-exact.numerator // exact.denominator)
