"""Fast: programs that are called: the loader's messages, files, and what a program that calls holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stepward.vm import Program
from stepward.vm.errors import Problem, ProgramError
from stepward.vm.language import called_files, refused_calls

END: dict[str, Any] = {"id": "z", "type": "end", "output": "$x"}
NUMBER = {"type": "number"}


def call(**more: Any) -> dict[str, Any]:
    return {"id": "c", "type": "call", "program": "p", "args": {"x": 1}, **more}


def data(*steps: dict[str, Any], p: Any = None, **more: Any) -> dict[str, Any]:
    listed = {"p": {"inputs": {"x": NUMBER}, "steps": [END]} if p is None else p}
    return {"name": "t", "language": 2, "inputs": {}, "programs": listed, "steps": list(steps) or [call()], **more}


def problem(given: dict[str, Any]) -> Problem:
    with pytest.raises(ProgramError) as caught:
        Program.from_dict(given)
    return caught.value.problems[0]


def calling(name: str) -> dict[str, Any]:
    return {"steps": [{"id": "c", "type": "call", "program": name}]}


def deep(count: int) -> dict[str, Any]:
    listed = {f"p{number}": calling(f"p{number + 1}") for number in range(count)}
    return {**data({"id": "c", "type": "call", "program": "p0"}), "programs": {**listed, f"p{count}": {"steps": [END]}}}


def wide(count: int) -> dict[str, Any]:
    step = {"type": "call", "args": {}}
    listed = {f"p{n}": {"steps": [{"id": one, "program": f"p{n + 1}", **step} for one in "ab"]} for n in range(count)}
    return {**data({"id": "c", "program": "p0", **step}), "programs": {**listed, f"p{count}": {"steps": [END]}}}


MISTAKES = {
    "unknown": (data(call(program="q")), "SW110", "`c` calls `q`, which `programs` does not list"),
    "none": ({"name": "t", "language": 2, "steps": [call()]}, "SW110", "`c` calls `p`, which `programs` does not list"),
    "itself": (data(p=calling("p")), "SW110", "`p` calls itself: `p` → `p`"),
    "a circle": (data(programs={"p": calling("q"), "q": calling("p")}), "SW110", "`p` calls itself: `p` → `q` → `p`"),
    "no language": ({**data(), "language": 1}, "SW002", "the step type `call` needs language 2"),
    "language 1": (data(p={"language": 1, "steps": [END]}), "SW002", "`language` can't be `1`"),
    "no program": ({**data(), "steps": [{"id": "c", "type": "call"}]}, "SW002",
                   "`program` is missing in this call step"),
    "a mixed text": (data(call(args={"x": "no $x"})), "SW002", "the argument `x` is a text with references in it"),
    "a mark": (data(call(returns={"sensitive": True})), "SW002", "`returns` of a call can't mark a value as sensitive"),
    "steps": (data(call(steps=[END])), "SW002", "`steps` does not belong to this call step"),
    "a budget": (data(p={"max_steps": 3, "steps": [END]}), "SW002",
                 "`max_steps` of the called program `p` has no effect"),
    "a file": (data(p={"file": "p.yaml"}), "SW110", "a program without a file of its own can't name files"),
    "a field": (data(p={"steps": [{**END, "promt": ""}]}), "SW002", "unknown field `promt` in this end step"),
    "too deep": (deep(refused_calls.MAX_DEPTH), "SW004", "programs call one another more than 30 deep"),
    "far too deep": (deep(3000), "SW004", "programs call one another more than 30 deep"),
    "too many": (wide(20), "SW004", "3,145,727 steps, those of all calls included; 250,000 are the limit"),
    "a letter": (data(p={"steps": [{**END, "id": "\u3164"}]}), "SW002", "the letter U+3164 can't stand in a program"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_said_in_words(name: str) -> None:
    given, code, message = MISTAKES[name]
    found = problem(given)
    assert (found.code, message in found.message) == (code, True), found.message
    assert found.help


def test_a_program_that_is_just_deep_enough_is_fine() -> None:
    assert len(Program.from_dict(deep(refused_calls.MAX_DEPTH - 1)).layout.steps) > refused_calls.MAX_DEPTH


def test_a_mistake_in_a_called_program_is_reported_where_it_is() -> None:
    assert problem(MISTAKES["a field"][0]).place.path == ("programs", "p", "steps", 0, "promt")


def test_names_of_an_inner_program_win_over_outer_ones() -> None:
    inner = {"programs": {"q": {"steps": [{**END, "id": "inner"}]}}, **calling("q")}
    made = Program.from_dict({**data(), "programs": {"p": {"inputs": {"x": NUMBER}, **inner}, "q": {"steps": [END]}}})
    assert "c/c/inner" in [step.id for step in made.layout.steps]


# -- files -------------------------------------------------------------------------------------------------------------


def project(folder: Path, **files: Any) -> Path:
    """Write a project with a caller in `flows`, and the given files by paths below it."""
    (folder / "stepward.toml").write_text("")
    (folder / "flows").mkdir()
    for name, content in files.items():
        (folder / "flows" / f"{name}.json").write_text(content if isinstance(content, str) else json.dumps(content))
    return folder / "flows" / "top.json"


CHARGE: dict[str, Any] = {"name": "charge", "language": 2, "inputs": {"x": NUMBER}, "max_steps": 9, "steps": [END]}


def refused(top: Path) -> str:
    with pytest.raises(ProgramError) as caught:
        Program.load(top)
    assert caught.value.problems[0].place.path[:2] == ("programs", "p")
    return caught.value.problems[0].message


def test_a_file_is_part_of_the_program(tmp_path: Path) -> None:
    """So the document, and its digest, has its content; budgets of a file are for runs of its own."""
    top = project(tmp_path, top=data(p={"file": "charge.json"}), charge=CHARGE)
    made = Program.load(top)
    (called,) = (made.programs or {}).values()
    assert (called.file, called.name, called.max_steps) == ("flows/charge.json", "charge", 9)
    (top.parent / "charge.json").write_text(json.dumps({**CHARGE, "steps": [{**END, "output": 7}]}))
    assert Program.load(top).to_json() != made.to_json()
    assert Program.from_json(made.to_json()) == made


def test_files_name_others_beside_themselves(tmp_path: Path) -> None:
    inner = {**CHARGE, "programs": {"p": {"file": "../flows/other.json"}}, "steps": [call(args={"x": "$x"})]}
    top = project(tmp_path, top=data(p={"file": "charge.json"}), charge=inner, other=CHARGE)
    assert "c/c/z" in [step.id for step in Program.load(top).layout.steps]


FILES = {
    "gone": ({"p": "gone.json"}, {}, "`gone.json` can't be read"),
    "absolute": ({"p": "/charge.json"}, {}, "`/charge.json` is no relative path"),
    "outside": ({"p": "../../charge.json"}, {}, "`../../charge.json` is outside of the project"),
    "itself": ({"p": "top.json"}, {}, "`top.json` calls itself: the file is read within itself"),
    "no inputs": ({"p": "charge.json"}, {"inputs": None}, "`charge.json` does not say its `inputs`"),
    "language 1": ({"p": "charge.json"}, {"language": None}, "`charge.json` is not of language 2"),
    "broken": ({"p": "broken.json"}, {}, "`broken.json`: "),
    "a list": ({"p": "list.json"}, {}, "`list.json` holds no program"),
    "two": ({"p": "two.yaml"}, {}, "`two.yaml` holds 2 programs, not one"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_can_not_be_called_is_refused(name: str, tmp_path: Path) -> None:
    listed, changes, message = FILES[name]
    charge = {key: value for key, value in {**CHARGE, **changes}.items() if value is not None}
    top = project(tmp_path, top=data(p={"file": listed["p"]}), charge=charge, broken="{", list="[]")
    (top.parent / "two.yaml").write_text("a: 1\n---\nb: 2\n")
    assert refused(top).startswith(message)


def test_a_link_leads_nowhere_out_of_the_project(tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_text(json.dumps(CHARGE))
    (tmp_path / "inside").mkdir()
    top = project(tmp_path / "inside", top=data(p={"file": "link.json"}))
    (top.parent / "link.json").symlink_to(tmp_path / "secret.json")
    assert refused(top) == "`link.json` is outside of the project"


def test_nothing_stands_beside_a_file(tmp_path: Path) -> None:
    top = project(tmp_path, top=data(p={"file": "charge.json", "steps": [END]}), charge=CHARGE)
    assert refused(top) == "`steps` stands beside `file`"


def test_files_are_read_only_so_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(called_files, "MAX_FILES", 3)
    inner = {**CHARGE, "programs": {"p": {"file": "other.json"}, "q": {"file": "other.json"}}}
    listed = {"p": {"file": "charge.json"}, "q": {"file": "charge.json"}}
    top = project(tmp_path, top={**data(), "programs": listed}, charge=inner, other=CHARGE)
    assert refused_at_all(top) == "the program reads more than 3 files, counted as often as they are named"


def refused_at_all(top: Path) -> str:
    with pytest.raises(ProgramError) as caught:
        Program.load(top)
    return caught.value.problems[0].message


def test_a_text_can_name_no_file_although_one_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a model sends over MCP is a text with the name of a file: it must not read files of the operator."""
    top = project(tmp_path, top=data(p={"file": "charge.json"}), charge=CHARGE)
    monkeypatch.chdir(top.parent)
    with pytest.raises(ProgramError, match="a program without a file of its own can't name files"):
        Program.from_json(top.read_text(), "top.json")
