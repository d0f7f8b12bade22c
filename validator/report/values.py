"""The values that lead a witness along its path: those that its conditions and the broken rule depend on."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from stepward.validator.findings import Finding
from stepward.vm.errors import ExpressionError
from stepward.vm.expressions.fields import ITEMS, part, written
from stepward.vm.expressions.parser import parse
from stepward.vm.expressions.syntax import Expression, all_references
from stepward.vm.expressions.template import embedded
from stepward.vm.language.clauses import Clause
from stepward.vm.language.guardrails import Never
from stepward.vm.language.items import origins
from stepward.vm.language.meaning import Meaning
from stepward.vm.language.names import Resolution
from stepward.vm.language.steps import ComputeStep, ConditionStep, ForEachStep, ToolCall
from stepward.vm.values import to_json

if TYPE_CHECKING:
    from stepward.validator.engine.witnesses.witness import Witness
    from stepward.vm.language.program import Program

_Names = tuple[str, ...]

_ABSENT: Final = object()
_LONGEST: Final = 40
"""Characters of one value that are shown."""

_MAX_VISITS: Final = 4
"""Values of one reference that are shown."""


class Values:
    """Finds the values of witnesses; a program is analysed once, however many findings it has."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Program, Meaning]] = {}

    def of(self, finding: Finding) -> list[str]:
        """Return the relevant values of a finding's witness, as `amount = 501`: inputs first, then replies in order.

        What a `compute` step is supposed to come to says so.
        """
        evidence = finding.evidence
        if evidence is None or evidence.witness is None:
            return []
        witness = evidence.witness
        meaning = self._meaning(witness)
        steps = {move.step for move in evidence.path} | {witness.claim.step}
        found: dict[str, list[str]] = {}
        after: dict[str, list[str]] = {}
        returned: defaultdict[str, list[Any]] = defaultdict(list)
        computing = {step.id for step in witness.program.layout.steps if isinstance(step, ComputeStep)}
        for answer in witness.script:
            returned[answer.step] += [answer.value] if answer.does == "returns" else []
        for names, resolution in _read(witness, meaning, steps):
            for source, fields in origins(meaning.typing, resolution):
                if source.kind == "input" and source.name in witness.inputs:
                    _record(found, names, witness.inputs[source.name], fields)
                elif source.kind == "output":
                    for value, below in _answers(returned, source.name, fields):
                        _record(after, names, value, below, is_supposed=source.name in computing)
        return [f"{name} = {', then '.join(values)}" for name, values in (found | after).items()]

    def _meaning(self, witness: Witness) -> Meaning:
        program = witness.program
        if id(program) not in self._known:
            self._known[id(program)] = (program, Meaning(program))
        return self._known[id(program)][1]


def _read(witness: Witness, meaning: Meaning, steps: set[str]) -> Iterator[tuple[_Names, Resolution]]:
    """Yield the references that a path through some steps depends on, with what they mean."""
    clauses = [clause for clause in meaning.clauses if meaning.flow.steps[clause.step].id in steps]
    read_by_conditions = [
        names for clause in clauses if _is_condition(meaning, clause) for names in _references(clause)
    ]
    made_by: defaultdict[tuple[Any, ...], list[Clause]] = defaultdict(list)
    for clause in clauses:
        made_by[clause.path].append(clause)
    pending = deque([*read_by_conditions, *_of_rule(witness, meaning)])
    seen: set[_Names] = set()
    while pending:
        names = pending.popleft()
        resolution = meaning.names.meaning(names) if names not in seen else None
        seen.add(names)
        if resolution is None:
            continue
        yield names, resolution
        for path in dict.fromkeys(source.path for source in resolution.sources):
            for clause in made_by[path]:
                is_meant = clause.name == names[0] if clause.is_of_fields else path[-1] == names[0]
                read = _references(clause) if is_meant else []
                pending.extend(one for one in read if one != (clause.name,))  # a path copies its own object


def _is_condition(meaning: Meaning, clause: Clause) -> bool:
    return isinstance(meaning.flow.steps[clause.step], ConditionStep)


def _references(clause: Clause) -> list[_Names]:
    return [] if clause.tree is None else _names_in(clause.tree)


def _names_in(tree: Expression) -> list[_Names]:
    return [reference.names for reference in all_references(tree)]


def _of_rule(witness: Witness, meaning: Meaning) -> Iterator[_Names]:
    """Yield the names that the `when` of the broken rule reads; for `$args.x` the names in the argument."""
    here = [step for step in meaning.flow.steps if step.id == witness.claim.step]
    parts = [part for step in here for part in (step, *step.sub_steps)]
    calls = [part for part in parts if isinstance(part, ToolCall)]
    for text in _whens(witness, {call.tool for call in calls}):
        try:
            names_read = _names_in(parse(text))
        except ExpressionError:
            continue
        for names in names_read:
            if names[0] != "args":
                yield names
                continue
            for call in calls:
                yield from (one.reference.names for one in embedded(call.args.get(names[1]) if names[1:] else None))


def _whens(witness: Witness, tools: set[str]) -> Iterator[str]:
    claim = witness.claim
    for policy in witness.policies:
        if policy.policy == claim.policy and claim.rule == "allow":
            yield from (entry.when for entry in policy.allow or () if entry.tool in tools and entry.when is not None)
    rule_lists = [policy.guardrails for policy in witness.policies if policy.policy == claim.policy]
    if claim.policy is None:
        bodies = [step for step in witness.program.layout.steps if isinstance(step, ForEachStep)]
        rule_lists = [witness.program.guardrails, *(step.guardrails for step in bodies)]
    for rule in (one for rules in rule_lists for one in rules):
        if rule.name == claim.rule and isinstance(rule, Never) and rule.when is not None:
            yield rule.when


def _answers(returned: Mapping[str, Sequence[Any]], step: str, fields: _Names) -> Iterator[tuple[Any, _Names]]:
    """Yield the outputs of a step at its visits; the output of a parallel step is an object of its sub-steps."""
    if step not in returned and fields and fields[0] in returned:
        step, fields = fields[0], fields[1:]
    for value in returned.get(step, ()):
        yield value, fields


def _record(
    found: dict[str, list[str]], names: _Names, value: Any, fields: _Names, *, is_supposed: bool = False
) -> None:
    """Record a value, or the field that is read, of each item of a list in turn; a missing field is left out."""
    for depth, field in enumerate(fields):
        if field == ITEMS:
            for item in value if isinstance(value, tuple) else ():
                _record(found, names, item, fields[depth + 1 :], is_supposed=is_supposed)
            return
        value = part(value, field, _ABSENT)
        if value is _ABSENT:
            return
    text = to_json(value)
    text = text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
    text += " (supposed)" if is_supposed else ""
    values = found.setdefault(written(names), [])
    if len(values) == _MAX_VISITS:
        values.append("…")
    elif len(values) < _MAX_VISITS and (not values or values[-1] != text):
        values.append(text)
