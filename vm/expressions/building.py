"""The values of `set` as expressions: in language 2, a text in a list or an object is a template.

Nothing in a list or an object is computed. A text that is one reference is the value of that reference, a longer one
with references is text, and `$$` is a dollar sign, as in arguments. A value that is assigned to a path is put into a
copy of the object: it is an expression or a built value, as one that is assigned to a variable.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from stepward.vm.expressions.fields import written
from stepward.vm.expressions.parser import parse
from stepward.vm.expressions.paths import Paths, names_of_key
from stepward.vm.expressions.syntax import Built, Constant, Expression, Reference, Template, moved
from stepward.vm.expressions.template import parts, texts
from stepward.vm.reading.source import Path
from stepward.vm.values import FrozenMap


class Piece(NamedTuple):
    """A text in a built value: its first position in the positions of the tree, and its path below the value.

    `fields` are those of the value in which the text stands. `is_key`: it is a path itself, which names an object of
    which a field is assigned.
    """

    start: int
    path: Path
    fields: tuple[str, ...] = ()
    is_key: bool = False


def is_computed(value: object, language: int) -> bool:
    """Return whether a value of a `set` is an expression, or holds templates; any other stands for itself."""
    if isinstance(value, str | Paths):
        return True
    return language > 1 and any("$$" in text or _reads(text) for _, text in texts(value))


def expression(value: object, language: int) -> Expression:
    """Return the tree of a value of a `set`; raises ExpressionError for a text that is no expression."""
    if isinstance(value, str):
        return parse(value, language)
    if isinstance(value, Paths):
        return into_fields(value, language).tree
    return built(value) if is_computed(value, language) else Constant(0, 0, value)


def built(value: object) -> Expression:
    """Return the tree of a list or an object with templates.

    Each text with a dollar sign has positions of its own, in the order of `pieces`, so that no two nodes share one.
    """
    starts = {piece.path: piece.start for piece in pieces(value)}
    return _built(value, (), starts)


def pieces(value: object) -> Iterator[Piece]:
    """Yield the texts with a dollar sign of a built value, in order."""
    start = 0
    for path, text in texts(value):
        yield Piece(start, path, tuple(f"[{key}]" if isinstance(key, int) else key for key in path))
        start += len(text) + 1


class IntoFields(NamedTuple):
    """What a `set` puts into fields of a variable: the tree, the text to which its positions belong, and its pieces.

    The path of a piece begins with the path that is assigned, as it is written.
    """

    tree: Expression
    text: str
    pieces: tuple[Piece, ...]


def into_fields(paths: Paths, language: int) -> IntoFields:
    """Return the object in which values are in the place of some fields; raises ExpressionError for a text that is no
    expression."""
    text, pieces = "", list[Piece]()
    whole = _Object()
    for key, value in paths.items():
        variable, *fields = names_of_key(key)
        one = whole
        for depth, name in enumerate(fields):
            if one.base is None:
                names = (variable, *fields[:depth])
                word = f"${written(names)}"
                one.base = Reference(len(text), len(text) + len(word), names)
                pieces.append(Piece(len(text), (key,), tuple(fields[:depth]), is_key=True))
                text += f"{word} "
            if depth < len(fields) - 1:
                inner = one.parts.setdefault(name, _Object())
                assert isinstance(inner, _Object), "no path is the beginning of another"
                one = inner
                continue
            tree, own, inside = _value(value, language)
            pieces += [Piece(piece.start + len(text), (key, *piece.path), (*fields, *piece.fields)) for piece in inside]
            one.parts[name] = moved(tree, len(text))
            text += f"{own} "
    return IntoFields(whole.tree(), text, tuple(pieces))


@dataclass(eq=False)
class _Object:
    """An object of which fields are assigned: `parts` are the new fields, or are such objects themselves."""

    base: Reference | None = None
    parts: dict[str, Expression | _Object] = field(default_factory=dict)

    def tree(self) -> Expression:
        assert self.base is not None
        parts = tuple(one.tree() if isinstance(one, _Object) else one for one in self.parts.values())
        return Built(self.base.start, self.base.end, tuple(self.parts), parts, is_list=False, base=self.base)


def _value(value: object, language: int) -> tuple[Expression, str, tuple[Piece, ...]]:
    """Return the tree of the value of a path, the text to which its positions belong, and its pieces."""
    if isinstance(value, str):
        return parse(value, language), value, (Piece(0, ()),)
    return expression(value, language), " ".join(text for _, text in texts(value)), tuple(pieces(value))


def _reads(text: str) -> bool:
    return any(isinstance(piece, Reference) for piece in parts(text))


def _built(value: Any, path: Path, starts: dict[Path, int]) -> Expression:
    if isinstance(value, str):
        return _template(value, starts[path]) if path in starts else Constant(0, 0, value)
    if isinstance(value, dict):
        fields = tuple(_built(item, (*path, name), starts) for name, item in value.items())
        values = _constants(fields)
        if values is not None:
            return Constant(0, 0, FrozenMap(zip(value, values, strict=True)))
        return Built(0, 0, tuple(value), fields, is_list=False)
    if isinstance(value, tuple):
        items = tuple(_built(item, (*path, number), starts) for number, item in enumerate(value))
        values = _constants(items)
        if values is not None:
            return Constant(0, 0, values)
        return Built(0, 0, tuple(f"[{number}]" for number in range(len(items))), items, is_list=True)
    return Constant(0, 0, value)


def _constants(parts: tuple[Expression, ...]) -> tuple[Any, ...] | None:
    """Return the values of parts that all are constants, None where one is not."""
    values = tuple(part.value for part in parts if isinstance(part, Constant))
    return values if len(values) == len(parts) else None


def _template(text: str, start: int) -> Expression:
    found: list[Constant | Reference] = []
    for piece in parts(text):
        if isinstance(piece, str):
            found.append(Constant(start, start, piece))
        else:
            found.append(Reference(start + piece.start, start + piece.end, piece.names))
    if all(isinstance(piece, Constant) for piece in found):
        return Constant(start, start, "".join(piece.value for piece in found if isinstance(piece, Constant)))
    return found[0] if len(found) == 1 else Template(start, start + len(text), tuple(found))
