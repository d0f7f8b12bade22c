"""When a call starts: the guards on its arguments, and those under which it is refused."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from stepward.validator.analysis.filled_texts import is_readable
from stepward.validator.engine.systems.deciding import conjunction
from stepward.validator.engine.systems.joint import Guards
from stepward.validator.engine.systems.system import FAILS, NONE_HOLDS, Decision, Guard
from stepward.validator.engine.values.domains import Domains, Names
from stepward.validator.engine.values.whole_numbers import is_whole
from stepward.vm.expressions.operators import Comparison
from stepward.vm.expressions.syntax import (
    Arithmetic,
    Compare,
    Constant,
    Defined,
    Expression,
    FunctionCall,
    Reference,
)
from stepward.vm.expressions.template import embedded, parts
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
        return self._of(number, sub, call, earlier.defined | earlier.undefined)

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
        conditions: list[Expression] = [
            Defined(0, 0, Reference(0, 0, name)) for name in doubtful if self.domains.root(name) not in assigned
        ]
        # What siblings assign before is not in the state at the start of the step: it may be anything of its type.
        is_sure = len(conditions) == len(doubtful)
        if isinstance(call, ComputeStep):
            is_sure = False  # its expression may have no value
        if isinstance(call, LlmCall):
            is_sure &= self.analyses.public_values.are_all_in(call)
        if isinstance(call, ToolCall):
            is_sure = self.analyses.names_fit(call)
            for name, spec in (self.facts.meaning.tool(call.tool).args or {}).items():
                if name not in call.args or self.facts.fits(call.args[name], spec):
                    continue
                type_conditions = self.type_question(call.args[name], spec, assigned)
                is_sure &= type_conditions is not None
                conditions.extend(type_conditions or ())
        if not conditions:
            return _ALWAYS, _NEVER if is_sure else _ALWAYS
        start, *refused = (
            (Guard(Decision((conjunction(conditions),)), outcome),) for outcome in (0, NONE_HOLDS, FAILS)
        )
        return (start,), (tuple(refused) if is_sure else _ALWAYS)

    def type_question(self, value: Any, spec: TypeSpec, assigned: frozenset[Names]) -> list[Expression] | None:
        """Return the conditions under which an argument is of its type; None where conditions can't express it."""
        references = list(embedded(value))
        if not references or references[0].path:
            return None
        if not references[0].whole:
            return self._text_question(value, spec, assigned)
        reference = references[0].reference
        if self.domains.root(reference.names) in assigned:
            return None
        domain = self.domains.of(reference.names)
        plain = Reference(0, 0, reference.names)
        if spec.enum is not None:
            fits = {type(member) for member in spec.enum} <= {str} and domain.kinds == {"string"}
            return [Compare(0, 0, "in", plain, Constant(0, 0, tuple(spec.enum)))] if fits else None
        is_refused = "null" in domain.kinds and "null" not in spec.kinds
        not_null: list[Expression] = [Compare(0, 0, "!=", plain, Constant(0, 0, None))] if is_refused else []
        kinds = domain.kinds - {"null"} if is_refused else domain.kinds
        if kinds <= spec.kinds and kinds <= {"boolean", "null"}:
            return not_null
        if kinds == {"string"} <= spec.kinds:
            if spec.pattern is not None and not is_readable(spec.pattern):
                return None
            found_in = [] if spec.pattern is None else [FunctionCall(0, 0, "matches", plain, spec.pattern)]
            return [*not_null, *found_in, *_of_length([plain], spec, 0)]
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
        return [*not_null, *within]

    def _text_question(self, text: str, spec: TypeSpec, assigned: frozenset[Names]) -> list[Expression] | None:
        """Return the conditions under which a text is of a type when its references, all of texts, are replaced."""
        pieces = parts(text)
        read = [Reference(0, 0, one.names) for one in pieces if isinstance(one, Reference)]
        if "string" not in spec.kinds or any(self.domains.root(one.names) in assigned for one in read):
            return None
        if any(self.domains.of(one.names).kinds != {"string"} for one in read):
            return None
        written = [one for one in pieces if isinstance(one, str)]
        if spec.enum is not None:
            return _of_members(read, spec.enum, pieces)
        by_pattern = TypeSpec.model_construct(type=("string",), pattern=spec.pattern)
        if spec.pattern is not None and not self.facts.given_types.is_filled_of(text, by_pattern):
            return None
        return _of_length(read, spec, sum(map(len, written)))

    @cached_property
    def doubtful(self) -> dict[tuple[int, int | None], dict[Names, bool | None]]:
        """The references of each step or sub-step that may be undefined; None for those that never exist."""
        result: dict[tuple[int, int | None], dict[Names, bool | None]] = {}
        for reading, _, _ in self.analyses.assignment.doubtful:
            result.setdefault((reading.step, reading.sub), {})[reading.reference.names] = True
        for reading in self.analyses.assignment.never_defined:
            result.setdefault((reading.step, reading.sub), {})[reading.reference.names] = None
        return result


def _of_members(
    read: list[Reference], enum: Iterable[Any], pieces: Sequence[str | Reference]
) -> list[Expression] | None:
    """Return the condition under which a text with one reference is a member of an `enum`."""
    if len(read) != 1:
        return None
    index = next(number for number, one in enumerate(pieces) if isinstance(one, Reference))
    start, end = ("".join(map(str, some)) for some in (pieces[:index], pieces[index + 1 :]))
    known = [one for one in enum if isinstance(one, str) and len(one) >= len(start) + len(end)]
    known = [one[len(start) : len(one) - len(end)] for one in known if one.startswith(start) and one.endswith(end)]
    return [Compare(0, 0, "in", read[0], Constant(0, 0, tuple(known)))] if known else None


def _of_length(read: list[Reference], spec: TypeSpec, fixed: int) -> list[Expression]:
    """Return the conditions under which texts, with some more characters, are together as long as a type says."""
    first, *rest = (FunctionCall(0, 0, "len", one) for one in read)
    length: Expression = Arithmetic(0, 0, first, tuple(("+", one) for one in rest)) if rest else first
    conditions: list[Expression] = []
    if spec.min_length and spec.min_length > fixed:
        conditions.append(Compare(0, 0, ">=", length, Constant(0, 0, spec.min_length - fixed)))
    if spec.max_length is not None:
        conditions.append(Compare(0, 0, "<=", length, Constant(0, 0, spec.max_length - fixed)))
    return conditions
