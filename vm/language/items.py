"""Items of arrays that are read by their index: whether they are there, and of which kinds they are."""

from __future__ import annotations

from typing import Final, Protocol

from stepward.vm.expressions.fields import ITEMS, index_of
from stepward.vm.expressions.inside import leaves
from stepward.vm.expressions.operators import ARRAY, kind
from stepward.vm.expressions.syntax import Built, Expression, Reference
from stepward.vm.language.names import Names, Resolution, Source
from stepward.vm.language.types import TypeSpec
from stepward.vm.language.views import View


class Types(Protocol):
    """The declared types of a program's names, and what its `set` names copy."""

    def spec(self, location: tuple[Source, tuple[str, ...]]) -> TypeSpec | None:
        """Return the declared type at a location; None if there is none."""

    @property
    def names(self) -> Names:
        """The names of the program."""

    def tree(self, source: Source) -> Expression | None:
        """Return the expression of a `set` name; None for another source, and for a value that stands for itself."""

    def copied(self, source: Source) -> Resolution | None:
        """Return the resolved reference that a `set` name or an item copies; None if it is none."""


def origins(
    typing: Types, resolution: Resolution, followed: frozenset[Source] = frozenset()
) -> list[tuple[Source, tuple[str, ...]]]:
    """Return the locations of the values of a reference; an item of a for_each step is one of its list's."""
    found: list[tuple[Source, tuple[str, ...]]] = []
    for source in resolution.sources:
        copied = typing.copied(source) if source.kind == "item" and source not in followed else None
        if copied is None:
            found.append((source, resolution.fields))
        else:
            whole = copied._replace(fields=(*copied.fields, *resolution.fields))
            found += origins(typing, whole, followed | {source})
    return found


MAX_COPIES: Final = 8
"""The longest chain of copies that is followed to the type of an array."""


def lacks(typing: Types, source: Source, fields: tuple[str, ...], copies: int) -> tuple[bool, bool]:
    """Return whether an array on the path may be too short for its index, and whether it certainly is."""
    built = typing.tree(source) if source.kind == "set" else None
    if isinstance(built, Built) and copies:
        return _lacks_built(typing, built, fields, copies - 1)
    copied = typing.copied(source) if source.kind == "set" else None
    if source.kind == "set" and (copied is None or not copies):
        return True, False
    if copied is not None:
        found = [lacks(typing, one, copied.fields + fields, copies - 1) for one in copied.sources]
        return any(may for may, _ in found), all(must for _, must in found)
    may_be_missing = is_missing = False
    for depth, number in enumerate(map(index_of, fields)):
        if number is None:
            continue
        spec = typing.spec((source, fields[:depth]))
        if spec is None or spec.kinds != ARRAY:
            may_be_missing = True
            is_missing |= spec is not None and "array" not in spec.kinds
        else:
            may_be_missing |= (spec.min_items or 0) <= number
            is_missing |= spec.max_items is not None and spec.max_items <= number
    return may_be_missing, is_missing


def _lacks_built(typing: Types, built: Built, fields: tuple[str, ...], copies: int) -> tuple[bool, bool]:
    found: list[tuple[bool, bool]] = []
    for leaf in leaves(built, fields):
        if not isinstance(leaf.tree, Reference):
            is_missing = leaf.tree is None or bool(leaf.fields)
            found.append((is_missing, is_missing))
            continue
        resolution = typing.names.meaning(leaf.tree.names)
        found += (
            [(True, True)]
            if resolution is None
            else [lacks(typing, one, resolution.fields, copies) for one in resolution.sources]
        )
    return any(may for may, _ in found), all(must for _, must in found)


def kinds_inside(value: object, path: tuple[str, ...]) -> View:
    """Return the view of what a constant holds at a path, of whose names `[]` stands for all items of an array."""
    values, is_lacking = [value], False
    for name in path:
        next_values: list[object] = []
        number = index_of(name)
        for one in values:
            if name == ITEMS:
                next_values += one if isinstance(one, list | tuple) else ()
            elif number is not None and isinstance(one, list | tuple) and number < len(one):
                next_values.append(one[number])
            elif number is None and isinstance(one, dict) and name in one:
                next_values.append(one[name])
            else:
                is_lacking = True
        values = next_values
    kinds = frozenset(kind(value) for value in values)
    return View(kinds, optional=is_lacking, never=is_lacking and not kinds)
