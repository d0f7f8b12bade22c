"""The values that a reference can have, by the types of its sources; never fewer than there are.

A proof for every value of a domain holds in every run, because the machine enforces these types. A domain is
independent of the path to a condition: a name that is not an input may be undefined, and one that several steps assign
has the values of all of them. A `pattern` that is not supported is left out, which only adds values.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import reduce
from math import ceil, floor
from typing import Final, NamedTuple

from stepward.validator.analysis.body_outputs import BodyOutputs
from stepward.validator.analysis.given_types import GivenTypes
from stepward.vm.expressions.building import built
from stepward.vm.expressions.fields import ITEMS
from stepward.vm.expressions.inside import Leaf, leaf, leaves
from stepward.vm.expressions.operands import result_kinds
from stepward.vm.expressions.operators import ANY, kind
from stepward.vm.expressions.paths import Paths
from stepward.vm.expressions.syntax import Built, Constant, Expression, Reference
from stepward.vm.language.items import origins
from stepward.vm.language.meaning import Meaning
from stepward.vm.language.name_types import COPIES
from stepward.vm.language.names import Resolution, Source
from stepward.vm.language.steps import ForEachStep
from stepward.vm.language.types import TypeSpec
from stepward.vm.patterns.languages import shortest
from stepward.vm.patterns.matching import matches
from stepward.vm.values import Number

Names = tuple[str, ...]

MAX_COPIES: Final = 8
"""The longest chain of copies that is followed to the source of a value."""


MAX_NESTED: Final = 8
"""The most fields and items below an output of a body whose values are told apart."""


def primed(names: Names) -> Names:
    """Return the name for the new value of a variable while the old value is still read."""
    return (names[0] + "'", *names[1:])


def saved(names: Names, owner: int, when: str) -> Names:
    """Return the name for the value that a variable had when items of a step began: `all` of them, or the last."""
    return (f"{names[0]}~{owner} {when}", *names[1:])


def is_saved(names: Names) -> bool:
    """Return whether a name stands for an earlier value of a variable."""
    return "~" in names[0]


def real(names: Names) -> Names:
    """Return the name in the program for a primed name, and for that of an earlier value."""
    return (names[0].partition("~")[0].removesuffix("'"), *names[1:])


class Range(NamedTuple):
    """Numbers from `low` to `high`; None is no bound. `integral` allows whole numbers only.

    A bound is included unless `above` (for `low`) or `below` (for `high`); those of whole numbers always are.
    """

    low: Number | None = None
    high: Number | None = None
    integral: bool = False
    above: bool = False
    below: bool = False

    def holds(self, number: Number) -> bool:
        """Return whether the number is in the range."""
        if self.integral and number != int(number):
            return False
        is_above = self.low is None or self.low < number or (self.low == number and not self.above)
        return is_above and (self.high is None or number < self.high or (number == self.high and not self.below))


class Form(NamedTuple):
    """Texts that match a pattern, with at most `max_length` code points."""

    pattern: str
    max_length: int | None

    def has(self, text: str) -> bool:
        """Return whether a text has this form."""
        return (self.max_length is None or len(text) <= self.max_length) and matches(self.pattern, text)


@dataclass(frozen=True, slots=True)
class Domain:
    """The values of one reference, by kind.

    `texts` are the only texts, unless `any_text`; then a text has at most `max_length` code points. With `forms`, a
    text has one of these forms, or is one of `texts`. An array has `least` to `most` items.
    """

    undefined: bool = False
    null: bool = False
    booleans: frozenset[bool] = frozenset()
    ranges: tuple[Range, ...] = ()
    texts: tuple[str, ...] = ()
    any_text: bool = False
    max_length: int | None = None
    forms: tuple[Form, ...] = ()
    array: bool = False
    items: Domain | None = None
    least: int = 0
    most: int | None = None
    is_object: bool = False

    def __or__(self, other: Domain) -> Domain:
        any_text = self.any_text or other.any_text
        texts = tuple(dict.fromkeys(self.texts + other.texts))
        forms = tuple(dict.fromkeys(self.forms + other.forms))
        if any(one.any_text and not one.forms for one in (self, other)):
            forms = ()
        if self.array and other.array:
            items = None if self.items is None or other.items is None else self.items | other.items
        else:
            items = self.items if self.array else other.items
        arrays = [one for one in (self, other) if one.array]
        counts = [one.most for one in arrays if one.most is not None]
        return Domain(
            undefined=self.undefined or other.undefined,
            null=self.null or other.null,
            booleans=self.booleans | other.booleans,
            ranges=tuple(dict.fromkeys(self.ranges + other.ranges)),
            texts=() if any_text and not forms else texts,
            any_text=any_text,
            max_length=_longest(self, other, texts) if any_text else None,
            forms=forms,
            array=self.array or other.array,
            items=items,
            least=min((one.least for one in arrays), default=0),
            most=max(counts) if counts and len(counts) == len(arrays) else None,
            is_object=self.is_object or other.is_object,
        )

    def allows(self, value: object) -> bool:
        """Return whether a value belongs to the domain."""
        match kind(value):
            case "null":
                return self.null
            case "boolean":
                return value in self.booleans
            case "number":
                assert isinstance(value, int | Decimal)
                return self.has_number(value)
            case "string":
                assert isinstance(value, str)
                if self.any_text and not self.forms:
                    return self.max_length is None or len(value) <= self.max_length
                return value in self.texts or any(form.has(value) for form in self.forms)
            case "array":
                assert isinstance(value, tuple)
                is_long = self.least <= len(value) and (self.most is None or len(value) <= self.most)
                return self.array and is_long and (self.items is None or all(map(self.items.allows, value)))
        return self.is_object

    def has_number(self, number: Number) -> bool:
        """Return whether a number belongs to the domain."""
        return any(one.holds(number) for one in self.ranges)

    @property
    def examples(self) -> tuple[str, ...]:
        """Some texts of the domain: the known texts, and a few of each form."""
        return (*self.texts, *(text for form in self.forms for text in shortest(*form)))

    @property
    def is_empty(self) -> bool:
        """Whether the domain has no value of any kind."""
        has_text = bool(self.texts) or self.any_text
        return not (self.null or self.booleans or self.ranges or has_text or self.array or self.is_object)

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of the values; `undefined` is not one of them."""
        has = {
            "null": self.null,
            "boolean": bool(self.booleans),
            "number": bool(self.ranges),
            "string": bool(self.texts) or self.any_text,
            "array": self.array,
            "object": self.is_object,
        }
        return frozenset(word for word, present in has.items() if present)


def _longest(left: Domain, right: Domain, texts: tuple[str, ...]) -> int | None:
    free = [one.max_length for one in (left, right) if one.any_text]
    known = [bound for bound in free if bound is not None]
    return None if len(known) < len(free) else max((*known, *map(len, texts)))


NOTHING: Final = Domain()
_BOTH: Final = frozenset({True, False})
_OF_KIND: Final = {
    "null": Domain(null=True),
    "boolean": Domain(booleans=_BOTH),
    "number": Domain(ranges=(Range(),)),
    "string": Domain(any_text=True),
    "array": Domain(array=True),
    "object": Domain(is_object=True),
}


def of_kinds(kinds: Iterable[str]) -> Domain:
    """Return the domain of all values of these kinds."""
    return reduce(Domain.__or__, (_OF_KIND[word] for word in sorted(kinds)), NOTHING)


ANYTHING: Final = of_kinds(ANY)


def of_constant(value: object) -> Domain:
    """Return the domain of one value; for an array or object only its kind."""
    if isinstance(value, bool):
        return Domain(booleans=frozenset({value}))
    if isinstance(value, int | Decimal):
        return Domain(ranges=(Range(value, value),))
    if isinstance(value, str):
        return Domain(texts=(value,))
    return of_kinds([kind(value)])


def _of_members(members: Iterable[object]) -> Domain:
    """Return the domain of some values; texts and numbers, of which there may be many, are joined at once."""
    texts, ranges, others = {}, {}, NOTHING
    for member in members:
        domain = of_constant(member)
        if domain.texts or domain.ranges:
            texts.update(dict.fromkeys(domain.texts))
            ranges.update(dict.fromkeys(domain.ranges))
        else:
            others |= domain
    return replace(others, texts=tuple(texts), ranges=tuple(ranges))


def of_type(spec: TypeSpec, items: Domain | None = None) -> Domain:
    """Return the domain of a declared type."""
    if spec.enum is not None:
        return _of_members(spec.members())
    domains = []
    for word in sorted(spec.kinds):
        if word in ("number", "integer"):
            is_whole = word == "integer"
            if not (is_whole and "number" in spec.kinds):
                domains.append(Domain(ranges=(_range_of(spec, is_whole=is_whole),)))
        elif word == "string":
            pattern = _pattern_of(spec)
            forms = () if pattern is None else (Form(pattern, spec.max_length),)
            domains.append(Domain(any_text=True, max_length=spec.max_length, forms=forms))
        elif word == "array":
            domains.append(Domain(array=True, items=items, least=spec.min_items or 0, most=spec.max_items))
        else:
            domains.append(_OF_KIND[word])
    return reduce(Domain.__or__, domains, NOTHING)


MAX_COUNTED: Final = 200
"""The most characters of a `minLength` that is written as a pattern."""


def _range_of(spec: TypeSpec, *, is_whole: bool) -> Range:
    low, high = spec.lower_bound, spec.upper_bound
    if not is_whole:
        ends = (None if low is None else low.number, None if high is None else high.number)
        return Range(*ends, False, low is not None and low.is_open, high is not None and high.is_open)
    first = None if low is None else floor(low.number) + 1 if low.is_open else low.number
    last = None if high is None else ceil(high.number) - 1 if high.is_open else high.number
    return Range(first, last, True)


def _pattern_of(spec: TypeSpec) -> str | None:
    """Return the pattern of the texts of a type; a `minLength` is one, where there is no other."""
    if spec.pattern is not None or not spec.min_length or spec.min_length > MAX_COUNTED:
        return spec.pattern
    return f"[\\s\\S]{{{spec.min_length}}}"


class Domains:
    """The domains of a program's references, each computed on first use."""

    def __init__(self, meaning: Meaning) -> None:
        self._meaning = meaning
        self._bodies = BodyOutputs(meaning)
        self._types = GivenTypes(meaning)
        self._known: dict[Names, Domain] = {}
        self._copied: dict[tuple[Resolution, int], Domain] = {}
        self._of_types: dict[int, tuple[TypeSpec, Domain]] = {}

    def of(self, names: Names) -> Domain:
        """Return the values of a reference. A required field is undefined only where its owner is."""
        domain = self._known.get(names)
        if domain is None:
            resolution = self._meaning.names.meaning(real(names))
            domain = Domain(undefined=True) if resolution is None else self._of_sources(resolution, 0)
            self._known[names] = domain
        return domain

    def parent(self, names: Names) -> Names | None:
        """Return the owner of a field; None for a variable, an output or an error."""
        resolution = self._meaning.names.meaning(real(names))
        return names[:-1] if resolution is not None and resolution.fields else None

    def root(self, names: Names) -> Names:
        """Return the root of a reference: a variable, output or error."""
        resolution = self._meaning.names.meaning(real(names))
        return names[: len(names) - len(resolution.fields)] if resolution is not None else names

    def given(self, source: Source, fields: tuple[str, ...] = ()) -> Domain:
        """Return the values that one input, output or error, or a field of it, can have.

        A carried variable falls back to its value after an earlier item, so to any of its values.
        """
        if source.kind == "set":
            domain = self.of((source.name, *fields))
            return domain if fields else replace(domain, undefined=False)
        return self._at(source, fields, 0)

    def _meant(self, resolution: Resolution, copies: int) -> Domain:
        key = (resolution, copies)
        if key not in self._copied:
            self._copied[key] = self._of_sources(resolution, copies)
        return self._copied[key]

    def _of_sources(self, resolution: Resolution, copies: int) -> Domain:
        sources, fields = resolution.sources, resolution.fields
        domain = self._at(sources[0], fields, copies)
        for source in sources[1:]:
            domain |= self._at(source, fields, copies)
        # An input is the first source of its name. A call that fails or is skipped makes the name undefined again.
        is_given = sources[0].kind == "input" and all(source.kind == "set" for source in sources[1:])
        return domain if is_given or fields else replace(domain, undefined=True)

    def _at(self, source: Source, fields: tuple[str, ...], copies: int) -> Domain:
        if source.kind == "set":
            return self._assigned(source, fields, copies)
        if source.kind == "item":
            return self._item(source, fields)
        return self._given(source, fields) | self._made(source, fields)

    def _given(self, source: Source, fields: tuple[str, ...]) -> Domain:
        """Return the values of an input, output or error by its declared type, or by the one that its uses give it."""
        typing = self._meaning.typing
        spec = typing.spec((source, fields))
        if spec is not None and not fields:
            return self._of_type(spec, source, fields)
        view = typing.view(Resolution((source,), fields))
        if view.never:
            return Domain(undefined=True)
        if spec is None:
            kinds = view.kinds if view.is_known else ANY
            domain = of_kinds(kinds)
            if "array" in kinds and view.is_known:
                domain = replace(domain, items=self._items(source, fields))
        else:
            domain = self._of_type(spec, source, fields)
        is_optional = bool(fields) and not self._is_required(source, fields, view.may_lack)
        return replace(domain, undefined=True) if is_optional else domain

    def _made(self, source: Source, fields: tuple[str, ...]) -> Domain:
        """Return the values that a body may give, whatever is done with them: no use holds them to a type."""
        kinds_given = self._bodies.kinds_of(source, fields) or []
        domain = NOTHING
        for kinds in kinds_given:
            domain |= ANYTHING if kinds is None else of_kinds(kinds) if kinds else Domain(undefined=True)
        has_items = domain.array and None not in kinds_given and len(fields) < MAX_NESTED
        return replace(domain, items=self._items(source, fields)) if has_items else domain

    def _of_type(self, spec: TypeSpec, source: Source, fields: tuple[str, ...]) -> Domain:
        """Return the domain of a declared type, as one object for all names that have it."""
        known = self._of_types.get(id(spec))
        if known is None:
            if "array" in spec.kinds:
                return of_type(spec, self._items(source, fields))
            # The type is stored with its domain, because its id is unique only during its lifetime.
            known = self._of_types[id(spec)] = spec, of_type(spec)
        return known[1]

    def _items(self, source: Source, fields: tuple[str, ...]) -> Domain | None:
        item_path = (*fields, ITEMS)
        spec = self._meaning.typing.spec((source, item_path))
        if spec is not None:
            return of_type(spec)
        view = self._meaning.typing.view(Resolution((source,), item_path))
        known = of_kinds(view.kinds) if view.is_known and not view.never else None
        return None if known is None else known | self._made(source, item_path)

    def _is_required(self, source: Source, fields: tuple[str, ...], optional: bool) -> bool:
        """Return whether the owning object always has the field."""
        owner = self._meaning.typing.spec((source, fields[:-1]))
        return not optional if owner is None else fields[-1] in owner.required

    def _assigned(self, source: Source, fields: tuple[str, ...], copies: int) -> Domain:
        """Return the domain of a `set` name: one constant, the domain of a copied reference, or all values of a
        kind."""
        assert source.step is not None
        step = self._meaning.flow.steps[source.step]
        value, tree = step.assigns[source.name], self._tree(source)
        if isinstance(tree, Built) and fields:
            return self._part(leaf(tree, fields), copies)
        if not isinstance(value, str | Paths) and tree is None:
            return of_constant(value) if not fields else ANYTHING | Domain(undefined=True)
        if isinstance(tree, Constant) and not fields:
            return of_constant(tree.value)
        if isinstance(tree, Reference) and copies < MAX_COPIES:
            resolution = self._meaning.names.meaning((*tree.names, *fields))
            if resolution is not None:
                domain = self._meant(resolution, copies + 1)
                return domain if fields else replace(domain, undefined=False)  # a copied value was defined
        if tree is None or isinstance(tree, Reference) or fields:
            return ANYTHING | Domain(undefined=bool(fields))
        return of_kinds(result_kinds(tree))

    def _part(self, part: Leaf, copies: int) -> Domain:
        """Return the values of a part of a built value."""
        if part.fields and part.tree is not None:
            return ANYTHING | Domain(undefined=True)
        match part.tree:
            case None:
                return Domain(undefined=True)
            case Constant(value=value):
                return of_constant(value)
            case Reference(names=names):
                resolution = self._meaning.names.meaning(names)
                if resolution is None or copies >= MAX_COPIES:
                    return ANYTHING | Domain(undefined=True)
                domain = self._meant(resolution, copies + 1)
                return domain if part.is_field else replace(domain, undefined=False)
            case tree:
                return of_kinds(result_kinds(tree))

    def _item(self, source: Source, fields: tuple[str, ...]) -> Domain:
        """Return the values of an item, or of a field of it: from a written list, or from the type of its list, else
        any value."""
        domain = NOTHING
        for tree in self._written(source):
            domain |= self._part(leaf(tree, fields), 0)
        if not domain.is_empty or domain.undefined:
            return domain
        domain = self._listed(Resolution((source,), fields), 0)
        return domain if fields else replace(domain, undefined=False)

    def _listed(self, resolution: Resolution, copies: int) -> Domain:
        """Return the values at some fields below the items of a list, wherever the program has copied the list from."""
        domain = NOTHING
        for origin, path in origins(self._meaning.typing, resolution):
            is_made = origin.kind in COPIES
            is_stated = not is_made and self._meaning.typing.spec((origin, path)) is not None
            trees = [] if is_stated else list(self._types.trees(origin, path))
            if copies >= MAX_COPIES or (is_made and not trees):
                return ANYTHING | Domain(undefined=True)
            for part_leaf in (part for tree, fields in trees for part in leaves(tree, fields)):
                names = part_leaf.tree.names if isinstance(part_leaf.tree, Reference) and not part_leaf.fields else None
                inner = None if names is None else self._meaning.names.meaning(names)
                domain |= self._part(part_leaf, MAX_COPIES) if inner is None else self._listed(inner, copies + 1)
            domain |= NOTHING if trees else self._at(origin, path, 0)
        return domain

    def _written(self, source: Source) -> list[Expression]:
        """Return the items of a list that is written down in its for_each step; none of any other list."""
        assert source.step is not None
        layout = self._meaning.flow.layout
        step = layout.steps[layout.body_of(source.step).owner]
        return (
            [built(one) for one in step.items]
            if isinstance(step, ForEachStep) and isinstance(step.items, tuple)
            else []
        )

    def _tree(self, source: Source) -> Expression | None:
        assert source.step is not None
        clauses = self._meaning.clauses_of.get(source.step, ())
        return next((clause.tree for clause in clauses if clause.path == source.path), None)
