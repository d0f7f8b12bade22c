"""Tables of readers: small texts of YAML and JSON, each with the places of its parts, and documents with one null."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from typing import Any, Final

from stepward.sabotage.recorded.language.readings import read
from stepward.sabotage.recorded.notes import Notes
from stepward.sabotage.recorded.plain import PlainNotes
from stepward.vm.language.nulls import without_nulls
from stepward.vm.language.program import Program
from stepward.vm.reading.files import read_text

YAML: Final = (
    *(
        "a: 1",
        "a: 1\na: 2",
        "a:",
        "a: ~\nb: ''",
        "a: 'it''s'",
        'a: "x\\ty\\u00e9"',
        "a: |\n  x\n  y\n",
        "a: >\n  x\n  y\n\n  z\n",
    ),
    *(
        "a: |-\n  x\n",
        "a: |+\n  x\n\n",
        "a: [1, 2]",
        "a: {b: 1, c: [x]}",
        "a: []\nb: {}",
        "- 1\n- 2",
        "1",
        "",
        "# only",
        "a: 1 # why",
    ),
    *(
        "a: &x 1\nb: *x",
        "a: *x",
        "a: &x [1]\nb: [*x, *x]",
        "<<: {a: 1}\nb: 2",
        "a: !!str 1",
        "a: !x 1",
        "---\na: 1\n---\nb: 2",
        "---\n---\na: 1",
    ),
    *(
        "1: a",
        "true: a",
        "null: a",
        "? [1]\n: 2",
        "a: b: c",
        "a: 'x",
        "\ta: 1",
        "a: 1\n b: 2",
        "a: x\n  y",
        "é: ü\nb: 1",
        "a: \U0001f600\nb: x",
    ),
    *(
        "a: 0o17\nb: 0x1F\nc: 1e3",
        "a: .inf",
        "a: 1.50",
        "a: 'x\n  y'",
        "a:\n- 1\n-  2\n- - 3",
        'a: "x\\\n  y"',
        "...\n",
        "%YAML 1.2\n---\na: 1",
    ),
    *(
        "a: 1\r\nb: 2\r\n",
        "\ufeffa: 1",
        "a: {b: 1, b: 2}",
        "a: [1, 2",
        'a: "\\q"',
        "a: @x",
        "a: -",
        "a: '#'",
        "a : 1",
        "a:1",
        "a: [a: 1]",
        "a: yes",
    ),
)
JSON: Final = (
    *(
        '{"a": 1}',
        '{"a": 1, "a": 2}',
        '{"a": [1, 2.50, -0, 1e3]}',
        '{"a": "\\u00e9\\ud83d\\ude00"}',
        '{"a": "\\ud83d"}',
        "[]",
        "{}",
        "",
        "1",
    ),
    *(
        '{"a": NaN}',
        '{"a": Infinity}',
        '{"a": 01}',
        '{"a": 1,}',
        '{"a": 1} x',
        "{a: 1}",
        "{'a': 1}",
        '{"a": true, "b": null}',
        '{"a": tru}',
    ),
    *(
        '{\n  "a": {\n    "b": [\n      1\n    ]\n  }\n}',
        '{"é": "ü", "b": "\U0001f600", "c": 1}',
        '{"a": "x\ny"}',
        '{"": {"": 0}}',
        '[{"a": 1}, {"b": 2}]',
    ),
)
WHOLE: Final[dict[str, Any]] = {
    **{"name": "n", "language": 2, "description": "d", "max_steps": 3},
    "inputs": {"x": {"type": "object", "properties": {"a": {"type": "number", "default": 1}}, "default": {"k": None}}},
    "tools": {
        "t": {
            **{"effect": "write", "args": {"a": {"enum": [None, 1], "items": {"type": "null"}}}, "errors": ["E"]},
            "returns": {"properties": {"r": {"additionalProperties": {"type": "string"}, "default": None}}},
        }
    },
    "steps": [
        {
            **{"id": "s", "type": "tool", "tool": "t", "args": {"a": None, "b": {"c": None}}, "is_terminal": False},
            **{"retry": [{"on": "E", "attempts": 2}], "catch": [{"on": "E", "next_step": "e"}], "on_error": "fail"},
        },
        {"id": "c", "type": "condition", "cases": [{"when": "true", "then": "e"}], "otherwise": "e", "max_retries": 3},
        {"id": "p", "type": "parallel", "parallel_steps": [{"id": "q", "type": "tool", "tool": "t", "carry": {}}]},
        {
            **{"id": "f", "type": "for_each", "items": "$x", "do": {"id": "d", "type": "tool", "args": {"a": None}}},
            **{"steps": [{"id": "i", "type": "end", "output": None}], "guardrails": [{"name": "g", "tool": "t"}]},
        },
        {"id": "e", "type": "end", "output": {"v": None}, "args": {}, "guardrails": [], "on_item_error": "fail"},
    ],
    "guardrails": [{"name": "g", "rule": "never", "selector": {"tool": "t", "when": "x"}}],
    "programs": {"p": {"name": "p", "steps": [{"id": "e", "type": "end", "output": None}]}, "o": 1},
    "allow": [{"tool": "t", "when": "w"}],
    "waivers": [{"program": "p", "expiry": "2027-06-30"}],
}
"""A document with fields of every depth; it need not be a program."""


def rows() -> Iterator[tuple[str, Callable[..., Iterable[Any]], tuple[Any, ...]]]:
    """Yield the rows of the tables."""
    yield from (("yaml", _read, (text, False)) for text in YAML)
    yield from (("json", _read, (text, True)) for text in JSON)
    yield from (("nulls", _nulls, (path, value)) for path in _paths(WHOLE) for value in (None, 0))


def _read(text: str, is_json: bool) -> Iterator[Any]:
    notes: Notes = PlainNotes()
    read(notes, lambda: read_text("it", text, is_json=is_json))
    yield from notes.texts


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    entries: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        entries = value.items()
    elif isinstance(value, list):
        entries = enumerate(value)
    for key, item in entries:
        yield (*path, key)
        yield from _paths(item, (*path, key))


def _nulls(path: tuple[Any, ...], value: Any) -> Iterator[Any]:
    """Yield a document in which one part is null, or another value: what differs from the whole one."""
    data = deepcopy(WHOLE)
    part: Any = data
    for name in path[:-1]:
        part = part[name]
    part[path[-1]] = value
    found, whole = without_nulls(data, Program), without_nulls(WHOLE, Program)
    yield [found[name] for name in found if found[name] != whole.get(name)], sorted(found)
