"""The state of one run: counts, log, rules, data, and the cost of a start."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from stepward.sabotage.reference import facts
from stepward.sabotage.reference.answers import Moved
from stepward.sabotage.reference.calls import Call
from stepward.sabotage.reference.data import GONE, Changes, Data, FieldPath, Holder
from stepward.sabotage.reference.inference import Types
from stepward.sabotage.reference.plain import is_worded, said_in, size
from stepward.sabotage.reference.rules import ALONE, Earlier, RuleMonitor, rules_of, terms_of

if TYPE_CHECKING:
    from stepward.vm import Policy, Program


class Over(Exception):  # noqa: N818 - it is no error, the run is over
    """The end of a run: its status and the reason."""

    says: tuple[str, ...] = ()
    """What the error has to say."""

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(status, reason)
        self.status, self.reason = status, reason


class Closed(Exception):  # noqa: N818 - it is no error, the body is over
    """The end of a body: its status, the reason, the output of its `end` step, and the name of its error.

    `hidden` has the sensitive fields of the output.
    """

    def __init__(self, status: str, reason: str, output: Any = GONE, name: str = "") -> None:
        super().__init__(status, reason)
        self.status, self.reason, self.output, self.name = status, reason, output, name
        self.hidden: set[FieldPath] = set()
        self.says: tuple[str, ...] = ()
        """What the error of a body that failed has to say."""


class Happened(NamedTuple):
    """An event for rules: `what` happened, to which step or holders. `more`, `held` and `earlier` belong to a start.

    `more` of a success are the siblings behind it that started.
    """

    what: str
    about: Any
    more: Any = None
    held: Mapping[tuple[str, ...], Any] | None = None
    earlier: Earlier = ALONE


class Run:
    """The state of a run, and the operations that all steps share."""

    def __init__(
        self,
        program: Program,
        policies: Sequence[Policy] = (),
        waived: Collection[str] = (),
        *,
        max_output_bytes: int = 1 << 20,
        max_state_bytes: int = 16 << 20,
        max_steps: int = 1_000_000,
    ) -> None:
        self.program = program
        self.status = ""
        self.reason = ""
        self.log: list[Moved] = []
        self.output: Any = None
        self.hidden_of_output: set[FieldPath] = set()
        """The sensitive fields of the output."""
        self.steps = 0
        self.tokens = 0
        self.cost = Decimal(0)
        self.in_doubt: list[str] = []
        """The writes that may have happened in a run that was ended from outside of them ("Failure, Choices")."""
        self._policies = facts.policies_of(program, policies)
        self._terms = [terms_of(self._policies, waived)]
        self._past: list[Happened] = []
        """The events so far, which are replayed to rules that come later."""
        self.says: tuple[str, ...] = ()
        """What the error of a run that failed has to say."""
        self._most_output, self._most_state = max_output_bytes, max_state_bytes
        self._sizes: dict[str, int] = {}
        self.has_known_size = True
        """Whether no step has left a text whose words the language does not define."""
        """The bytes that each step left in the state when it was left last."""
        self._left = 0
        """The bytes of what the last step came to that assigned values, or had bodies."""
        self._most_steps = min(max_steps, program.max_steps or max_steps)
        self._types = Types(program, self._tool)
        self._rules = rules_of(program, self._terms[0], self._tool, program.guardrails)
        self._data = Data(program)
        self._secrets: set[str] = set()
        """The sensitive values of the run at the start of its current step ("Data" 8)."""
        self._visits: dict[str, int] = {}
        self._frames: tuple[tuple[str, int, int, int | str], ...] = ()
        """The bodies that are performed, from the outside in: step id, visit, round, and item or branch."""
        self._broken: list[str] = []
        """The `followed_by` rules that frames broke."""
        self._idle = 0
        self._calls: list[Call] = []
        self._at = ""
        self._error_name = ""
        """The name of the error of the step that failed last."""
        self._is_begun = False
        self._is_cancelled = False

    def _tool(self, name: str) -> facts.Tool:
        return facts.tool(name, self.program, self._policies)

    # -- sizes ---------------------------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """The size of the state: what every step left in it at its last visit."""
        return sum(self._sizes.values())

    def _sized(self, value: Any) -> int:
        self.has_known_size &= is_worded(value)
        return size(value)

    @property
    def _room(self) -> int:
        """The bytes that the current step may leave in the state, in place of those of its last visit."""
        return self._most_state - self.size + self._sizes.get(self._at, 0)

    @property
    def _most_bytes(self) -> int:
        """The bytes of the largest output that the current step may have."""
        return min(self._most_output, self._room)

    def _note_size(self, step: Any, how: str) -> None:
        """Note what a step that is left leaves in the state: its output, its values, or those of its sub-steps."""
        if how in ("end", "error"):
            return
        if how in ("joined", "set") or (step.type == "parallel" and how != "visits"):
            self._sizes[step.id] = self._left
        elif how in ("success", "fallback"):
            self._sizes[step.id] = self._sized(self._calls[0].value)
        else:
            self._sizes[step.id] = 0

    # -- cost and admission of a start ---------------------------------------------------------------------------------

    def _heed_cancellation(self) -> None:
        """End a cancelled run before its next call."""
        if self._is_cancelled:
            raise Over("CANCELLED", "cancelled")

    def _afford(self, cost: int) -> None:
        """End the run before a step beyond `max_steps` ("Control flow" 10)."""
        if self.steps + cost > self._most_steps:
            raise Over("BUDGET_EXCEEDED", "max_steps")

    def _begin(self, step: Any) -> None:
        """Count a visit and charge for it, once: for the step and all its sub-steps."""
        if self._is_begun:
            return
        self._is_begun = True
        self._visits[step.id] = self._visits.get(step.id, 0) + 1
        self.steps += 1 + len(facts.parts_of(step))
        if step.type not in ("llm", "tool", "compute"):  # these are recorded when they start
            self._starts(step, None)

    def _starts(self, part: Any, args: dict[str, Any] | None, earlier: Earlier = ALONE) -> None:
        """Record the start of a performance with its arguments, since later rules judge it again."""
        self._past.append(Happened("starts", part, args, dict(self._data.values), earlier))
        self._note_start(part)

    def _note_start(self, part: Any) -> None:
        for monitor in self._rules:
            monitor.starts(part)

    def _ask_rules(self, step: Any, starts: Sequence[tuple[Any, dict[str, Any] | None]]) -> None:
        """End the run where a guardrail forbids one of several starts ("Guardrails" 8).

        Siblings are checked in program order, each as if the earlier ones had started.
        """
        before = self._remembered()
        if not self._is_begun and all(part is not step for part, _ in starts):
            self._note_start(step)  # a parallel step starts before its sub-steps do
        for part, args in starts:
            if any(monitor.forbids(part, args, self._data.read) for monitor in self._rules):
                visit = self._visits.get(step.id, 0) + (not self._is_begun)
                self.log.append(Moved(part.id, visit, "blocked", None, self._frames))
                self._restore(before)
                raise Over("FAILED", "guardrail")
            self._note_start(part)
        self._restore(before)

    def _remembered(self) -> Sequence[tuple[RuleMonitor, set[int], bool, bool]]:
        return [(one, set(one.performed), one.owes, one.has_paid) for one in self._rules]

    def _restore(self, before: Sequence[tuple[RuleMonitor, set[int], bool, bool]]) -> None:
        for monitor, performed, owes, has_paid in before:
            monitor.performed.intersection_update(performed)  # siblings share it
            monitor.owes, monitor.has_paid = owes, has_paid

    # -- results of a step ---------------------------------------------------------------------------------------------

    def _change(self, changes: Changes, known: Collection[Holder] = ()) -> None:
        """Apply the changes of a step, and count steps that changed no value ("Control flow" 10).

        `known` counted as assigned before.
        """
        self._idle = 0 if self._data.change(changes) else self._idle + 1
        where = [where for where, _ in changes if where not in known]
        self._past.append(Happened("assigned", where))
        for monitor in self._rules:
            monitor.assigned(where)

    def _succeeded(self, part: Any, behind: Sequence[Any] = ()) -> None:
        self._past.append(Happened("succeeded", part, behind))
        for monitor in self._rules:
            monitor.succeeded(part, behind)

    def _took(self, step: Any, labels: set[Any]) -> None:
        self._past.append(Happened("took", step, labels))
        for monitor in self._rules:
            monitor.took(step, labels)

    # -- transitions ---------------------------------------------------------------------------------------------------

    def _leave(self, step: Any, how: str) -> str:
        """Leave a step for where its error leads, its successor, or the end ("Control flow" 1 to 7, "Failure" 1)."""
        is_blocked = any(call.is_blocked and call.step is step for call in self._calls)
        logged = "blocked" if is_blocked else how
        if how == "failed":
            caught = facts.caught(step, self._error_name)
            if caught is not None:
                return self._move(step, logged, caught)
            raise self._over(step, logged, "FAILED", "error")
        target = facts.successor(step, self.program)
        if target is None:
            raise self._over(step, logged, "FAILED" if step.outcome == "failure" else "SUCCESS", "declared")
        return self._move(step, logged, target)

    def _move(self, step: Any, how: str, target: str) -> str:
        self._note_size(step, how)
        self.log.append(Moved(step.id, self._visits[step.id], how, target, self._frames))
        return target

    def _over(self, step: Any, how: str, status: str, reason: str, output: Any = GONE) -> Over | Closed:
        self._note_size(step, how)
        self.log.append(Moved(step.id, self._visits[step.id], how, None, self._frames))
        says = said_in(self._data.values.get((step.id, "error"))) if reason == "error" else ()
        over: Over | Closed
        if not self._frames:
            over = Over(status, reason)
        else:
            name = self._error_name if reason == "error" else reason.capitalize()  # "Bodies" says these names
            over = Closed(status, reason, output, "" if status == "SUCCESS" else name)
        over.says = says
        return over
