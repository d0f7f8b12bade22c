"""Programs in Python source, read from its syntax tree: nothing is imported or run.

A program is the dict literal of a `Program.from_dict({...})` call, a dict literal whose `steps` are a list of dicts
with `id` and `type`, or a call such as `Program(name="x", steps=[Step(id="a", type="end")])`, whose arguments are read
as fields. A program that is only built when the code runs can't be read this way, such as `Program.from_dict(data)`
with a variable, or `Program.from_yaml(text)`: its line is returned instead.
"""

from __future__ import annotations

import ast
import math
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from stepward.vm.errors import Problem, ProgramError, StepwardError
from stepward.vm.reading.document import Document, Extent, PathTree
from stepward.vm.reading.limits import MAX_DEPTH
from stepward.vm.reading.source import LineIndex, Path, Span

MAX_LENGTH: Final = 4 * 1024 * 1024
"""Characters of a Python file: its syntax tree takes about a hundred and fifty times as much memory."""

_ENUMS: Final = frozenset({"StepType", "OnError", "OnTimeout"})
"""The enumerations whose members stand for a word of the language: `StepType.LLM` is `llm`."""

_PARTS: Final = ("Program", "Step", "Case", "ToolSpec", "TypeSpec")
"""How the names of the classes end that parts of a program are made of."""

_BUILDERS: Final = frozenset({"from_dict", "from_json", "from_yaml", "model_validate"})
"""The methods of `Program` that make one of a value. `load` is not among them: its file is checked by itself."""

_LINE_END: Final = re.compile(r"\r\n|\r|\n")
# A token without prefix, with escapes that YAML's double quotes have too, so that the same code finds offsets in both.
_PLAIN_TOKEN: Final = re.compile(
    r"""(?P<quote>["'])(?:(?!(?P=quote))[^\\\r\n]|\\["'\\abfnrtv]"""
    r"""|\\x[0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8})*(?P=quote)"""
)


def read_python(name: str, text: str) -> tuple[list[Document], tuple[int, ...]]:
    """Return the programs in Python source, and the lines of those that are not literals.

    Raises ProgramError (SW001, SW004) when the text is no Python, or too large or too deep to be read.
    """
    if len(text) > MAX_LENGTH:
        message = f"the file has {len(text):,} characters; programs are read from at most {MAX_LENGTH:,} of Python"
        raise ProgramError(name, (Problem("SW004", message, "write the program as YAML or JSON"),))
    tree = _parse(name, text)
    source = _Source(text)
    documents: list[Document] = []
    not_literal: list[int] = []
    for node in _programs(tree):
        reader = _Reader(name, source)
        try:
            data = reader.value(node, 1)
        except _NotLiteralError:
            not_literal.append(node.lineno)
            continue
        locator = _Locator(name, text, node.lineno, node.col_offset)
        documents.append(Document(name, text, "python", data, locator, tuple(reader.problems)))
    return documents, tuple(not_literal)


def _parse(name: str, text: str) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an odd escape in the user's strings does not matter here
            return ast.parse(text)
    except SyntaxError as error:
        line, column = max(error.lineno or 1, 1), max(error.offset or 1, 1)
        reason = error.msg or "invalid syntax"
        help = "fix the syntax near here, or run this Stepward on a Python that knows it"
        problem = Problem("SW001", f"not readable as Python: {reason}", help, span=Span(line, column, line, column + 1))
    except ValueError:
        help = "remove the NUL byte; a program is a text file"
        problem = Problem("SW001", "not readable as Python: it holds a NUL byte", help)
    except (RecursionError, MemoryError):
        help = "write the long or deep expression in another way, or move it to another file"
        problem = Problem("SW001", "not readable as Python: an expression is nested too deeply", help)
    raise ProgramError(name, (problem,))


# -- finding -----------------------------------------------------------------------------------------------------------


def _programs(tree: ast.Module) -> Iterator[ast.Dict | ast.Call]:
    """Yield the dicts and calls that are programs, in the order of the text; none is searched for inner ones."""
    pending: list[ast.AST] = [tree]
    literals = _names_of_literals(tree)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Call) and _makes_a_program(node.func):
            argument = _argument(node)
            if isinstance(argument, ast.Dict):
                yield argument
                continue
        if isinstance(node, ast.Call) and _is_program_call(node):
            yield node
            continue
        if isinstance(node, ast.Dict) and _is_shaped_like_a_program(node):
            yield node
            continue
        if isinstance(node, ast.Call) and _builds_from_a_value(node, literals):
            yield node
        pending.extend(reversed(list(ast.iter_child_nodes(node))))


def _makes_a_program(function: ast.expr) -> bool:
    """Return whether a call is one of `Program.from_dict`, also of a class whose name ends in `Program`."""
    if not isinstance(function, ast.Attribute) or function.attr != "from_dict":
        return False
    return _name(function.value).endswith("Program")


def _is_program_call(call: ast.Call) -> bool:
    """Return whether a call is one of `Program(steps=...)`, also of a class whose name ends in `Program`."""
    steps = next((keyword.value for keyword in call.keywords if keyword.arg == "steps"), None)
    name = _name(call.func)
    if isinstance(steps, ast.List | ast.Tuple) and name.endswith("Program"):
        return any(isinstance(step, ast.Call | ast.Dict | ast.Name | ast.Starred) for step in steps.elts)
    return steps is not None and name == "Program" and not isinstance(steps, ast.Constant | ast.Dict)


def _builds_from_a_value(call: ast.Call, literals: frozenset[str]) -> bool:
    """Return whether a call makes a program of a value that is only known when the code runs.

    A value that contains the literal of a program is not meant, nor one of the names of `literals`: they are read.
    """
    values = [*call.args, *(keyword.value for keyword in call.keywords)]
    if len(call.args) > 1:
        return False
    if isinstance(call.func, ast.Attribute):
        builds = call.func.attr in _BUILDERS and _name(call.func.value) == "Program" and bool(values)
    else:
        builds = _name(call.func) == "Program" and any(keyword.arg is None for keyword in call.keywords)
    names = {node.id for value in values for node in ast.walk(value) if isinstance(node, ast.Name)}
    return builds and names.isdisjoint(literals) and not any(map(_has_a_program, values))


def _names_of_literals(tree: ast.Module) -> frozenset[str]:
    """Return the variables to which the literal of a program is assigned somewhere in the file."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None and _has_a_program(node.value):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return frozenset(names)


def _has_a_program(value: ast.expr) -> bool:
    return any(isinstance(node, ast.Dict) and _is_shaped_like_a_program(node) for node in ast.walk(value))


def _name(function: ast.expr) -> str:
    """Return the last name of what is called, or an empty text."""
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _argument(call: ast.Call) -> ast.expr | None:
    arguments = [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg == "data")]
    return arguments[0] if len(arguments) == 1 else None


def _is_shaped_like_a_program(node: ast.Dict) -> bool:
    for key, value in zip(node.keys, node.values, strict=True):
        if isinstance(key, ast.Constant) and key.value == "steps":
            if not isinstance(value, ast.List | ast.Tuple) or not value.elts:
                return False
            return all(isinstance(step, ast.Dict) and {"id", "type"} <= _keys(step) for step in value.elts)
    return False


def _keys(node: ast.Dict) -> set[Any]:
    return {key.value for key in node.keys if isinstance(key, ast.Constant)}


# -- values ------------------------------------------------------------------------------------------------------------


class _NotLiteralError(StepwardError):
    """A part of the dict is no literal: its value is only known when the code runs."""


@dataclass(slots=True)
class _Source:
    """Converts the positions of the syntax tree, which count bytes of a line, to offsets in the text."""

    text: str
    _starts: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._starts = [0, *(end.end() for end in _LINE_END.finditer(self.text))]

    def extent(self, node: ast.expr, key: ast.expr | None = None) -> Extent:
        start, end = self.offsets(node)
        is_plain = isinstance(node, ast.Constant) and _PLAIN_TOKEN.fullmatch(self.text, start, end) is not None
        return Extent(start, end, self.offsets(key) if key is not None else None, "double" if is_plain else None)

    def offsets(self, node: ast.expr) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._offset(node.lineno, node.col_offset), self._offset(node.end_lineno, node.end_col_offset)

    def _offset(self, line: int, column: int) -> int:
        start = self._starts[line - 1]
        stretch = self.text[start : start + column]  # a character has at least one byte
        if stretch.isascii():
            return start + column
        return start + len(stretch.encode("utf-8", "surrogatepass")[:column].decode("utf-8", "ignore"))


@dataclass(slots=True)
class _Reader:
    """Reads literals as plain data, and records problems with their keys."""

    name: str
    source: _Source
    problems: list[Problem] = field(default_factory=list)

    def value(self, node: ast.expr, depth: int) -> Any:
        if depth > MAX_DEPTH:
            self._fail(node, f"nested deeper than {MAX_DEPTH} levels", "flatten the document")
        if isinstance(node, ast.Constant):
            return _constant(node.value)
        if isinstance(node, ast.Dict):
            return self._mapping(node, depth)
        if isinstance(node, ast.Call):
            return self._call(node, depth)
        if isinstance(node, ast.Attribute) and _name(node.value) in _ENUMS:
            return node.attr.lower()
        if isinstance(node, ast.List):
            return [self.value(item, depth + 1) for item in node.elts]
        if isinstance(node, ast.Tuple):
            return tuple(self.value(item, depth + 1) for item in node.elts)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            number = _constant(node.operand.value)
            if isinstance(number, int | float | Decimal) and not isinstance(number, bool):
                return -number
        raise _NotLiteralError

    def _mapping(self, node: ast.Dict, depth: int) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if not isinstance(key, ast.Constant):
                raise _NotLiteralError
            name = key.value if isinstance(key.value, str) else str(key.value)
            if not isinstance(key.value, str):
                self._report(key, "SW002", f"the key `{name}` is not text", f'put it in quotes: `"{name}"`')
            elif name in mapping:
                self._report(
                    key, "SW003", f"the key `{name}` occurs twice in one dict", "remove one of the two, or rename it"
                )
            mapping[name] = self.value(value, depth + 1)
        return mapping

    def _call(self, node: ast.Call, depth: int) -> dict[str, Any]:
        """Return the keywords of a call that makes a part of a program, such as a step."""
        if node.args or not _name(node.func).endswith(_PARTS):
            raise _NotLiteralError
        mapping: dict[str, Any] = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                raise _NotLiteralError
            mapping[keyword.arg] = self.value(keyword.value, depth + 1)
        return mapping

    def _report(self, node: ast.expr, code: str, message: str, help: str) -> None:
        span = LineIndex(self.source.text).span(*self.source.offsets(node))
        self.problems.append(Problem(code, message, help, span=span))

    def _fail(self, node: ast.expr, message: str, help: str) -> None:
        span = LineIndex(self.source.text).span(*self.source.offsets(node))
        raise ProgramError(self.name, (Problem("SW004", message, help, span=span),))


def _constant(value: Any) -> Any:
    """Return a constant; a float becomes its shortest decimal, as in the machine when the code runs."""
    return Decimal(repr(value)) if isinstance(value, float) and math.isfinite(value) else value


# -- locations ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Locator:
    """Finds the extents of paths in one dict display of a text."""

    name: str
    text: str
    line: int
    column: int

    def __call__(self, paths: PathTree) -> dict[Path, Extent]:
        start = (self.line, self.column)
        node = next(node for node in _programs(_parse(self.name, self.text)) if (node.lineno, node.col_offset) == start)
        extents: dict[Path, Extent] = {}
        pending: list[tuple[Path, ast.expr, ast.expr | None, PathTree]] = [((), node, None, paths)]
        source = _Source(self.text)
        while pending:
            path, value, key, below = pending.pop()
            extents.setdefault(
                path, source.extent(value, key)
            )  # the last duplicate of a key counts, and is popped first
            for part, child_key, child in _children(value):
                if part in below:
                    pending.append(((*path, part), child, child_key, below[part]))
        return extents


def _children(node: ast.expr) -> Iterator[tuple[str | int, ast.expr | None, ast.expr]]:
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            assert isinstance(key, ast.Constant), "the reader let only constants through"
            yield str(key.value), key, value
    elif isinstance(node, ast.Call):
        for keyword in node.keywords:
            assert keyword.arg is not None, "the reader let only names through"
            yield keyword.arg, _keyword_name(keyword), keyword.value
    elif isinstance(node, ast.List | ast.Tuple):
        for number, item in enumerate(node.elts):
            yield number, None, item


def _keyword_name(keyword: ast.keyword) -> ast.expr:
    """Return the name of a keyword as an expression, so that it has an extent."""
    assert keyword.arg is not None
    end = keyword.col_offset + len(keyword.arg.encode())
    return ast.Name(
        keyword.arg, lineno=keyword.lineno, col_offset=keyword.col_offset, end_lineno=keyword.lineno, end_col_offset=end
    )
