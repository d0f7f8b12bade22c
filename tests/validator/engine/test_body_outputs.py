"""What an `end` step of a body gives, read with operators and by fields: no run fails where nothing is reported.

The machine holds outputs of calls to their types, and no output of an `end`. Each program gives one value from a body
and does one thing with it; all of them run, with each value that the type of the call in the body allows.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from stepward.validator import ProgramValidator
from stepward.vm import ExecutionVM, MemoryJournal, Program

Data = dict[str, Any]

VALUES: Final[tuple[Any, ...]] = ("a", 5, True, None, {"f": 1}, {"f": "a"}, {"g": 1}, [1], [])
GIVEN: Final[dict[str, tuple[Any, Data | None]]] = {
    "a text": ("text", None),
    "a number": (7, None),
    "an object": ({"f": 1}, None),
    "another object": ({"g": 1}, None),
    "a list": ([1, 2], None),
    "a list of texts": (["a", "b"], None),
    "nothing": (None, None),
    "what nobody declares": ("$inner.output", {}),
    "a number of a call": ("$inner.output", {"type": "integer"}),
    "a text of a call": ("$inner.output", {"type": "string"}),
    "an object of a call": (
        "$inner.output",
        {"type": "object", "properties": {"f": {"type": "integer"}}, "required": ["f"]},
    ),
    "an object without its field": ("$inner.output", {"type": "object", "properties": {"f": {"type": "integer"}}}),
    "a field of a call": ({"f": "$inner.output"}, {"type": "integer"}),
    "a field of what nobody declares": ({"f": "$inner.output"}, {}),
}
USES: Final = {
    "larger": "IT > 3",
    "equal": "IT == 'a'",
    "equal to another": "$number == IT",
    "contains": "IT contains 'a'",
    "is contained": "1 in IT",
    "listed": "IT in [1, 2]",
    "joined": "join(IT, ',') == 'a,b'",
    "counted": "len(IT) > 0",
    "not null and larger": "IT != null and IT > 3",
    "field": "IT.f == 1",
    "field, if defined": "defined(IT.f) and IT.f == 1",
    "condition": "IT",
}
READERS: Final = {
    "branch": "$body.output",
    "copied branch": "$copy",
    "first item": "$body.output[0]",
    "item of a joined list": "$copy[0]",
    "item of a list": "$it",
}


def fits(value: Any, spec: Data | None) -> bool:
    from stepward.vm.language.types import TypeSpec
    from stepward.vm.language.types import fits as belongs
    from stepward.vm.values import freeze

    return not spec or belongs(freeze(value), TypeSpec.model_validate(spec))


def program(given: str, use: str, reader: str) -> Data:
    value, spec = GIVEN[given]
    inner = [] if spec is None else [{"id": "inner", "type": "tool", "tool": "ask"}]
    steps = [*inner, {"id": "gives", "type": "end", **({} if value is None else {"output": value})}]
    body: Data = {
        "id": "whole",
        "type": "parallel",
        "branches": {"body": {"steps": steps}, "other": {"steps": [{"id": "idle", "type": "end"}]}},
    }
    if "branch" not in reader:
        body = {"id": "body", "type": "for_each", "items": [1], "as": "one", "steps": steps}
    condition = USES[use].replace("IT", READERS[reader])
    if reader in ("first item", "item of a joined list"):
        condition = f"defined({READERS[reader]}) and ({condition})"
    asked: list[Data] = [
        {"id": "asked", "type": "condition", "condition": condition, "then": "last", "otherwise": "late"}
    ]
    last: list[Data] = [{"id": "last", "type": "set", "set": {"x": 1}}, {"id": "late", "type": "set", "set": {"y": 1}}]
    if reader.startswith("copied"):
        asked = [{"id": "copied", "type": "set", "set": {"copy": "$body.output"}}, *asked]
    if reader == "item of a joined list":
        asked = [{"id": "joined", "type": "set", "set": {"copy": "$body.output + [1]"}}, *asked]
    if reader == "item of a list":
        inside = [*asked, {"id": "last", "type": "end"}, {"id": "late", "type": "end"}]
        asked = [
            {"id": "each", "type": "for_each", "items": "$body.output", "as": "it", "max_items": 1, "steps": inside}
        ]
        last = []
    tools = {"ask": {"effect": "read", **({"returns": spec} if spec else {})}}
    return {
        "name": "p",
        "language": 2,
        "inputs": {"number": {"type": "integer", "default": 5}},
        "tools": tools,
        "steps": [body, *asked, *last],
    }


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("use", USES)
def test_no_run_fails_at_an_operator_that_passes_the_gate(use: str, reader: str) -> None:
    passed = refused = 0
    for given in GIVEN:
        legal = Program.from_dict(program(given, use, reader))
        report = ProgramValidator(legal).validate()
        if any(one.code in ("SW201", "SW202", "SW203") for one in report.findings):
            refused += 1
            continue
        passed += 1
        for value in VALUES:
            if not fits(value, GIVEN[given][1]):
                continue
            done = ExecutionVM({"ask": lambda value=value: value}, journal=MemoryJournal(), checker=None).run_sync(
                legal
            )
            why = str(done.error)
            assert "can't be evaluated" not in why, (given, value, why)
    assert refused, "some value is of a wrong type"
    assert passed or use in ("condition", "field") or "joined" in reader, "some value is right"
