"""Static facts of a program and its policies: steps, successors, tools and names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from stepward.sabotage.reference.fields import by_variable, objects_in, values_in
from stepward.sabotage.reference.templates import is_built, names_in
from stepward.vm.expressions import syntax
from stepward.vm.expressions.parser import parse

if TYPE_CHECKING:
    from stepward.vm import Policy, Program
    from stepward.vm.language.types import TypeSpec

WITH_BODY: Final = ("for_each", "call")
"""The step types with a body: the inputs of a called program are what its step carries into it."""

_WORSE = {"none": 0, "read": 1, "write": 2}


class Tool(NamedTuple):
    """The facts of a tool, from program and policies together."""

    effect: str
    idempotent: bool
    suspends: bool
    args: dict[str, TypeSpec] | None
    returns: TypeSpec | None
    errors: frozenset[str] = frozenset()


WORST = Tool("write", False, True, None, None)
"""The facts of an undeclared tool: it writes, is not idempotent, and may suspend."""


def policies_of(program: Program, policies: Sequence[Policy]) -> list[Policy]:
    """Return the policies that apply to a program, by its name or its path ("Policies", the table)."""
    return [policy for policy in policies if governs(policy, program.name, program.source_name.replace("\\", "/"))]


def governs(policy: Policy, name: str, path: str = "") -> bool:
    """Return whether a policy applies to a program of this name and path; without a path, whether it does by name."""
    if policy.applies_to is None:
        return True
    ends = ["/".join(path.split("/")[start:]) for start in range(path.count("/") + 1)] if path else []
    return any(fnmatchcase(one, pattern) for pattern in policy.applies_to for one in (name, *ends))


def written_name(name: str) -> str:
    """Return the name of a step or branch as its own program has it, without those of the calls around it."""
    return name.rsplit("/", maxsplit=1)[-1]


def tool(name: str, program: Program, policies: Sequence[Policy]) -> Tool:
    """Return the facts of a tool.

    A missing fact is the worst one ("The program" 1 and 3). If several declare a tool, the worse fact counts; types are
    the program's, or else those of the first policy that has them ("Policies, Choices").
    """
    stated: list[Any] = []
    if program.tools is not None:
        if name not in program.tools:
            return WORST  # a `tools` section lists all tools that exist
        stated.append(program.tools[name])
    known = [policy.tools[name] for policy in policies if policy.tools is not None and name in policy.tools]
    calls = [step for step in all_steps(program.whole_steps) if step.type == "call"]
    known += [step.tools[name] for step in calls if name in step.tools]
    facts = [*stated, *known]
    if not facts:
        return WORST
    # A fact that one leaves open may come from another; a missing fact is the worst one.
    effects = [one.effect for one in facts if "effect" in one.model_fields_set]
    idempotent = [one.idempotent for one in facts if "idempotent" in one.model_fields_set]
    return Tool(
        max(effects, key=_WORSE.__getitem__, default="write"),
        bool(idempotent) and all(idempotent),
        any(one.suspends for one in facts),
        next((one.args for one in facts if one.args is not None), None),
        next((one.returns for one in facts if one.returns is not None), None),
        frozenset(name for one in facts for name in one.errors or ()),
    )


def all_parts(program: Program) -> Iterator[Any]:
    """Yield the steps and sub-steps of a program, those of bodies included."""
    for step in all_steps(program.whole_steps):
        yield step
        yield from parts_of(step)


def all_steps(steps: Sequence[Any]) -> Iterator[Any]:
    """Yield the steps of a list and of the bodies in it."""
    for step in steps:
        yield step
        yield from steps_inside(step)


def steps_inside(step: Any) -> Iterator[Any]:
    """Yield the steps in the body of a step, and in bodies of these."""
    if step.type in WITH_BODY:
        yield from all_steps(step.body)
    for _, branch in sorted(step.branches.items()) if step.type == "parallel" else ():
        yield from all_steps(branch.steps)


def parts_inside(step: Any) -> Iterator[Any]:
    """Yield the steps and sub-steps in the body of a step."""
    for inner in steps_inside(step):
        yield inner
        yield from parts_of(inner)


def parts_in(steps: Sequence[Any]) -> Iterator[Any]:
    """Yield the steps and sub-steps of a list, those of bodies included."""
    for inner in all_steps(steps):
        yield inner
        yield from parts_of(inner)


class AsPart:
    """A branch, as one that has an output and an error."""

    type = "parallel"
    output_key = None

    def __init__(self, id: str) -> None:
        self.id = id


def branch_names(program: Program) -> set[str]:
    """Return the names of all branches of a program."""
    return {name for step in all_steps(program.whole_steps) if step.type == "parallel" for name in step.branches}


def are_beside(frames: Iterable[tuple[Any, ...]], program: Program) -> bool:
    """Return whether one of some frames is of a branch, or of an item that runs beside others."""
    beside = {step.id for step in all_steps(program.steps) if step.type == "for_each" and step.max_concurrency > 1}
    return any(isinstance(one[3], str) or one[0] in beside for one in frames)


def items_named(step: Any) -> list[str]:
    """Return the names that a for_each step gives to an item and its index."""
    if step.type != "for_each":
        return []
    return [vars(step)["as"], *([step.index_as] if step.index_as is not None else [])]


WAITS: Final = ("seconds", "until")
"""The fields that say how long a step waits."""

STEP_TYPES: Final = frozenset(
    ["llm", "tool", "condition", "set", "compute", "parallel", "for_each", "call", "wait", "end"]
)
"""The step types that this interpreter knows. It refuses all others."""


def refuse_unknown(program: Program) -> None:
    """Raise NotImplementedError for a program with a step of an unknown type."""
    for part in all_parts(program):
        if part.type not in STEP_TYPES:
            raise NotImplementedError(f"the reference interpreter does not know `{part.type}` steps")


def parts_of(step: Any) -> list[Any]:
    """Return the sub-steps of a step."""
    return list(step.parallel_steps) if step.type == "parallel" else []


def has_output(part: Any) -> bool:
    """Whether a part has output and error, unlike conditions, `set` and `end` ("Data, Choices")."""
    return part.type in ("llm", "tool", "compute", "parallel", "for_each", "call")


def successor(step: Any, program: Program) -> str | None:
    """Return the successor of a step that is neither a condition nor an `end`, or None at the end of the run.

    "Control flow" 1 to 4.
    """
    if step.next_step is not None:
        return str(step.next_step)
    if step.is_terminal or step.id in _arms(program):
        return None
    lists = [program.whole_steps, *(one.body for one in all_steps(program.whole_steps) if one.type in WITH_BODY)]
    lists += [
        branch.steps
        for one in all_steps(program.whole_steps)
        if one.type == "parallel"
        for branch in one.branches.values()
    ]
    ids = next(ids for steps in lists if step.id in (ids := [one.id for one in steps]))
    following = ids.index(step.id) + 1
    return ids[following] if following < len(ids) else None


def _arms(program: Program) -> set[str | None]:
    """Return the targets of branches, cases, `error_step` and `catch` fields ("Control flow" 3)."""
    named: set[str | None] = set()
    for step in all_steps(program.whole_steps):
        if step.type == "condition":
            named |= {step.then, step.otherwise, *(case.then for case in step.cases or ())}
        elif has_output(step):
            named |= {step.error_step, *(entry.then for entry in step.catch or ())}
    return named


def caught(step: Any, name: str) -> str | None:
    """Return the step to which an error of this name leads, or None ("Errors by name" 3)."""
    for entry in step.catch or ():
        if name in entry.errors or "any" in entry.errors:
            return str(entry.then)
    return None if step.error_step is None else str(step.error_step)


def expressions_of(step: Any, language: int) -> list[syntax.Expression]:
    """Return the parsed expressions of a condition or a `set`, as a program of a language reads them.

    Of a list or an object that a `set` builds, the references in it. Of fields, also the objects that have them.
    """
    if step.type == "condition":
        return [
            parse(text, language)
            for text in ([step.condition] if step.cases is None else [case.when for case in step.cases])
        ]
    put = by_variable(step.set) if step.type == "set" else step.carry if step.type in WITH_BODY else {}
    values = [value for one in put.values() for value in values_in(one)]
    read = [names for name, value in put.items() for names in objects_in((name,), value)]
    read += [name for value in values if is_built(value, language) for name in names_in(value)]
    texts = [parse(value, language) for value in values if isinstance(value, str)]
    return [*texts, *(syntax.Reference(0, 0, name) for name in read)]


def names_read(tree: syntax.Expression) -> set[tuple[str, ...]]:
    """Return the names of all references of an expression, including arguments of `defined`."""
    return {reference.names for reference in syntax.all_references(tree)}


def holder(names: tuple[str, ...], program: Program) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Split a reference into the holder of its value and the fields below ("Data" 1 and 2).

    `.output` and `.error` after a step's id belong to the step; all else is a variable or an input. In language 2
    `.error_name` belongs to the step, too, unless there is a variable of the step's name ("Errors by name" 2).
    """
    owner = next((part for part in all_parts(program) if part.id == names[0]), None) if len(names) > 1 else None
    is_steps = owner is not None and names[1] in ("output", "error")
    if owner is None and len(names) > 1 and names[0] in branch_names(program):
        is_steps = names[1] in ("output", "error", "error_name")
    if owner is not None and names[1] == "errors":
        is_steps = owner.type == "for_each"
    if owner is not None and names[1] == "error_name" and program.language == 2 and has_output(owner):
        steps = list(all_steps(program.whole_steps))
        assigned = {name for step in steps for name in (*assigned_by(step), *((one,) for one in items_named(step)))}
        is_steps = names[:1] not in assigned and names[0] not in (program.inputs or {})
    return (names[:2], names[2:]) if is_steps else (names[:1], names[1:])


def assigned_by(step: Any) -> list[tuple[str, ...]]:
    """Return the holders that a step assigns when it starts ("Guardrails" 2), including those of its sub-steps."""
    if step.type == "set":
        return [(name,) for name in by_variable(step.set)]
    found: list[tuple[str, ...]] = []
    for part in [*parts_of(step), step]:
        if has_output(part):
            found += [(part.id, "output"), (part.id, "error"), (part.id, "error_name")]
            if part.output_key is not None:
                found.append((part.output_key,))
    if step.type == "for_each":
        found.append((step.id, "errors"))
    if step.type in WITH_BODY:
        found += [(name,) for name in step.carry]
    for name in step.branches if step.type == "parallel" else ():
        found += [(name, "output"), (name, "error"), (name, "error_name")]
    return found


def undeclared_inputs(program: Program) -> list[str]:
    """Return the inputs of a program without `inputs`: the names that it reads but does not define ("The program"
    3)."""
    assigned = {name[0] for step in all_steps(program.whole_steps) for name in assigned_by(step) if len(name) == 1}
    assigned |= {name for step in all_steps(program.whole_steps) for name in items_named(step)}
    outputs = {part.id for part in all_parts(program) if has_output(part)}
    found: dict[str, None] = {}
    for part in all_parts(program):
        texts = [getattr(part, field, None) for field in ("prompt", "system", "args", "output", "items", *WAITS)]
        names = [
            *names_in(texts),
            *(name for tree in expressions_of(part, program.language) for name in sorted(names_read(tree))),
        ]
        for name in names:
            if len(holder(name, program)[0]) == 1 and name[0] not in assigned | outputs and "/" not in name[0]:
                found[name[0]] = None
    return list(found)
