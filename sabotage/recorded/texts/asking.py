"""What single texts and values come to: expressions, templates, types and patterns."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, Final

from pydantic import ValidationError

from stepward.sabotage.drawn.values import POOL, beside, fitting
from stepward.sabotage.recorded.language.meanings import guarded, outcome, show_tree, tell, told_spec
from stepward.sabotage.recorded.notes import Notes
from stepward.vm.errors import ExpressionError, UndefinedReferenceError
from stepward.vm.expressions import building, fields, inner_names, letters, operands, paths, template
from stepward.vm.expressions.evaluator import evaluate_condition
from stepward.vm.expressions.hints import equivalent, rewritten
from stepward.vm.expressions.operators import ANY
from stepward.vm.expressions.parser import parse, parses
from stepward.vm.expressions.syntax import all_references
from stepward.vm.language.editions import needs_language_2
from stepward.vm.language.instants import instant
from stepward.vm.language.types import TypeSpec, fits, implies, key_of, patterns_of, refusal, same
from stepward.vm.machine.data import completed
from stepward.vm.patterns import acceptance, languages
from stepward.vm.patterns import syntax as patterns
from stepward.vm.patterns.matching import matches
from stepward.vm.values import freeze

TEXTS: Final = ("", "a", "aa", "ab", "b", "abc", "ABC", "a1", "é", "a b", "12-34", "a\n", "\n", "x@y.zz", "2027-06-30")
VALUES: Final = (*POOL, "ab", "aba", ["a", "b"], [1, 2], 10, -3, 2.5, {"total": 7, "note": "n"}, [[1], [2]], "é İ ")


def show_expression(notes: Notes, text: str, language: int, chance: Random) -> None:
    """Note what an expression is, and its values where names have random ones."""
    notes.add("expression", text, language, parses(text))
    try:
        tree = parse(text, language)
    except ExpressionError as error:
        notes.add_error(error)
        notes.add(error.start, error.end, error.help, error.rewrite, equivalent(text, parses), rewritten(text, parses))
        return
    tell(notes, needs_language_2, text)
    show_tree(notes, tree, chance)
    kinds = chance.choice((frozenset({"string"}), frozenset({"number"}), ANY))
    notes.add(operands.resolved(tree, lambda _: kinds), operands.is_condition(tree), operands.result_kinds(tree))
    notes.add([(shown, needed, word) for shown, needed, word in operands.needs(tree)])
    for number in range(3):
        values = {one.names: freeze(chance.choice(VALUES)) for one in all_references(tree)}
        notes.add(values, outcome(tree, values, lacks_one=not number and chance.random() < 0.5))
    tell(notes, evaluate_condition, tree, lambda names: values[names])


def show_template(notes: Notes, value: Any, chance: Random) -> None:
    """Note the references of a value with templates, and what it is filled to."""
    notes.add("template", value, list(template.embedded(value)), list(template.texts(value)))
    notes.add(template.lone_reference(value), building.is_computed(freeze(value), 2), building.is_computed(value, 1))
    if isinstance(value, str):
        notes.add(list(template.positions(value)), template.parts(value))
    known = {one.reference.names: freeze(chance.choice(VALUES)) for one in template.embedded(value)}

    def lookup(names: tuple[str, ...]) -> Any:
        if chance.random() < 0.1:
            raise UndefinedReferenceError(".".join(names))
        return known[names]

    guarded(notes, lambda: notes.add(known, template.fill(value, lookup)))
    guarded(notes, lambda: notes.add(building.expression(freeze(value), 2), list(building.pieces(freeze(value)))))
    if isinstance(value, dict) and all(map(paths.is_path, value)):
        notes.add(paths.clash(value), [paths.names_of_key(key) for key in value])
        by_variable = paths.by_variable(freeze(value))
        for found in by_variable.values():
            if isinstance(found, paths.Paths):
                tell(notes, building.into_fields, found, 2)


def show_words(notes: Notes, text: str) -> None:
    """Note how a text is read as a name, a reference, an instant, and in other cases."""
    notes.add(letters.lower(text), letters.upper(text), letters.trim(text), instant(text), paths.is_path(text))
    word = inner_names.as_word(text)
    notes.add(word, inner_names.of_word(word), inner_names.legible(f"`{word}`"), inner_names.names_of(text))
    tell(notes, fields.names_in, text)
    notes.add(fields.index_of(text), fields.is_indexed((text, "[]")), fields.of_type(("a", text)))
    notes.add(fields.written(("a", text, "[2]")), [fields.part(value, text, "absent") for value in VALUES])


# -- types -------------------------------------------------------------------------------------------------------------


def show_type(notes: Notes, data: Any, values: Sequence[Any], chance: Random) -> TypeSpec | None:
    """Note what a type is, and which values are of it."""
    try:
        spec = TypeSpec.model_validate(data)
    except ValidationError as error:
        found = [(one["type"], one["loc"], one.get("ctx", {})) for one in error.errors(include_url=False)]
        own = [(kind, loc, context) for kind, loc, context in found if "help" in context]
        notes.add("no type", data, own, [(kind, loc) for kind, loc, _ in found])
        return None
    notes.add("type", data, spec.to_data(), spec.kinds, spec.lower_bound, spec.upper_bound, spec.has_default)
    notes.add(spec.members(), spec.member_kinds, list(patterns_of(spec)), [spec.admits(word) for word in spec.kinds])
    drawn = [fitting(spec, chance), *(beside(spec, chance) for _ in range(4)), *chance.sample(VALUES, 3)]
    for value in map(freeze, (*values, *drawn)):
        notes.add(value, refusal(value, spec), refusal(value, spec, "x"), fits(value, spec), spec.lists(value))
    some = {"a": spec, "b": TypeSpec(), "c": None}
    for inputs in ({"a": freeze(drawn[0]), "b": 1, "c": None}, {"b": 1, "c": 2}, {"a": freeze(drawn[1]), "d": 3}):
        tell(notes, completed, inputs, some)
    return spec


def show_pair(notes: Notes, narrow: Any, wide: Any) -> None:
    """Note whether one type implies another."""

    def ask() -> None:
        one, other = TypeSpec.model_validate(narrow), TypeSpec.model_validate(wide)
        notes.add(told_spec(one), told_spec(other), implies(one, other), implies(other, one), implies(one, one))

    guarded(notes, ask)


def show_equality(notes: Notes, chance: Random) -> None:
    """Note which of two values are the same."""
    for _ in range(6):
        left, right = freeze(chance.choice(VALUES)), freeze(chance.choice(VALUES))
        notes.add(left, right, same(left, right), key_of(left) == key_of(right), same(left, left))


# -- patterns ----------------------------------------------------------------------------------------------------------


def show_pattern(notes: Notes, pattern: str, texts: tuple[str, ...] = ()) -> None:
    """Note what a pattern is, the shortest texts in which it is found, and whether it is in some texts."""
    notes.add("pattern", pattern)
    try:
        acceptance.require_accepted(pattern)
        tree = patterns.parse(pattern)
    except patterns.PatternError as error:
        notes.add(f"the pattern can be used: {error.message}", error.help)
        return
    notes.add(
        tree, acceptance.written_out(tree), [acceptance.has_no_text(pattern, longest) for longest in (None, 0, 2)]
    )
    if acceptance.written_out(tree) <= 200:
        notes.add([languages.shortest(pattern, longest, 3) for longest in (None, 2)], languages.lengths_of(pattern))
        notes.add(languages.is_empty(pattern, None), languages.is_empty(pattern, 1))
    notes.add([matches(pattern, text) for text in (*TEXTS, *texts)])


def show_patterns(notes: Notes, one: str | None, longest: int | None, other: str | None, most: int | None) -> None:
    """Note whether all texts of one pattern are those of another."""

    def ask() -> None:
        notes.add(one, longest, other, most, languages.is_within(one, longest, other, most))

    guarded(notes, ask)
