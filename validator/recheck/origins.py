"""The possible values of references by the types of their sources, and which are always defined.

The machine enforces types on values from outside, so these results hold in every run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, Final, NamedTuple

from stepward.validator.recheck.blocks import (
    ANYTHING,
    UNDEFINED,
    Block,
    allows,
    meet,
    of_type,
    of_value,
)
from stepward.validator.recheck.built import FieldValue, field_at
from stepward.validator.recheck.digits import NONE, AssignedDigits, Digits, may_be_too_long, of_blocks
from stepward.validator.recheck.evaluation import result_blocks
from stepward.validator.recheck.inference import Boundary
from stepward.validator.recheck.items import may_have, surely_has
from stepward.validator.recheck.joined import end_trees, parts_of, written_items
from stepward.validator.recheck.list_items import Location, behind_item, list_of
from stepward.validator.recheck.names import ABSENT, ITEMS, Names, Source, inside
from stepward.validator.recheck.parsed import Parsed
from stepward.validator.recheck.sums import AssignedKinds
from stepward.validator.recheck.types import NOTHING, words
from stepward.validator.recheck.types import allows as allows_word
from stepward.vm.expressions.fields import index_of
from stepward.vm.expressions.syntax import Arithmetic, Built, Constant, Expression, Minus, Reference, walk
from stepward.vm.language.steps import BranchStep
from stepward.vm.language.types import TypeSpec

MAX_COPIES: Final = 200
"""The most references that are followed back to the sources of one reference: a field that copies a field of itself
has no end."""

MAX_BELOW: Final = 8
"""The most names of a reference whose digits are followed, for the same reason."""


class Origin(NamedTuple):
    """The possible values of a reference while its variable is defined: blocks, and whether a field in its path may be
    absent."""

    blocks: tuple[Block, ...]
    may_be_absent: bool = False


_NOWHERE: Final = Origin((), True)
_ANYWHERE: Final = Origin(ANYTHING, True)


class Copy(NamedTuple):
    """A reference whose value a source copies; `is_field`: what is absent there is absent from the copy, too.

    `may_lack`: the copy may be absent where the reference has no value at all.
    """

    names: Names
    is_field: bool = True
    may_lack: bool = False


class SourceFields(NamedTuple):
    """The sources behind some sources, after all copies, each with the fields below it.

    The value says whether a field that may be absent there may be absent from the reference, too. `may_be_absent`: the
    reference may be absent because nothing gives one of the copied references a value.
    """

    sources: dict[tuple[Source, Names], bool]
    may_be_absent: bool


def field_type(spec: TypeSpec | None, fields: Names) -> tuple[TypeSpec | None, bool]:
    """Return the type of a field of an object or of an item of an array, and whether it may be absent; `[]` is any
    item that is there."""
    may_be_absent = False
    for name in fields:
        number = index_of(name)
        if name == ITEMS:
            spec = None if spec is None else spec.items if allows_word(spec, "array") else NOTHING
            continue
        if number is None:
            may_be_absent |= spec is None or words(spec) != {"object"} or name not in spec.required
        else:
            may_be_absent |= spec is None or words(spec) != {"array"} or (spec.min_items or 0) <= number
        spec = None if spec is None else _field(spec, name) if number is None else _item(spec, number)
    return spec, may_be_absent


def _item(spec: TypeSpec, number: int) -> TypeSpec | None:
    """Return the type of one item of the values of a type: NOTHING where none has it, None for any value."""
    is_longer = spec.max_items is None or spec.max_items > number
    return spec.items if is_longer and allows_word(spec, "array") else NOTHING


def _field(spec: TypeSpec, name: str) -> TypeSpec | None:
    """Return the type of one field of the values of a type: NOTHING where none has it, None for any value."""
    if name in (spec.properties or {}):
        return (spec.properties or {})[name]
    if spec.additional_properties is False or not allows_word(spec, "object"):
        return NOTHING
    return spec.additional_properties if isinstance(spec.additional_properties, TypeSpec) else None


class Origins:
    """The origins of the references of one program."""

    def __init__(self, reading: Parsed, boundary: Boundary) -> None:
        self.reading = reading
        self.boundary = boundary
        self.lookup = reading.lookup
        self._known: dict[Names, Origin] = {}
        self._by_sources: dict[tuple[Names, tuple[Source, ...]], Origin] = {}
        self._known_givers: dict[Names, SourceFields | None] = {}
        self._too_long: dict[Expression, bool] = {}

    def of(self, names: Names) -> Origin:
        """Return the origin of a reference."""
        if names not in self._known:
            self._known[names] = _NOWHERE if self.lookup.resolve(names) is None else self._joined(self._givers(names))
        return self._known[names]

    def by_sources(self, names: Names, sources: tuple[Source, ...]) -> Origin:
        """Return the origin of a reference whose variable got its current value from one of some sources.

        Where one of them copies the variable itself, the value may have come from any source before.
        """
        resolution = self.lookup.resolve(names)
        if resolution is None or len(resolution.root) > 1:
            return self.of(names)  # an output or an error has one source, even if a variable has the name of its step
        key = (names, sources)
        if key not in self._by_sources:
            self._by_sources[key] = self._joined(
                self._traced([(source, resolution.fields, True) for source in sources])
            )
        return self._by_sources[key]

    def root(self, names: Names) -> Names:
        """Return the root of a reference: the variable, output or error that holds its value."""
        resolution = self.lookup.resolve(names)
        return names if resolution is None else resolution.root

    def fits(self, name: Names, owners: Sequence[Block], blocks: Sequence[Block]) -> bool:
        """Return whether a field may be in these blocks while its owner is in the blocks `owners`."""
        if not any(may_have(owner, name[-1]) for owner in owners):
            return UNDEFINED in blocks
        if index_of(name[-1]) is not None:
            return blocks != (UNDEFINED,) or not all(surely_has(owner, name[-1]) for owner in owners)
        is_object = all(owner.kind == "object" for owner in owners)
        return not (is_object and blocks == (UNDEFINED,)) or self.may_be_absent_from_object(name)

    def may_be_absent_from_object(self, names: Names) -> bool:
        """Return whether a field may be absent from its owner although the owner is an object."""
        resolution = self.lookup.resolve(names)
        if resolution is None or not resolution.fields or any(map(self.is_made, resolution.sources)):
            return self.of(names).may_be_absent
        owners = [field_type(self.spec(source), resolution.fields[:-1])[0] for source in resolution.sources]
        return any(owner is None or resolution.fields[-1] not in owner.required for owner in owners)

    def is_input(self, root: Names) -> bool:
        """Return whether a variable is an input, so that it has a value at the start."""
        resolution = self.lookup.resolve(root)
        return resolution is not None and any(source.kind == "input" for source in resolution.sources)

    def is_always_there(self, root: Names) -> bool:
        """Return whether a variable always has a value: it is an input, and no call that may fail undefines it."""
        resolution = self.lookup.resolve(root)
        sources = resolution.sources if resolution is not None else ()
        return self.is_input(root) and all(source.kind in ("input", "set") for source in sources)

    def spec(self, source: Source, inner: frozenset[Source] = frozenset()) -> TypeSpec | None:
        """Return the type that the machine enforces on the values of a source; `inner` are items that it is behind."""
        if source.kind != "item":
            return self.boundary.spec(source)
        return None if source in inner else self._item_spec(source, inner | {source})

    def _item_spec(self, source: Source, inner: frozenset[Source]) -> TypeSpec | None:
        """Return the type of an item: that of the items of its list, if one value from outside has the list in it."""
        names = list_of(self.reading, source)
        resolution = None if names is None else self.lookup.resolve(names)
        if resolution is None or len(resolution.sources) != 1 or self.is_made(resolution.sources[0]):
            return None
        listed, _ = field_type(self.spec(resolution.sources[0], inner), resolution.fields)
        return None if listed is None else listed.items

    def is_copied_item(self, source: Source) -> bool:
        """Return whether a source is an item of a list that no single value from outside has in it."""
        return source.kind == "item" and not self.trees(source) and self.spec(source) is None

    def described_item(self, source: Source, fields: Names) -> tuple[Callable[[Block], bool], bool]:
        """Return what tells which blocks an item, or a field of one, may have, and whether it may be absent."""
        return partial(self._gives, (source, fields)), self._of_item(source, fields).may_be_absent

    def _of_item(self, source: Source, fields: Names) -> Origin:
        """Return what all sources behind an item, or a field of one, give together."""
        origins = [self._of_part(one) for one in behind_item(self, source, fields)]
        return Origin(_together(origins), any(one.may_be_absent for one in origins))

    def _of_part(self, part: Location | FieldValue) -> Origin:
        if isinstance(part, Location):
            spec, may_be_absent = field_type(self.spec(part.source), part.fields)
            return Origin(of_type(spec), may_be_absent)
        if part.tree is None:
            return _ANYWHERE if part.is_any else _NOWHERE
        return self._of_tree(part.tree, ())

    def tree(self, source: Source) -> Expression | None:
        """Return what a `set` assigns to a name; None where it can't be parsed."""
        return self.reading.put_by_set(source.step).get(source.name)

    def _joined(self, givers: SourceFields | None) -> Origin:
        """Return what the sources behind a reference give together."""
        if givers is None:
            return _ANYWHERE
        origins = [(self._at(source, fields), counts) for (source, fields), counts in givers.sources.items()]
        blocks = _together(one for one, _ in origins)
        return Origin(blocks, givers.may_be_absent or any(counts and one.may_be_absent for one, counts in origins))

    def _at(self, source: Source, fields: Names) -> Origin:
        """Return what a source that copies nothing gives at some fields."""
        if self.is_copied_item(source):
            return self._of_item(source, fields)
        if not self.is_made(source) or self.is_joined(source):
            return self._of_part(Location(source, fields))
        trees = self.trees(source)
        origins = [self._of_tree(tree, fields) for tree in trees if _copied_by(tree, fields) is None]
        return Origin(_together(origins), any(one.may_be_absent for one in origins)) if trees else _ANYWHERE

    def _of_tree(self, tree: Expression, fields: Names) -> Origin:
        """Return what an expression that copies nothing gives at some fields."""
        if isinstance(tree, Constant):
            return _written(tree.value, fields)
        if isinstance(tree, Built) and fields:
            return _in_built(tree, fields)
        if isinstance(tree, Arithmetic) and tree.joins and not fields:
            tree = replace(tree, joins=self._assigned_kinds.of_sum(tree))
        if fields and index_of(fields[0]) is not None:
            return _ANYWHERE
        return _NOWHERE if fields else Origin(result_blocks(tree))

    @cached_property
    def _assigned_kinds(self) -> AssignedKinds:
        return AssignedKinds(self.reading, lambda source, fields: _kinds(field_type(self.spec(source), fields)[0]))

    def may_give(self, names: Names, block: Block) -> bool:
        """Return whether some source of a reference may give a value of a block.

        `of` joins the sources by kind: it loses what the pattern of one source excludes.
        """
        givers = self._givers(names)
        if block.kind == "undefined" or givers is None or not givers.sources:
            return True
        return any(self._gives(one, block) for one in givers.sources)

    def behind(self, names: Names) -> Iterator[TypeSpec | Constant | Block | None]:
        """Yield what gives a reference its values, behind all copies: types that are stated, constants of the program,
        blocks of what it computes; None for any value.
        """
        givers = self._givers(names)
        if givers is None or not givers.sources:
            yield None
            return
        for source, fields in givers.sources:
            if self.is_copied_item(source):
                yield from self._of_item(source, fields).blocks
                continue
            if not self.is_made(source) or self.is_joined(source):
                yield field_type(self.spec(source), fields)[0]
                continue
            trees = self.trees(source)
            if not trees:
                yield None
            for tree in trees:
                part = field_at(tree, fields)[0]
                if isinstance(part, Constant):
                    yield part
                elif _copied_by(tree, fields) is None:
                    yield from self._of_tree(tree, fields).blocks

    def _gives(self, giver: tuple[Source, Names], block: Block) -> bool:
        source, fields = giver
        if self.is_copied_item(source):
            return any(self._part_gives(one, block) for one in behind_item(self, source, fields))
        if not self.is_made(source):
            return allows(field_type(self.spec(source), fields)[0], block)
        return any(meet(block, one) for one in self._at(source, fields).blocks)

    def _part_gives(self, part: Location | FieldValue, block: Block) -> bool:
        if isinstance(part, Location):
            return allows(field_type(self.spec(part.source), part.fields)[0], block)
        return any(meet(block, one) for one in self._of_part(part).blocks)

    def _givers(self, names: Names) -> SourceFields | None:
        """Return the sources behind a reference; None where there are too many copies between them."""
        if names not in self._known_givers:
            resolution = self.lookup.resolve(names)
            self._known_givers[names] = self._traced(
                [] if resolution is None else [(source, resolution.fields, True) for source in resolution.sources]
            )
        return self._known_givers[names]

    def _traced(self, pending: list[tuple[Source, Names, bool]]) -> SourceFields | None:
        """Follow all copies back from some sources, each with fields and whether what is absent there counts.

        A reference is followed once. So names that copy one another, or themselves, add no values.
        """
        sources_found: dict[tuple[Source, Names], bool] = {}
        visited: set[tuple[Names, bool]] = set()
        may_be_absent = False
        for source, fields, counts in pending:
            copies, are_all = self._copied_from(source, fields)
            if not are_all:
                sources_found[source, fields] = counts or sources_found.get((source, fields), False)
            for copy in copies:
                names, still_counts = copy.names, counts and copy.is_field
                may_be_absent |= copy.may_lack and counts
                if (names, still_counts) in visited:
                    continue
                if len(visited) == MAX_COPIES:
                    return None
                visited.add((names, still_counts))
                resolution = self.lookup.resolve(names)
                may_be_absent |= resolution is None and still_counts
                pending += (
                    [(one, resolution.fields, still_counts) for one in resolution.sources]
                    if resolution is not None
                    else []
                )
        return SourceFields(sources_found, may_be_absent)

    def _copied_from(self, source: Source, fields: Names) -> tuple[list[Copy], bool]:
        """Return the references whose values a source copies, or puts into what it builds, and whether it does nothing
        else."""
        if self.is_joined(source) and fields:
            part = parts_of(self.reading, source.step).get(fields[0])
            if part is None:
                return [], False
            return [Copy((*part.output, *fields[1:]), bool(fields[1:]), part.may_lack)], True
        copies = [_copied_by(tree, fields) for tree in self.trees(source)]
        return [one for one in copies if one is not None], bool(copies) and None not in copies

    def trees(self, source: Source) -> list[Expression]:
        """Return the expressions that give a source its values: of a `set`, of the ends of a branch, or of a written
        list."""
        if source.kind == "set":
            tree = self.tree(source)
            return [] if tree is None else [tree]
        if source.kind == "item":
            owner = self.reading.steps[self.reading.layout.body_of(source.step).owner]
            return written_items(owner)
        is_branch = source.kind == "output" and isinstance(self.reading.steps[source.step], BranchStep)
        return end_trees(self.reading, source.step) if is_branch else []

    def is_joined(self, source: Source) -> bool:
        """Return whether a source is the object of a step with branches."""
        return source.kind == "output" and source.step in self.reading.layout.forks

    def is_made(self, source: Source) -> bool:
        """Return whether the program makes the values of a source: nothing holds them to a type."""
        return source.kind == "set" or self.is_joined(source) or bool(self.trees(source))

    # -- sizes of numbers --------------------------------------------------------------------------------------------

    def may_overflow(self, tree: Expression) -> bool:
        """Return whether a result may have too many digits.

        Not where bounded numbers and constants are too short for it, and not by sums that only grow by such numbers,
        since no run is long enough.
        """
        if isinstance(tree, Built):  # each of its parts is computed by itself
            return any(map(self.may_overflow, tree.parts))
        if not any(isinstance(node, Arithmetic | Minus) for node in walk(tree)):
            return False
        if tree not in self._too_long:
            trees: dict[Names, list[Expression]] = {}
            outside: dict[Names, Digits] = {}
            self._gather(_read(tree), trees, outside)
            digits = AssignedDigits(trees, outside)
            self._too_long[tree] = may_be_too_long(tree, digits.of)
        return self._too_long[tree]

    def _gather(self, read: list[Names], trees: dict[Names, list[Expression]], outside: dict[Names, Digits]) -> None:
        """Find the expressions that are assigned to all names behind some references, and the digits of values from
        outside."""
        while read:
            names = read.pop()
            if names in outside:
                continue
            resolution = self.lookup.resolve(names)
            sources = () if resolution is None else resolution.sources
            if not any(source.kind == "set" for source in sources):
                outside[names] = NONE if resolution is None else of_blocks(self.of(names).blocks)
                continue
            trees[names], is_known = [], len(names) <= MAX_BELOW
            for source in (one for one in sources if one.kind == "set"):
                tree, is_any = self.tree(source), False
                if tree is not None and names[1:]:
                    tree, _, is_any = field_at(tree, names[1:])
                is_known = is_known and not is_any
                trees[names] += [] if tree is None else [tree]
            specs = (field_type(self.spec(source), names[1:])[0] for source in sources if source.kind != "set")
            blocks = [block for spec in specs for block in of_type(spec)]
            outside[names] = of_blocks(blocks) if is_known else None
            read += [one for tree in trees[names] for one in _read(tree)] if is_known else []
            trees[names] = trees[names] if is_known else []


def _together(origins: Iterable[Origin]) -> tuple[Block, ...]:
    return tuple(dict.fromkeys(block for one in origins for block in one.blocks))


def _copied_by(tree: Expression, fields: Names) -> Copy | None:
    """Return the reference whose value an expression copies, by itself or into a field of what it builds."""
    if isinstance(tree, Built) and fields:
        part, is_field, _ = field_at(tree, fields)
        # What is put in had a value then.
        return Copy(part.names, is_field) if isinstance(part, Reference) else None
    return Copy((*tree.names, *fields)) if isinstance(tree, Reference) else None


def _in_built(tree: Built, fields: Names) -> Origin:
    """Return the origin of a field of a built value that is no reference."""
    part, _, is_any = field_at(tree, fields)
    match part:
        case None:
            return _ANYWHERE if is_any else _NOWHERE
        case Constant(value=value):
            return _written(value, ())
    return Origin(result_blocks(part))


def _kinds(spec: TypeSpec | None) -> frozenset[str]:
    return frozenset(block.kind for block in of_type(spec))


def _read(tree: Expression) -> list[Names]:
    return [node.names for node in walk(tree) if isinstance(node, Reference)]


def _written(value: Any, fields: Names) -> Origin:
    for name in fields:
        value = inside(value, name)
    return _NOWHERE if value is ABSENT else Origin((of_value(value),))


def below(names: Names, root: Names) -> bool:
    """Return whether a reference is a root, or a field of it."""
    return names[: len(root)] == root


def prefixes(names: Names) -> Iterator[Names]:
    """Yield a reference after all its owners."""
    return (names[:end] for end in range(1, len(names) + 1))
