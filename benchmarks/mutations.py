"""One-line edits of functions, by syntax: a bound, a part of a condition, a field, a member, a call is left out."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

Change = Callable[[Any], Any]
"""Returns what stands in place of a node: a node, or a list of statements."""

BOUNDS: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}
WRAPPERS: Final = ("opened", "veiled", "marked", "freeze", "portable", "set", "frozenset", "abs", "sorted", "reversed")
"""Functions of one argument that are left out."""


class Edit(NamedTuple):
    """An edit of a file: of a function, by its name with that of its class, and the line of its first decorator or
    `def`; `number` is that of the node in the order of the walk, and `choice` which edit of that node it is."""

    file: str
    function: str
    first: int
    line: int
    kind: str
    text: str
    number: int
    choice: int

    @property
    def place(self) -> tuple[str, int]:
        """The name and the first line of the function."""
        return self.function, self.first


def edits_of(root: Path, file: str) -> Iterator[Edit]:
    """Yield every edit of the functions of a file, in order."""
    tree = ast.parse((root / file).read_text(encoding="utf-8"))
    for number, (node, function, first) in enumerate(_nodes(tree)):
        for choice, (kind, _) in enumerate(_changes(node)):
            line = getattr(node, "lineno", first)
            yield Edit(file, function, first, line, kind, ast.unparse(node).splitlines()[0][:90], number, choice)


def edited(root: Path, edit: Edit) -> ast.Module:
    """Return the tree of a file with an edit."""
    tree = ast.parse((root / edit.file).read_text(encoding="utf-8"))
    node = next(one for number, (one, *_) in enumerate(_nodes(tree)) if number == edit.number)
    change = list(_changes(node))[edit.choice][1]
    return ast.fix_missing_locations(_Replaced(node, change).visit(tree))


class _Replaced(ast.NodeTransformer):
    def __init__(self, node: ast.AST, change: Change) -> None:
        self._node, self._change = node, change

    def visit(self, node: ast.AST) -> Any:
        """Replace the one node."""
        return self._change(node) if node is self._node else super().generic_visit(node)


def _nodes(tree: ast.Module) -> Iterator[tuple[ast.AST, str, int]]:
    """Yield the nodes in the bodies of functions, but for those of errors and asserts, which are mostly words."""
    for node in ast.walk(tree):
        prefix = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
        for one in node.body if isinstance(node, ast.ClassDef | ast.Module) else ():
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
                first = min([one.lineno, *(decorator.lineno for decorator in one.decorator_list)])
                for statement in one.body:
                    yield from ((inner, prefix + one.name, first) for inner in _walked(statement))


def _walked(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr | ast.AnnAssign):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _walked(child)


def _changes(node: Any) -> Iterator[tuple[str, Change]]:
    """Yield the edits of one node, each with its kind."""
    yield from _of_conditions(node)
    yield from _of_statements(node)
    yield from _of_calls(node)
    yield from _of_values(node)


def _of_conditions(node: Any) -> Iterator[tuple[str, Change]]:
    match node:
        case ast.BoolOp():
            for number in range(len(node.values)):
                yield "a part of a condition is left out", partial(_without, field="values", number=number)
        case ast.Compare(ops=[ast.Lt() | ast.LtE() | ast.Gt() | ast.GtE() as op]):
            yield "a bound is moved", lambda one: _set(one, "ops", [BOUNDS[type(op)]()])
        case ast.IfExp():
            yield "a value is the first", lambda one: one.body
            yield "a value is the other", lambda one: one.orelse
        case ast.comprehension() if node.ifs:
            yield "a filter is left out", lambda one: _set(one, "ifs", one.ifs[1:])


def _of_statements(node: Any) -> Iterator[tuple[str, Change]]:
    match node:
        case ast.If(orelse=[]):
            yield "a branch is not taken", lambda _: ast.Pass()
            if not any(isinstance(one, ast.Raise) for one in node.body):
                yield "a branch is always taken", lambda one: one.body
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.AugAssign() | ast.Delete():
            yield "a statement is left out", lambda _: ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "a statement is left out", lambda _: ast.Pass()


def _of_calls(node: Any) -> Iterator[tuple[str, Change]]:
    match node:
        case ast.Call(func=ast.Attribute(attr="_replace")):
            for number in range(len(node.keywords)):
                yield "a field stays as it was", partial(_without, field="keywords", number=number)
        case ast.Call(func=ast.Name(id="min" | "max"), args=[_, _]):
            yield "one of two is taken", lambda one: one.args[0]
            yield "one of two is taken", lambda one: one.args[1]
        case ast.Call(func=ast.Name(id="any" | "all" as name)):
            other = ast.Name("all" if name == "any" else "any", ast.Load())
            yield "`any` and `all` are swapped", lambda one: _set(one, "func", other)
        case ast.Call(func=ast.Name(id=name), args=[_]) if name in WRAPPERS:
            yield "a conversion is left out", lambda one: one.args[0]


def _of_values(node: Any) -> Iterator[tuple[str, Change]]:
    match node:
        case ast.Tuple(elts=elts) | ast.List(elts=elts) | ast.Set(elts=elts) if _has_many(elts):
            for number in range(len(elts)):
                yield "a member is left out", partial(_without, field="elts", number=number)
        case ast.BinOp(op=ast.BitOr() | ast.Add() | ast.Sub(), right=right) if not isinstance(right, ast.JoinedStr):
            yield "one of two is taken", lambda one: one.left
        case ast.Constant(value=bool()):
            yield "a constant is another", lambda one: _set(one, "value", not one.value)
        case ast.Constant(value=int()):
            yield "a constant is another", lambda one: _set(one, "value", one.value + 1)


def _has_many(elts: list[ast.expr]) -> bool:
    return len(elts) > 1 and (
        any(isinstance(one, ast.Starred) for one in elts) or all(isinstance(one, ast.Constant) for one in elts)
    )


def _set(node: Any, field: str, value: Any) -> Any:
    setattr(node, field, value)
    return node


def _without(node: Any, field: str, number: int) -> Any:
    """Return a node without one member of a field; an operator with a single operand is that operand."""
    left = [one for at, one in enumerate(getattr(node, field)) if at != number]
    return left[0] if isinstance(node, ast.BoolOp) and len(left) == 1 else _set(node, field, left)
