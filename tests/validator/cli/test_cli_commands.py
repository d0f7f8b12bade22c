"""Fast: the other commands: explain, schema, graph, completion, version."""

from __future__ import annotations

import json
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import click
import jsonschema
import pytest
from click.testing import CliRunner, Result

from paths import ROOT
from stepward.validator.cli import main
from stepward.validator.rules.registry import RULES
from stepward.validator.schema import json_schema
from stepward.vm import ProgramError
from stepward.vm.reading.files import read_file

PROGRAM = "name: {}\ninputs: {{}}\nsteps:\n  - {{id: a, type: llm, prompt: x}}\n  - {{id: b, type: end}}\n"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


# -- explain -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_explain_prints_the_documentation_of_every_rule(rule: Any) -> None:
    for word in (rule.code, rule.code.lower(), rule.name):
        result = run("explain", word)
        assert result.exit_code == 0
        assert result.stdout == f"{rule.code} {rule.name} ({rule.severity})\n\n{rule.documentation()}\n"


def test_explain_without_a_code_lists_them_all() -> None:
    lines = run("explain").stdout.splitlines()
    assert len(lines) == len(RULES)
    assert lines[0].split() == ["SW001", "error", "unreadable"]
    assert "SW108  warning  same-branches" in lines


def test_explain_of_an_unknown_code_offers_the_nearest() -> None:
    result = run("explain", "SW41")
    assert result.exit_code == 2
    assert "`SW41` is not a code; did you mean `SW4" in result.stderr
    assert "`stepward explain` lists all codes" in run("explain", "zzz").stderr


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["baseline"], "`stepward check --write-baseline FILE`"),
        (["policies"], "`stepward check --policy FILE`"),
        (["resume", "r1.x"], "`stepward runs resume`"),
        (["chekc"], "did you mean `stepward check`?"),
        (["zzz"], "`stepward --help` lists all commands"),
        (["explain", "baseline"], "`stepward check --write-baseline FILE`"),
        (["explain", "Policy"], "`stepward check --policy FILE`"),
    ],
)
def test_the_command_that_is_meant_is_named(words: list[str], meant: str) -> None:
    result = run(*words)
    assert (result.exit_code, meant in result.stderr) == (2, True), result.stderr


# -- schema ------------------------------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """Return data as a JSON reader of other makers has it."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return float(value) if isinstance(value, Decimal) else value


def validator(kind: str) -> jsonschema.Draft202012Validator:
    schema = json.loads(run("schema", kind).stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_the_schema_is_printed_with_its_dialect_and_title() -> None:
    for kind, arguments in (
        ("program", ["schema"]),
        ("program", ["schema", "program"]),
        ("policy", ["schema", "policy"]),
    ):
        schema = json.loads(run(*arguments).stdout)
        assert schema == json_schema(kind)
        assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
        assert kind in schema["$id"]
        assert schema["title"] == f"Stepward {kind}"
    assert run("schema", "step").exit_code == 2


def test_the_schema_admits_every_good_program_and_every_policy() -> None:
    programs = list((ROOT / "specs/programs/good").glob("*.[yj]*"))
    policies = list((ROOT / "specs/policies").glob("*.yaml"))
    assert len(programs) > 20
    assert len(policies) > 3
    for kind, paths in (("program", programs), ("policy", policies)):
        check = validator(kind)
        for path in paths:
            for document in read_file(path):
                assert list(check.iter_errors(plain(document.data))) == [], path


def test_the_schema_refuses_what_is_misspelt_missing_or_ill_typed() -> None:
    refused = 0
    check = validator("program")
    for path in sorted((ROOT / "specs/programs/bad/SW002").glob("*.[yj]*[nl]")):
        try:
            documents = read_file(path)
        except ProgramError:
            continue
        refused += any(not check.is_valid(plain(document.data)) for document in documents)
    assert refused >= 6
    program = {"name": "p", "steps": [{"id": "a", "type": "end"}]}
    assert check.is_valid(program)
    assert not check.is_valid({**program, "max_steps": None})
    assert not check.is_valid({**program, "nope": 1})
    assert not check.is_valid({**program, "steps": []})
    for step in ({"condition": "$x", "cases": [{"when": "$x", "then": "a"}]}, {"then": "a"}):
        assert not check.is_valid({**program, "steps": [{"id": "c", "type": "condition", **step}]})


def test_the_schema_of_a_policy_admits_the_bare_name_of_a_tool() -> None:
    check = validator("policy")
    assert check.is_valid({"policy": "p", "allow": ["look", {"tool": "pay", "when": "$args.n < 3"}]})
    assert not check.is_valid({"policy": "p", "allow": [3]})


def test_the_schema_describes_its_fields_and_says_no_null() -> None:
    schema = json_schema("program")
    text = json.dumps(schema)
    assert '{"type": "null"}' not in text
    assert schema["properties"]["steps"]["description"]
    assert schema["$defs"]["ToolStep"]["properties"]["error_step"]["description"]
    assert "description" not in schema["$defs"]["Sequence"]["properties"]["then"]


# -- graph -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.yaml").write_text(PROGRAM.format("first"))
    Path("two.yaml").write_text(PROGRAM.format("first") + "---\n" + PROGRAM.format("second"))


@pytest.mark.usefixtures("_in_a_folder_of_its_own")
@pytest.mark.parametrize(
    ("name", "start"), [("p.svg", b"<?xml"), ("p.png", b"\x89PNG"), ("p.dot", b"digraph"), ("p.gv", b"digraph")]
)
def test_a_graph_is_written_in_the_format_of_its_suffix(name: str, start: bytes) -> None:
    result = run("graph", "p.yaml", "-o", name)
    assert (result.exit_code, result.output) == (0, "")
    assert Path(name).read_bytes().startswith(start)


@pytest.mark.usefixtures("_in_a_folder_of_its_own")
def test_the_format_can_be_said_and_the_output_be_a_pipe() -> None:
    assert run("graph", "p.yaml").stdout.startswith("digraph")
    assert run("graph", "p.yaml", "--format=svg").stdout.startswith("<?xml")
    assert run("graph", "p.yaml", "-o", "picture", "--format=svg").exit_code == 0
    assert Path("picture").read_bytes().startswith(b"<?xml")


@pytest.mark.usefixtures("_in_a_folder_of_its_own")
def test_of_several_programs_one_is_named() -> None:
    result = run("graph", "two.yaml")
    assert result.exit_code == 2
    assert "name one with `--program`: `first`, `second`" in result.stderr
    assert "second" in run("graph", "two.yaml", "--program=second").stdout
    assert "it holds `first`, `second`" in run("graph", "two.yaml", "--program=third").stderr


@pytest.mark.usefixtures("_in_a_folder_of_its_own")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["none.yaml"], "no such file"),
        (["p.yaml", "-o", "picture.jpeg"], "does not end in .svg, .png, .dot or .mmd"),
        (["p.yaml", "-o", "none/p.svg"], "can't be written"),
        (["bad.yaml"], "`steps` is missing"),
        (["broken.yaml"], "not readable as YAML"),
        (["."], "directory"),
    ],
)
def test_what_can_not_be_drawn_exits_with_2(arguments: list[str], says: str) -> None:
    Path("bad.yaml").write_text("inputs: {}\n")
    Path("broken.yaml").write_text("a: [\n")
    result = run("graph", *arguments)
    assert result.exit_code == 2
    assert says in result.stderr


# -- the rest ----------------------------------------------------------------------------------------------------------


def test_the_version_is_that_of_the_distribution() -> None:
    from importlib.metadata import version

    assert run("--version").stdout == f"stepward {version('stepward')}\n"


def test_help_lists_every_command_and_every_option_has_a_help() -> None:
    assert run("--help").exit_code == 0
    context = click.Context(main)
    assert len(main.list_commands(context)) == 23
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        assert name in run("--help").stdout
        assert run(name, "-h").exit_code == 0
        assert command.help
        for parameter in command.params:
            assert parameter.param_type_name == "argument" or getattr(parameter, "help", None), parameter.name


@pytest.mark.parametrize(
    ("shell", "sign"), [("bash", "complete -o nosort"), ("zsh", "#compdef"), ("fish", "complete ")]
)
def test_the_completion_script_is_that_of_the_shell(shell: str, sign: str) -> None:
    result = run("completion", shell)
    assert result.exit_code == 0
    assert sign in result.stdout
    assert "_STEPWARD_COMPLETE" in result.stdout


def test_the_command_completes_its_commands_and_options() -> None:
    def completed(*words: str) -> set[str]:
        environment = {"_STEPWARD_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(words),
                       "COMP_CWORD": str(len(words) - 1), "PATH": ""}  # fmt: skip
        command = [str(Path(sys.executable).parent / "stepward")]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return {line.partition(",")[2] for line in done.stdout.splitlines()}

    assert completed("stepward", "ch") == {"check"}
    assert "--write-baseline" in completed("stepward", "check", "--w")
