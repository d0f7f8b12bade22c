"""`--fix` in bodies: each edit that is made in a program's own list is made in every list that a program can have."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from commands import check
from stepward.validator.edits import apply_edits
from stepward.validator.findings import Finding
from stepward.validator.gate.checking import Run
from stepward.validator.gate.settings import Configurations, Overrides

Data = dict[str, Any]
Steps = list[Data]

LOOK = {"effect": "read", "idempotent": True, "returns": {"type": "string", "enum": ["open", "paid"]}}
BOOK = {"effect": "write", "idempotent": True, "errors": ["closed"]}
PAY = {"effect": "write", "idempotent": True}
TOOLS = {"look": LOOK, "book": BOOK, "pay": PAY}

# -- lists with one mistake --------------------------------------------------------------------------------------------

BEGIN = {"id": "begin", "type": "tool", "tool": "look"}
ASK = {"id": "ask", "type": "condition", "condition": "$begin.output == 'open'"}
NAMING: dict[str, Steps] = {
    "then": [BEGIN, {**ASK, "then": "accept", "otherwise": "refuse"}],
    "otherwise": [BEGIN, {**ASK, "then": "refuse", "otherwise": "accept"}],
    "case": [
        BEGIN,
        {
            "id": "ask",
            "type": "condition",
            "cases": [{"when": "$begin.output == 'open'", "then": "accept"}],
            "otherwise": "refuse",
        },
    ],
    "error_step": [{"id": "begin", "type": "tool", "tool": "book", "error_step": "accept", "next_step": "refuse"}],
    "catch": [
        {
            "id": "begin",
            "type": "tool",
            "tool": "book",
            "catch": [{"errors": ["closed"], "then": "accept"}],
            "next_step": "refuse",
        }
    ],
}
"""Each way to name an arm, `accept`; the other way out leads to `refuse`."""

SET = {"id": "accept", "type": "set", "set": {"accepted": True}}
ONCE = [{"id": "inner_pay", "type": "tool", "tool": "pay"}]
ARMS: dict[str, Data] = {
    "set": SET,
    "for_each": {"id": "accept", "type": "for_each", "items": [1, 2], "as": "one", "steps": ONCE},
    "branches": {"id": "accept", "type": "parallel", "branches": {"left": {"steps": ONCE}}},
}
RECORD = {"id": "record", "type": "tool", "tool": "pay"}
ENDS: dict[str, Data] = {
    "end": {"id": "refuse", "type": "end"},
    "failure": {"id": "refuse", "type": "end", "outcome": "failure"},
}
POLL: Steps = [
    {**BEGIN, "id": "poll", "max_visits": 3},
    {"id": "is_paid", "type": "condition", "condition": "$poll.output == 'paid'", "then": "paid", "otherwise": "poll"},
    {"id": "paid", "type": "end"},
]


def mistakes() -> dict[str, tuple[str, Steps]]:
    """Return lists with one mistake each, with its code: arms of every kind, above what nothing reaches, or unclear."""
    found = {
        f"SW102 {naming} {arm} {end}": ("SW102", [*NAMING[naming], ARMS[arm], RECORD, ENDS[end]])
        for naming in NAMING
        for arm in ARMS
        for end in ENDS
        if naming == "then" or (arm == "set" and end == "failure")
    }
    return {**found, "SW106": ("SW106", POLL)}


MISTAKES = mistakes()

# -- the lists that a program can have ---------------------------------------------------------------------------------


def program(steps: Steps, **more: Any) -> Data:
    return {"language": 2, "name": "x", "inputs": {}, "tools": TOOLS, "max_steps": 500, **more, "steps": steps}


def each(steps: Steps, id: str = "each") -> Data:
    return {"id": id, "type": "for_each", "items": [1, 2], "as": f"{id}_item", "steps": steps}


def branches(steps: Steps) -> Data:
    other = [{"id": "beside", "type": "tool", "tool": "look"}]
    return {"id": "fork", "type": "parallel", "branches": {"one": {"steps": other}, "two": {"steps": steps}}}


def call(id: str) -> Data:
    return {"id": id, "type": "call", "program": "inner"}


def called(steps: Steps) -> Data:
    return {"inner": {"name": "inner", "inputs": {}, "tools": TOOLS, "steps": steps}}


PLACES: dict[str, Callable[[Steps], Data]] = {
    "own list": program,
    "own list, beside a body": lambda steps: program([each([{**BEGIN, "id": "before"}]), *steps]),
    "for_each": lambda steps: program([each(steps)]),
    "branch": lambda steps: program([branches(steps)]),
    "called": lambda steps: program([call("first")], programs=called(steps)),
    "called twice": lambda steps: program([call("first"), call("second")], programs=called(steps)),
    "for_each in for_each": lambda steps: program([each([each(steps, "inside")])]),
    "branch in for_each": lambda steps: program([each([branches(steps)])]),
    "for_each in branch": lambda steps: program([branches([each(steps)])]),
    "for_each in called": lambda steps: program([call("first")], programs=called([each(steps)])),
    "called in for_each": lambda steps: program([each([call("first")])], programs=called(steps)),
}

# -- texts -------------------------------------------------------------------------------------------------------------


def commented(data: Data) -> str:
    """Return YAML in which every line with a short value has a comment of its own."""
    lines = yaml.safe_dump(data, sort_keys=False).splitlines()
    return "".join(f"{line}  # note {number}\n" for number, line in enumerate(lines))


FORMATS: dict[str, Callable[[Data], str]] = {
    "x.yaml": commented,
    "x.json": lambda data: json.dumps(data, indent=2) + "\n",
    "x.py": lambda data: f"from stepward.vm import Program\n\nPROGRAM = Program.from_dict({data!r})  # ours\n",
}


def findings(text: str, file: str) -> list[Finding]:
    run = Run(Configurations(Overrides(ignore=("SW2", "SW4", "SW6")), is_isolated=True), with_fixes=True)
    run.check_text(text.encode(), file)
    return list(run.result().findings)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("place", PLACES)
def test_an_edit_is_made_in_every_list(place: str, mistake: str) -> None:
    code, steps = MISTAKES[mistake]
    own = [one.fix for one in findings(FORMATS["x.json"](program(steps)), "x.json") if one.code == code]
    for file, written in FORMATS.items():
        text = written(PLACES[place](steps))
        before = findings(text, file)
        (finding,) = [one for one in before if one.code == code]
        assert finding.fix is not None, file
        assert [finding.fix.title] == [fix.title for fix in own if fix is not None], "as in the program's own list"
        for words in re.findall(r"`(\w+: \w+)`", finding.fix.title):
            assert f"`{words}`" in finding.help, "the help and the edit say the same"
        fixed = apply_edits(text, list(finding.fix.edits))
        assert re.findall("# .*", fixed) == re.findall("# .*", text), "comments are kept"
        assert [one.code for one in findings(fixed, file)] == [one.code for one in before if one is not finding]


def test_a_text_of_a_called_program_is_left_to_the_author() -> None:
    """The check reads such a text under other names, so that no offset in it is right; a misspelt target is mended."""
    steps = [{**ASK, "condition": "$begn.output == 'open'", "then": "acept", "otherwise": "refuse"}, SET]
    text = FORMATS["x.json"](PLACES["called"]([BEGIN, *steps, ENDS["end"]]))
    run = Run(Configurations(Overrides(select=("SW1", "SW2"), ignore=("SW212",)), is_isolated=True), with_fixes=True)
    run.check_text(text.encode(), "x.json")
    found = {one.code: one for one in run.result().findings}
    assert found["SW201"].fix is None
    assert "`$begin.output`" in found["SW201"].help
    mended = found["SW101"].fix
    assert mended is not None
    assert apply_edits(text, list(mended.edits)) == text.replace('"acept"', '"accept"')


def test_a_called_file_is_mended_where_it_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    _, steps = MISTAKES["SW102 then set failure"]
    Path("inner.json").write_text(json.dumps(program(steps)))
    Path("outer.json").write_text(json.dumps(program([call("first")], programs={"inner": {"file": "inner.json"}})))
    before = Path("outer.json").read_text()
    told = check("--isolated", "--select=SW102", "--fix", "outer.json")
    assert ("no path leads to step `record`" in told.stdout, told.stderr) == (True, "nothing fixed\n")
    assert check("--isolated", "--select=SW102", "--fix", "inner.json").stderr == "fixed 1 finding in 1 file\n"
    assert check("--isolated", "--select=SW102", "outer.json").exit_code == 0
    assert Path("outer.json").read_text() == before
