"""The features of the language, by its own models, and which of them a program has. Helpers only; no tests stand here.

A feature is a field of a model that is given another value than its default, each further value of a field that names
its values (`on_error=retry`), a word of a type, or what an expression is made of. `MIXED` are those of several parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

from stepward.vm import Meaning, Policy, Program
from stepward.vm.errors import ExpressionError
from stepward.vm.expressions import syntax
from stepward.vm.expressions.fields import is_indexed
from stepward.vm.expressions.operators import FUNCTION_WORDS, OPERATORS, POWERS
from stepward.vm.expressions.parser import parse
from stepward.vm.language.node import Node
from stepward.vm.language.record import Record
from stepward.vm.language.steps import BranchStep, Call
from stepward.vm.language.types import TypeSpec, TypeWord

ABSTRACT: Final = {"Rule", "BaseStep", "Failing", "Call", "Routed", "FailingStep", "CallStep", "Stage", "BranchStep"}
"""Models that others are made from."""

JOINS: Final = {frozenset({"string"}): "+ of texts", frozenset({"array"}): "+ of arrays"}
"""What `+` joins in language 2, where an operand says it."""


# -- all of them -------------------------------------------------------------------------------------------------------


def every_feature() -> list[str]:
    """Return the names of all features, sorted."""
    found = set(MIXED)
    for model in _models():
        for field, annotation in _fields(model).items():
            values = [value for value in _values(annotation) if value != _default(model, field)]
            found |= {f"{model.__name__}.{field}={value}" for value in values} or {f"{model.__name__}.{field}"}
    found |= {f"type {word}" for word in get_args(TypeWord)} | {"type of several words"}
    found |= {f"operator {sign}" for sign in (*OPERATORS, *POWERS, *FUNCTION_WORDS, "not", "minus", *JOINS.values())}
    found |= {f"constant {kind}" for kind in ("number", "fraction", "text", "boolean", "null", "list", "empty list")}
    found |= {f"built {kind}" for kind in ("list", "object", "text", "from another object")}
    return sorted(found | {f"reference {kind}" for kind in ("variable", "field", "item", "output", "error", "args")})


def _models() -> Iterator[type[Any]]:
    pending: list[type[Any]] = [Node, Record]
    seen: set[type[Any]] = set()
    while pending:
        model = pending.pop()
        if model in seen:
            continue
        seen.add(model)
        pending += model.__subclasses__()
        if model.__module__.startswith("stepward.vm.language.") and model.__name__ not in ABSTRACT | {"Node", "Record"}:
            yield model


@cache
def _fields(model: type[Any]) -> dict[str, Any]:
    if issubclass(model, Record):
        fields = model.fields()
    else:
        hints = get_type_hints(model, include_extras=True)
        fields = {name: hints[name] for name in model.model_fields}
    return {name: hint for name, hint in fields.items() if name != "type" or model is TypeSpec}


def _default(model: type[Any], field: str) -> Any:
    return getattr(model, field, None) if issubclass(model, Record) else model.model_fields[field].default


def _values(annotation: Any) -> Iterator[Any]:
    """Yield the values that an annotation names."""
    if get_origin(annotation) is Literal:
        yield from (value for value in get_args(annotation) if isinstance(value, str) and len(get_args(annotation)) > 1)
    elif annotation is not TypeSpec:
        for inner in get_args(annotation)[:1] if hasattr(annotation, "__metadata__") else _members(annotation):
            yield from _values(inner)


def _members(annotation: Any) -> tuple[Any, ...]:
    """Return the kinds of a union; what a list or a mapping holds is another part's."""
    return () if get_origin(annotation) in (tuple, dict, list) else get_args(annotation)


# -- those of a program ------------------------------------------------------------------------------------------------


def features_of(data: dict[str, Any], policies: Iterable[dict[str, Any]] = ()) -> set[str]:
    """Return the features of a program and its policies."""
    program, rules = Program.from_dict(data), [Policy.from_dict(policy) for policy in policies]
    found = set().union(*(_parts_of(one) for one in (program, *rules)))
    meaning = Meaning(program, rules)
    texts = [clause.text for clause in meaning.clauses]
    texts += [rule.when for rule, _ in meaning.rules if getattr(rule, "when", None) is not None]
    texts += [entry.when for rule in rules for entry in rule.allow or () if entry.when is not None]
    for clause in meaning.clauses:
        for node in syntax.walk(clause.tree) if clause.pieces and clause.tree is not None else ():
            found |= set(_of_node(node))
    return found | expression_features(texts) | {name for name, has in MIXED.items() if has(meaning)}


def type_features(specs: Iterable[dict[str, Any]]) -> set[str]:
    """Return the features of types that stand in no program."""
    return set().union(*(_parts_of(TypeSpec.model_validate(spec)) for spec in specs))


def _parts_of(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set().union(*map(_parts_of, value.values())) if value else set()
    if isinstance(value, list | tuple):
        return set().union(*map(_parts_of, value)) if value else set()
    if not isinstance(value, Node | Record):
        return set()
    model = type(value)
    given = (
        vars(value) if isinstance(value, Record) else {name: getattr(value, name) for name in value.model_fields_set}
    )
    found = set()
    for field, held in given.items():
        annotation = _fields(model).get(field)
        if annotation is None or held == _default(model, field):
            continue
        names_values = isinstance(held, str) and held in _values(annotation)
        found.add(f"{model.__name__}.{field}={held}" if names_values else f"{model.__name__}.{field}")
        found |= _parts_of(held)
    if isinstance(value, TypeSpec) and value.type is not None:
        found |= {f"type {word}" for word in value.type} | ({"type of several words"} if len(value.type) > 1 else set())
    return found


def expression_features(texts: Iterable[str]) -> set[str]:
    """Return what expressions are made of."""
    found: set[str] = set()
    for text in texts:
        try:
            tree = parse(text, 2)
        except ExpressionError:
            continue
        for node in syntax.walk(tree):
            found |= set(_of_node(node))
    return found


def _of_node(node: syntax.Expression) -> Iterator[str]:
    match node:
        case syntax.Compare(operator=sign) | syntax.Logic(operator=sign):
            yield f"operator {sign}"
        case syntax.Arithmetic(joins=joins) if joins in JOINS:
            yield f"operator {JOINS[joins]}"
        case syntax.Arithmetic(rest=rest):
            yield from (f"operator {sign}" for sign, _ in rest)
        case syntax.Negation() | syntax.Minus():
            yield f"operator {'not' if isinstance(node, syntax.Negation) else 'minus'}"
        case syntax.FunctionCall(function=sign):
            yield f"operator {sign}"
        case syntax.Defined(reference=reference):
            yield "operator defined"
            yield from _of_node(reference)
        case syntax.Constant(value=value):
            yield f"constant {_kind(value)}"
        case syntax.Built(is_list=is_list, base=base):
            yield f"built {'list' if is_list else 'object' if base is None else 'from another object'}"
        case syntax.Template():
            yield "built text"
        case syntax.Reference(names=names):
            kinds = {"output": "output", "error": "error"}
            kind = "args" if names[0] == "args" else kinds.get(names[1], "field") if len(names) > 1 else "variable"
            yield f"reference {kind}"
            if is_indexed(names):
                yield "reference item"


def _kind(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return "null" if value is None else "boolean"
    if isinstance(value, dict):
        return "object"
    if isinstance(value, tuple):
        return "list" if value else "empty list"
    return "text" if isinstance(value, str) else "number" if value == int(value) else "fraction"


# -- those of several parts --------------------------------------------------------------------------------------------


def _types_of_one_name(meaning: Meaning) -> Iterator[list[TypeSpec]]:
    """Yield, for each variable, the declared types of the steps that bind it."""
    found: dict[str, list[TypeSpec]] = {}
    for site in meaning.calls:
        key = getattr(site.call, "output_key", None)
        spec = meaning.tool(site.call.tool).returns if site.call.type == "tool" else site.call.returns
        if key is not None and spec is not None:
            found.setdefault(key, []).append(spec)
    yield from found.values()


def _has_two_sources(meaning: Meaning) -> bool:
    return any(one != specs[0] for specs in _types_of_one_name(meaning) for one in specs)


def _is_constant(node: syntax.Expression) -> bool:
    inner = list(syntax.walk(node))
    return not any(isinstance(one, syntax.Reference | syntax.Defined) for one in inner) and len(inner) > 1


def _trees(meaning: Meaning) -> Iterator[syntax.Expression]:
    yield from (clause.tree for clause in meaning.clauses if clause.tree is not None and clause.is_condition)


def _has_constant_condition(meaning: Meaning) -> bool:
    return any(_is_constant(tree) for tree in _trees(meaning))


def _has_field_behind_constant(meaning: Meaning) -> bool:
    """Whether a constant stands before the reading of a field, in one chain of `and` or `or`."""
    chains = (node for tree in _trees(meaning) for node in syntax.walk(tree) if isinstance(node, syntax.Logic))
    return any(
        _is_constant(chain.operands[0]) and any(len(one.names) > 1 for one in syntax.references(operand))
        for chain in chains
        for operand in chain.operands[1:]
    )


def _specs(meaning: Meaning) -> Iterator[TypeSpec]:
    yield from (meaning.program.inputs or {}).values()
    yield from (spec.returns for spec in meaning.manifest.values() if spec.returns is not None)


def _has_nullable_text(meaning: Meaning) -> bool:
    return any(spec.type is not None and {"string", "null"} <= set(spec.type) for spec in _specs(meaning))


def _has_set_and_call(meaning: Meaning) -> bool:
    """Whether one variable is given by a `set` and by a call."""
    keys = {getattr(site.call, "output_key", None) for site in meaning.calls} - {None}
    return any(step.type == "set" and keys & set(step.set) for step in meaning.program.steps)


def _sets(kind: type[Any]) -> Callable[[Meaning], bool]:
    return lambda meaning: any(
        step.type == "set" and any(isinstance(value, kind) for value in step.set.values())
        for step in meaning.program.steps
    )


def _knows_of_waiting(meaning: Meaning) -> bool:
    """Whether a policy says of a tool that it suspends, and the program does not."""
    claimed = meaning.program.tools or {}
    return any(
        spec.suspends and not (name in claimed and claimed[name].suspends)
        for policy in meaning.policies
        for name, spec in (policy.tools or {}).items()
    )


def _tries_again_beside(meaning: Meaning) -> bool:
    """Whether a call of a branch, or of one of several items at once, may be tried again."""
    layout = meaning.program.layout
    for owner in layout.bodies:
        step = layout.steps[owner]
        is_beside = isinstance(step, BranchStep) or getattr(step, "max_concurrency", None) not in (None, 1)
        inside = [layout.steps[number] for number in layout.inside(owner)] if is_beside else []
        if any(isinstance(one, Call) and (one.on_error == "retry" or one.retry) for one in inside):
            return True
    return False


def _has_many_digits(meaning: Meaning) -> bool:
    """Whether an operation has a number beside which a result may have too many digits."""
    operations = (node for tree in _trees(meaning) for node in syntax.walk(tree) if isinstance(node, syntax.Arithmetic))
    constants = (one.value for node in operations for one in syntax.walk(node) if isinstance(one, syntax.Constant))
    return any(isinstance(value, int) and abs(value) > 10**500 for value in constants)


MIXED: Final[dict[str, Callable[[Meaning], bool]]] = {
    "mixed: two calls of different types give one variable": _has_two_sources,
    "mixed: `set` and a call give one variable": _has_set_and_call,
    "mixed: a condition over constants": _has_constant_condition,
    "mixed: a field is read behind a constant": _has_field_behind_constant,
    "mixed: a text that may be null": _has_nullable_text,
    "mixed: `set` gives a list": _sets(tuple),
    "mixed: `set` gives an object": _sets(dict),
    "mixed: `set` gives null": _sets(type(None)),
    "mixed: a policy knows that a tool suspends": _knows_of_waiting,
    "mixed: a call beside others is tried again": _tries_again_beside,
    "mixed: a result of too many digits": _has_many_digits,
    "mixed: facts come from a policy alone": lambda meaning: meaning.program.tools is None and bool(meaning.manifest),
}
