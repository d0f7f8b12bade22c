"""When a call starts: the guards on its arguments, and those under which it is refused."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from stepward.validator.engine.systems.deciding import conjunction
from stepward.validator.engine.systems.joint import Guards
from stepward.validator.engine.systems.system import FAILS, NONE_HOLDS, Decision, Guard
from stepward.validator.engine.values.domains import Domains, Names
from stepward.validator.engine.values.whole import is_whole
from stepward.vm.expressions.operators import Comparison
from stepward.vm.expressions.syntax import Compare, Constant, Defined, Expression, Reference
from stepward.vm.expressions.template import embedded
from stepward.vm.language.steps import Call, ComputeStep, LlmCall, ToolCall
from stepward.vm.language.types import TypeSpec

if TYPE_CHECKING:
    from stepward.validator.analysis.analyses import Analyses

_ALWAYS: Final = ((),)
_NEVER: Final[tuple[tuple[Guard, ...], ...]] = ()


class Starts:
    """The starts of the calls of one program."""

    def __init__(self, analyses: Analyses, domains: Domains) -> None:
        self.facts, self.analyses = analyses.facts, analyses
        self.domains = domains

    def of(self, number: int, sub: int | None, call: Call) -> tuple[tuple[Guards, ...], tuple[Guards, ...]]:
        """Return the alternatives of guards under which a call starts, and those under which it is refused."""
        earlier = self.analyses.assignment.earlier(number, sub)
        return self._of(number, sub, call, earlier.given | earlier.gone)

    def behind(self, number: int, sub: int, call: Call) -> tuple[Guards, ...]:
        """Return the alternatives of guards under which a sub-step starts in the state that its siblings have left."""
        return self._of(number, sub, call, frozenset())[0]

    def _of(
        self, number: int, sub: int | None, call: Call, assigned: frozenset[Names]
    ) -> tuple[tuple[Guards, ...], tuple[Guards, ...]]:
        """Return the alternatives of a call for a state that says nothing of the `assigned` roots."""
        doubtful = self.doubtful.get((number, sub), {})
        if None in doubtful.values():
            return _NEVER, _ALWAYS
        wanted: list[Expression] = [
            Defined(0, 0, Reference(0, 0, name)) for name in doubtful if self.domains.root(name) not in assigned
        ]
        # What siblings assign before is not in the state at the start of the step: it may be anything of its type.
        is_sure = len(wanted) == len(doubtful)
        if isinstance(call, ComputeStep):
            is_sure = False  # its expression may have no value
        if isinstance(call, LlmCall):
            is_sure &= self.analyses.public_values.are_all_in(call)
        if isinstance(call, ToolCall):
            is_sure = self.analyses.names_fit(call)
            for name, spec in (self.facts.meaning.tool(call.tool).args or {}).items():
                if name not in call.args or self.facts.fits(call.args[name], spec):
                    continue
                asked = self.type_question(call.args[name], spec, assigned)
                is_sure &= asked is not None
                wanted.extend(asked or ())
        if not wanted:
            return _ALWAYS, _NEVER if is_sure else _ALWAYS
        start, *refused = ((Guard(Decision((conjunction(wanted),)), outcome),) for outcome in (0, NONE_HOLDS, FAILS))
        return (start,), (tuple(refused) if is_sure else _ALWAYS)

    def type_question(self, value: Any, spec: TypeSpec, assigned: frozenset[Names]) -> list[Expression] | None:
        """Return the conditions under which an argument is of its type; None where conditions can't express it."""
        found = list(embedded(value))
        if not found or not found[0].whole or found[0].path:
            return None
        reference = found[0].reference
        if self.domains.root(reference.names) in assigned:
            return None
        domain = self.domains.of(reference.names)
        plain = Reference(0, 0, reference.names)
        if spec.enum is not None:
            fits = {type(member) for member in spec.enum} <= {str} and domain.kinds == {"string"}
            return [Compare(0, 0, "in", plain, Constant(0, 0, tuple(spec.enum)))] if fits else None
        is_refused = "null" in domain.kinds and "null" not in spec.kinds
        there: list[Expression] = [Compare(0, 0, "!=", plain, Constant(0, 0, None))] if is_refused else []
        kinds = domain.kinds - {"null"} if is_refused else domain.kinds
        if kinds <= spec.kinds and kinds <= {"boolean", "null"}:
            return there
        is_free = spec.pattern is None and spec.max_length is None and not spec.min_length
        if kinds == spec.kinds == {"string"} and is_free:
            return there
        wants_number = spec.kinds and spec.kinds <= {"number", "integer"}
        are_whole = all(one.integral or (one.low == one.high and isinstance(one.low, int)) for one in domain.ranges)
        wants_whole = "number" not in spec.kinds and not are_whole
        if kinds != {"number"} or not wants_number:
            return None
        if wants_whole and not is_whole(self.facts.meaning, self.domains, reference.names):
            return None
        bounds: list[tuple[Comparison, Any]] = [
            (">=", spec.minimum),
            ("<=", spec.maximum),
            (">", spec.exclusive_minimum),
            ("<", spec.exclusive_maximum),
        ]
        within = [Compare(0, 0, word, plain, Constant(0, 0, end)) for word, end in bounds if end is not None]
        return [*there, *within]

    @cached_property
    def doubtful(self) -> dict[tuple[int, int | None], dict[Names, bool | None]]:
        """The references of each step or sub-step that may be undefined; None for those that never exist."""
        result: dict[tuple[int, int | None], dict[Names, bool | None]] = {}
        for reading, _, _ in self.analyses.assignment.doubtful:
            result.setdefault((reading.step, reading.sub), {})[reading.reference.names] = True
        for reading in self.analyses.assignment.never_defined:
            result.setdefault((reading.step, reading.sub), {})[reading.reference.names] = None
        return result
