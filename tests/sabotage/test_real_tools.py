"""The user's own tools under attack: planted mistakes are found, good tools are not accused, nothing gets out."""

from __future__ import annotations

import json
import os
import platform
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from paths import DATA
from stepward.sabotage.real import isolation
from stepward.sabotage.real.campaign import Orders, ToolMatrix, attack_tools
from stepward.sabotage.real.isolation import IsolationError
from stepward.sabotage.real.questions import QUESTIONS
from stepward.sabotage.real.sandbox import CaseFailed, Sandbox, ToolsRefused
from stepward.sabotage.real.study import ToolOutcome
from stepward.sabotage.real.subjects import subjects
from stepward.validator.cli import main
from stepward.vm import Program
from stepward.vm.machine.plan import Plan

TOOLS = DATA / "real_tools"
AMOUNT = {"amount": {"type": "integer", "minimum": 1, "maximum": 200}}
ONCE = {"effect": "write", "idempotent": True, "args": AMOUNT}
WRITE = {"effect": "write", "args": AMOUNT}
READ: dict[str, Any] = {"effect": "read"}
AMOUNTS = {"amounts": {"type": "array", "items": {"type": "integer", "minimum": 0}}}

NEED_NOTHING = ("test_without_linux", "test_a_processor", "test_inputs", "test_undeclared")


@pytest.fixture(scope="module")
def why_not() -> str | None:
    """Why this kernel grants no namespaces; None where it does."""
    try:
        Sandbox("json").close()
    except IsolationError as error:
        return str(error)
    return None


@pytest.fixture(autouse=True)
def _where_it_can_be_had(request: pytest.FixtureRequest, why_not: str | None) -> None:
    if why_not is not None and not request.node.name.startswith(NEED_NOTHING):
        pytest.skip(why_not)


GOOD: dict[str, dict[str, Any]] = {
    "book": {**ONCE, "returns": {"type": "string"}},
    "set_limit": {**ONCE, "returns": {"type": "null"}},
    "insert": {**ONCE, "returns": {"type": "integer"}},
    "send": {**ONCE, "returns": {"type": "string"}},
    "pay": {**WRITE, "returns": {"type": "string"}},
    "refuse_large": {**WRITE, "returns": {"enum": ["done"]}},
    "load": {**READ, "returns": {"type": "object", "properties": {"lines": {"type": "integer"}}}},
    "largest": {"effect": "none", "args": AMOUNTS, "returns": {"type": "integer"}},
}

BAD: dict[str, tuple[dict[str, Any], set[str]]] = {
    "wrong_type": ({**READ, "returns": {"type": "string"}}, {"output-fits-its-type"}),
    "no_value": (READ, {"output-fits-its-type"}),
    "asks_somebody": (READ, {"output-fits-its-type"}),
    "sorts_in_place": ({**READ, "args": AMOUNTS}, {"arguments-are-kept"}),
    "fills_in": ({**READ, "args": {"order": {"type": "object"}}}, {"arguments-are-kept"}),
    "logs_elsewhere": (READ, {"read-writes-nothing"}),
    "leaves_a_file": (READ, {"read-writes-nothing"}),
    "deletes_on_a_server": ({"effect": "none"}, {"read-writes-nothing"}),
    "appends": (ONCE, {"one-key-acts-once", "late-key-acts-once"}),
    "new_id_each_time": (ONCE, {"one-key-acts-once"}),
    "refuses_its_key": (ONCE, {"one-key-acts-once", "late-key-acts-once"}),
    "looks_then_acts": (ONCE, {"late-key-acts-once", "failure-leaves-nothing"}),
    "marks_then_acts": (ONCE, {"late-key-acts-once", "failure-leaves-nothing"}),
    "raises_afterwards": (WRITE, {"failure-leaves-nothing"}),
    "tells_somebody_afterwards": (WRITE, {"failure-leaves-nothing"}),
}
"""Planted mistakes: the manifest of each tool, and the questions that have to find it, and no other."""

UNSEEN: dict[str, dict[str, Any]] = {
    "runs_a_program": READ,
    "calls_c": READ,
    "writes_json": READ,
}


def program(tools: Mapping[str, Mapping[str, Any]]) -> Program:
    """Return a program that calls each tool with inputs of the same names."""
    steps = [
        {"id": f"step_{name}", "type": "tool", "tool": name, "args": {arg: f"${arg}" for arg in spec.get("args", {})}}
        for name, spec in tools.items()
    ]
    inputs = {arg: kind for spec in tools.values() for arg, kind in spec.get("args", {}).items()}
    return Program.from_dict({"name": "shop", "inputs": inputs, "tools": dict(tools), "steps": steps})


def campaign(tools: Mapping[str, Mapping[str, Any]], module: str, probe: str | None = None) -> ToolMatrix:
    file = str(TOOLS / f"{module}.py")
    with Sandbox(file, None if probe is None else f"{file}:{probe}") as sandbox:
        return attack_tools(program(tools), sandbox, orders=Orders(seed=1, examples=4))


def outcomes(matrix: ToolMatrix) -> dict[tuple[str, str], str]:
    return {(row.tool, row.question.name): f"{row.verdict.outcome}: {row.verdict.why}" for row in matrix.rows}


# -- what is found -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bad() -> ToolMatrix:
    return campaign({name: spec for name, (spec, _) in BAD.items()} | UNSEEN, "bad")


@pytest.mark.slow
def test_every_planted_mistake_is_found_and_nothing_else_is_said_of_it(bad: ToolMatrix) -> None:
    found: dict[str, set[str]] = {name: set() for name in BAD}
    for row in bad.of(ToolOutcome.BREACHED):
        found[row.tool].add(row.question.name)
        assert row.verdict.story, "a breach has its case"
    assert found == {name: questions for name, (_, questions) in BAD.items()}
    assert not bad.of(ToolOutcome.UNCONFIRMED)
    assert {question.name for question in QUESTIONS} == set().union(*found.values()), "each question finds something"


@pytest.mark.slow
def test_what_a_process_or_c_does_is_not_observed(bad: ToolMatrix) -> None:
    rows = outcomes(bad)
    assert rows["runs_a_program", "read-writes-nothing"].startswith("not_observed: it starts a process")
    assert rows["calls_c", "read-writes-nothing"].startswith("not_observed: it leaves Python for C")
    assert rows["writes_json", "read-writes-nothing"].startswith("not_observed: it loads `orjson")
    assert rows["runs_a_program", "output-fits-its-type"].startswith("held")


@pytest.mark.slow
def test_good_tools_are_not_accused() -> None:
    rows = outcomes(campaign(GOOD, "good"))
    wrong = {key: words for key, words in rows.items() if not words.startswith("held")}
    assert wrong == {}
    assert len(rows) == len(GOOD) + 1 + 2 + 2 * 4 + 6  # outputs, lists, reads, keys twice and late, failing writes


@pytest.mark.slow
def test_a_probe_sees_what_the_folder_does_not() -> None:
    tools = {"charge": ONCE, "charge_again": ONCE}
    rows = outcomes(campaign(tools, "bad", "charges"))
    assert rows["charge", "one-key-acts-once"].startswith("held")
    assert rows["charge", "late-key-acts-once"].startswith("breached: a time-out and a second delivery")
    assert rows["charge_again", "one-key-acts-once"].startswith("breached: it is declared idempotent, and acts again")
    assert "the probe returned `1`, then `2`" in rows["charge_again", "one-key-acts-once"]
    unseen = outcomes(campaign(tools, "bad"))
    assert unseen["charge_again", "one-key-acts-once"].startswith("not_observed: what it does leaves no file")
    good = outcomes(campaign({"take": {**ONCE, "returns": {"type": "integer"}}}, "good", "taken"))
    assert [words.split(":")[0] for words in good.values()] == ["held", "held", "held", "not_run"]


# -- what the tools are kept from --------------------------------------------------------------------------------------

ESCAPES = """
import os, pathlib, socket, subprocess
HERE = pathlib.Path(__file__).parent

def loopback(port):
    return socket.create_connection(("127.0.0.1", port), 2) is not None

def by_a_process(port):
    code = f"import socket; socket.create_connection(('127.0.0.1', {port}), 2)"
    return subprocess.run(["python3", "-c", code], capture_output=True).returncode == 0

def socket_file(path):
    out = socket.socket(socket.AF_UNIX)
    out.connect(path)
    return True

def write_beside():
    (HERE / "written").write_text("x")

def write_here():
    pathlib.Path("written").write_text("x")
    return [os.getcwd() == os.environ["HOME"], pathlib.Path(os.environ["TMPDIR"]).parent == pathlib.Path.cwd()]

def processes():
    return [os.getpid(), len([name for name in os.listdir("/proc") if name.isdigit()]) > 0]

def stays_behind(path):
    code = f"import time; open({path!r}, 'a'); time.sleep(60)"
    os.setsid() if os.fork() else subprocess.Popen(["python3", "-c", code], start_new_session=True)
    return True

def endless():
    import time
    while True:
        time.sleep(1)
"""


def call(sandbox: Sandbox, tool: str, **args: Any) -> dict[str, Any]:
    return sandbox.play([{"do": "call", "tool": tool, "args": args}])[0]


@pytest.fixture
def escapes(tmp_path: Path) -> Iterator[Sandbox]:
    (tmp_path / "escapes.py").write_text(ESCAPES)
    with Sandbox(str(tmp_path / "escapes.py"), seconds=2) as sandbox:
        yield sandbox


def test_no_tool_reaches_a_network(escapes: Sandbox, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as file:
        port, path = server.getsockname()[1], str(tmp_path / "socket")
        file.bind(path)
        file.listen()
        with socket.create_connection(("127.0.0.1", port), 2):
            assert server.accept(), "out here it can be reached"
        assert "unreachable" in call(escapes, "loopback", port=port)["error"]
        assert call(escapes, "by_a_process", port=port)["value"] == "false"
        assert "PermissionError" in call(escapes, "socket_file", path=path)["error"]


def test_nothing_of_the_current_folder_is_imported_before_the_network_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("json", "platform", "stepward", "shop"):
        code = f"open({str(tmp_path / 'imported')!r}, 'w')\n" if name != "shop" else "def sell():\n    return 1\n"
        (tmp_path / f"{name}.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    with Sandbox("shop") as sandbox:
        assert call(sandbox, "sell")["value"] == "1"
    assert not (tmp_path / "imported").exists()


def test_a_tool_writes_in_its_own_folder_only(escapes: Sandbox, tmp_path: Path) -> None:
    assert "Read-only file system" in call(escapes, "write_beside")["error"]
    assert not (tmp_path / "written").exists()
    assert call(escapes, "write_here")["value"] == "[true, true]"
    assert call(escapes, "write_here")["outcome"] == "returned"
    assert not Path("written").exists()


def test_nothing_is_left_of_a_case(escapes: Sandbox) -> None:
    assert call(escapes, "write_here")["outcome"] == "returned"
    looked = escapes.play([{"do": "look"}])[0]
    assert looked["files"] == {}, "the next case begins in an empty folder"
    with pytest.raises(CaseFailed, match="took longer than 2 seconds"):
        call(escapes, "endless")
    assert call(escapes, "write_here")["outcome"] == "returned"


def test_all_processes_end_with_the_sandbox(tmp_path: Path) -> None:
    (tmp_path / "escapes.py").write_text(ESCAPES)
    with Sandbox(str(tmp_path / "escapes.py")) as sandbox:
        folder = sandbox._folder
        call(sandbox, "write_here")
        assert processes_with(folder), "its processes have the folder among their arguments"
    for _ in range(100):
        if not processes_with(folder):
            break
        threading.Event().wait(0.05)
    assert processes_with(folder) == []
    assert not Path(folder).exists()


def processes_with(text: str) -> list[str]:
    found = []
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and text in Path(f"/proc/{name}/cmdline").read_text():
                found.append(name)
        except OSError:
            continue
    return found


# -- where it can't be had ---------------------------------------------------------------------------------------------


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.yaml").write_text(program({"charge": ONCE}).to_yaml())
    code = (TOOLS / "bad.py").read_text()
    (tmp_path / "shop_tools.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w')\n" + code)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["sabotage", "shop.yaml", "--isolated", "--seed", "1", *arguments])


REAL = ("--call-real-tools", "--tools", "shop_tools.py")


def test_without_linux_no_tool_is_called(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation.sys, "platform", "darwin")
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    result = run(*REAL)
    assert result.exit_code == 2
    assert "it takes network namespaces of Linux, and this is Darwin" in result.stderr
    assert "no tool was called" in result.stderr
    assert not (shop / "imported").exists()


@pytest.mark.skipif(shutil.which("unshare") is None, reason="there is no unshare here")
def test_without_network_namespaces_no_tool_is_called(shop: Path) -> None:
    command = "echo 0 > /proc/sys/user/max_net_namespaces && exec {} sabotage shop.yaml {}"
    text = command.format(Path(sys.executable).with_name("stepward"), " ".join(REAL))
    done = subprocess.run(["unshare", "-Ur", "sh", "-c", text], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "tools can't be separated from the network here: no namespaces: unshare" in done.stderr
    assert not (shop / "imported").exists()


def test_a_processor_without_a_filter_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "s390x")
    with pytest.raises(IsolationError, match="`s390x`"):
        Sandbox("json")


# -- the command -------------------------------------------------------------------------------------------------------


@pytest.fixture
def quiet_shop(shop: Path) -> Path:
    shutil.copy(TOOLS / "bad.py", shop / "shop_tools.py")
    return shop


def test_the_command_tells_a_breach(quiet_shop: Path) -> None:
    result = run(*REAL, "--probe", "shop_tools.py:charges", "--examples", "2", "--details")
    assert result.exit_code == 1, result.output
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["tool", *(lines[0].split()[1:])]
    assert lines[1].split() == ["charge", "held", "held", "breached", "not", "run"]
    assert "breached[late-key-acts-once] `charge`" in result.stdout
    assert "held: 2 keys were delivered twice, and acted once\n  `charge`: one-key-acts-once\n" in result.stdout
    assert lines[-1].startswith("1 breach, 1 not run: 2 of 4 questions held, 1 tool of `shop`, ")


def test_json_and_junit_say_the_same(quiet_shop: Path) -> None:
    arguments = (*REAL, "--probe", "shop_tools.py:charges", "--examples", "2", "--output-file", "report")
    assert run(*arguments, "--output-format", "json").exit_code == 1
    data = json.loads(Path("report").read_text())
    assert data["version"] == 1
    assert [entry["outcome"] for entry in data["questions"]] == ["held", "held", "breached", "not_run"]
    assert data["summary"]["breached"] == 1
    assert data["questions"][2]["story"]
    assert run(*arguments, "--output-format", "junit").exit_code == 1
    root = ElementTree.fromstring(Path("report").read_text())
    assert [(suite.get("name"), suite.get("failures"), suite.get("skipped")) for suite in root] == [
        ("charge", "1", "1")
    ]


def test_what_was_not_seen_is_no_success_where_all_is_required(quiet_shop: Path) -> None:
    assert run(*REAL, "--examples", "2").exit_code == 0
    assert run(*REAL, "--examples", "2", "--require-all").exit_code == 4
    late = run(*REAL, "--time", "0.000001", "--require-all")
    assert late.exit_code == 4
    assert "the time limit was reached before it started" in late.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--tools", "shop_tools.py"], "`--tools` is for `--call-real-tools`"),
        (["--probe", "a:b"], "`--probe` is for `--call-real-tools`"),
        (["--call-real-tools"], "`--call-real-tools` needs `--tools MODULE`"),
        ([*REAL, "--families", "crash"], "`--families` is about attacks on the machine"),
        ([*REAL, "--no-specimens"], "`--no-specimens` is about attacks on the machine"),
        ([*REAL, "--workers", "2"], "one tool at a time"),
        ([*REAL, "--probe", "charges"], "names no function"),
        ([*REAL, "--probe", "shop_tools.py:nothing"], "has no function `nothing`"),
        (["--call-real-tools", "--tools", "none.py"], "`none.py` is no file"),
        (["--call-real-tools", "--tools", "no_such_module"], "`no_such_module` can't be imported"),
    ],
)
def test_bad_input_is_refused_in_words(quiet_shop: Path, arguments: list[str], words: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert words in result.stderr
    assert "Traceback" not in result.output


def test_a_module_that_fails_is_refused(quiet_shop: Path) -> None:
    (quiet_shop / "shop_tools.py").write_text("raise SystemExit('not here')")
    result = run(*REAL)
    assert result.exit_code == 2
    assert "can't be imported here: SystemExit: not here" in result.stderr


@pytest.mark.parametrize("body", ["raise ValueError('no state')", "return lambda: 1", "return [].missing"])
def test_a_probe_that_fails_is_refused(tmp_path: Path, body: str) -> None:
    (tmp_path / "t.py").write_text(f"def charge(amount, idempotency_key):\n    return 1\n\ndef state():\n    {body}\n")
    file = str(tmp_path / "t.py")
    with Sandbox(file, f"{file}:state") as sandbox:
        if "lambda" in body:
            assert sandbox.play([{"do": "look"}, {"do": "look"}])[1]["state"] == 1
            return
        with pytest.raises(ToolsRefused, match="the probe raised"):
            sandbox.play([{"do": "look"}])


def test_a_tool_that_hangs_is_not_run() -> None:
    file = str(TOOLS / "bad.py")
    with Sandbox(file, seconds=1) as sandbox:
        matrix = attack_tools(program({"hangs": READ, "wrong_type": READ}), sandbox, orders=Orders(examples=1))
    rows = outcomes(matrix)
    assert rows["hangs", "output-fits-its-type"] == "not_run: no call came to an end in time"
    assert rows["wrong_type", "output-fits-its-type"].startswith("held")


def test_inputs_are_of_the_declared_types_and_the_same_for_a_seed() -> None:
    plan = Plan(program({**GOOD, "free": {"effect": "read"}}))
    first, again = (subjects(plan, 3, 6) for _ in range(2))
    assert [one.inputs for one in first] == [one.inputs for one in again]
    assert all(1 <= args["amount"] <= 200 for args in first[0].inputs)
    assert len(first[0].inputs) == 6
    assert first[-1].inputs == ({},)


def test_undeclared_arguments_are_like_those_of_the_steps() -> None:
    data = {
        "inputs": {"kind": {"enum": ["a", "b"]}},
        "tools": {"find": {"effect": "read"}},
        "steps": [
            {"id": "s", "type": "tool", "tool": "find", "args": {"by": {"kind": "$kind"}, "text": "no $kind", "n": 3}}
        ],
    }
    (subject,) = subjects(Plan(Program.from_dict(data)), 1, 10)
    assert {args["by"]["kind"] for args in subject.inputs} == {"a", "b"}
    assert {args["n"] for args in subject.inputs} == {3}
    assert all(isinstance(args["text"], str) for args in subject.inputs)
