"""The house stands: imports run downwards only, and nobody pays for what is not used."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import zipfile
from collections import Counter
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import networkx
import pytest
from pydantic import TypeAdapter

from modules import home, imported, loaded_after, modules, nodes_of, statements_of
from paths import ROOT
from stepward.vm.language.record import Record
from stepward.vm.language.steps import STEP_MODELS, Step

ALLOWED = {
    "vm": {"vm"},
    "sabotage": {"vm", "sabotage"},
    "validator": {"vm", "sabotage", "validator"},
    "testing": {"vm", "validator", "testing"},
}


@pytest.mark.parametrize("folder", ALLOWED)
def test_imports_run_downwards_only(folder: str) -> None:
    for path in modules(folder):
        for name in imported(path):
            parts = name.split(".")
            if parts[0] == "stepward":
                assert parts[1] in ALLOWED[folder], f"{path.relative_to(ROOT)} imports {name}"
            assert parts[0] not in ALLOWED, f"{path.relative_to(ROOT)} names a folder without `stepward.`: {name}"


FLOORS = {
    "values": set[str](),
    "systems": {"values"},
    "search": {"values", "systems", "clock"},
    "smt": {"values", "systems", "clock"},
    "witnesses": {"values", "systems", "clock"},
    "certificates": {"values", "systems", "search", "smt", "witnesses", "clock"},
}
"""What the folders of the engine may know of it."""


@pytest.mark.parametrize("folder", FLOORS)
def test_the_engine_has_floors_of_its_own(folder: str) -> None:
    within = "stepward.validator.engine."
    for path in modules(f"validator/engine/{folder}"):
        known = {name.removeprefix(within).split(".")[0] for name in imported(path) if name.startswith(within)}
        assert known <= FLOORS[folder] | {folder}, path.relative_to(ROOT)


def test_every_folder_of_the_engine_is_a_floor() -> None:
    assert {path.parent.name for path in (ROOT / "validator/engine").glob("*/__init__.py")} == FLOORS.keys()


CIRCLES = {
    frozenset({"vm.language.loading", "vm.language.program"}),
}
"""Files that know one another, if only by their types. It may grow shorter.

The loader and the program stay: users look for `Program.load`, which imports the loader late.
"""


def test_no_more_files_know_one_another() -> None:
    files = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for one in ALLOWED for path in modules(one)}
    graph = networkx.DiGraph()
    for name, path in files.items():
        for node in statements_of(path):
            if isinstance(node, ast.ImportFrom):
                package = (node.module or "").removeprefix("stepward.")
                inner = {f"{package}.{alias.name}" for alias in node.names}
                graph.add_edges_from((name, other) for other in {package, *inner} & files.keys())
    found = {frozenset(circle) for circle in networkx.strongly_connected_components(graph) if len(circle) > 1}
    assert found == CIRCLES


@pytest.mark.parametrize(("room", "above"), [("report", {"gate", "cli"}), ("gate", {"report", "cli"})])
def test_a_room_knows_no_room_above_it(room: str, above: set[str]) -> None:
    within = "stepward.validator."
    for path in modules(f"validator/{room}"):
        known = {name.removeprefix(within).split(".")[0] for name in imported(path) if name.startswith(within)}
        assert not known & above, path.relative_to(ROOT)


def test_rules_and_judges_return_what_they_find() -> None:
    """Nothing that is handed a context changes it, or a list or a set that it holds."""
    for folder in ("rules", "analysis", "engine", "diagram"):
        for path in modules(f"validator/{folder}"):
            for node in nodes_of(path):
                changed = node.value if isinstance(node, ast.Attribute) and node.attr in CHANGES else None
                if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                    changed = node
                owner = changed.value if isinstance(changed, ast.Attribute) else None
                name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", None)
                assert name not in CONTEXTS, f"{path.relative_to(ROOT)}, line {node.lineno}: {ast.unparse(node)}"


CHANGES = {"append", "extend", "insert", "add", "update", "setdefault", "pop", "clear", "remove", "discard"}
CONTEXTS = {"context", "_context", "facts", "analyses", "proofs", "verdicts"}


def of_these(path: Path, *packages: str) -> set[str]:
    """Return which of some packages a file imports. Few files have a line that looks like it; the others aren't parsed.

    The linter wants each import on a line of its own.
    """
    line = re.compile(rf"\b(?:import|from)[ \t]+(?:{'|'.join(packages)})\b")
    if not line.search(path.read_text(encoding="utf-8")):
        return set()
    return {name.split(".")[0] for name in imported(path)} & {*packages}


@pytest.mark.parametrize("folder", ["tests", "benchmarks"])
def test_nobody_imports_a_folder_by_its_bare_name(folder: str) -> None:
    for path in modules(folder):
        assert not of_these(path, *ALLOWED), path


def test_no_test_imports_a_file_of_fixtures() -> None:
    """Which of two files named `conftest` an import finds depends on which tests ran before."""
    for path in modules("tests"):
        assert not of_these(path, "conftest"), path


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("def f():\n    from vm.values import freeze", {"vm"}),
        ("try:\n    import testing\nexcept ImportError:\n    from validator import x", {"testing", "validator"}),
        ("match 1:\n    case 1:\n        import vm", {"vm"}),
        ("import vmx\nfrom stepward import vm", set()),
        ("text = 'import vm'", set()),
    ],
)
def test_an_import_is_found_wherever_it_stands(text: str, found: set[str], tmp_path: Path) -> None:
    path = tmp_path / "one.py"
    path.write_text(text, encoding="utf-8")
    assert of_these(path, *ALLOWED) == found


def test_the_machine_room_does_not_know_the_heavy_libraries() -> None:
    heavy = {"networkx", "z3", "hypothesis", "graphviz"}
    for path in modules("vm"):
        assert not {name.split(".")[0] for name in imported(path)} & heavy, path


CORE = (
    *(
        "apply",
        "bodies",
        "branches",
        "calls",
        "computing",
        "data",
        "decide",
        "deadlines",
        "due",
        "effects",
        "events",
        "forks",
        "items",
    ),
    *(
        "keys",
        "leaving",
        "memory",
        "monitors",
        "ordering",
        "plan",
        "runnable",
        "sizes",
        "slots",
        "state",
        "traces",
        "waits",
    ),
)


def test_the_core_of_the_machine_knows_no_clock_and_no_chance() -> None:
    outside = {"asyncio", "datetime", "os", "random", "secrets", "socket", "sqlite3", "threading", "time", "uuid"}
    core = {f"stepward.vm.machine.{name}" for name in CORE}
    for name in CORE:
        names = imported(ROOT / f"vm/machine/{name}.py")
        assert not {module.split(".")[0] for module in names} & outside, name
        assert {module for module in names if module.startswith("stepward.vm.machine.")} <= core, name


@pytest.mark.parametrize(
    ("code", "without"),
    [
        ("import stepward.vm", {"pydantic", "yaml", "networkx", "z3", "hypothesis", "graphviz"}),
        (
            "from stepward.vm import Program, Policy, Flow",
            {"networkx", "z3", "hypothesis", "graphviz", "click", "rich"},
        ),
        ("import stepward.sabotage", {"pydantic", "networkx", "z3", "hypothesis", "graphviz"}),
        ("import stepward.testing.plugin", {"pydantic", "networkx", "z3", "hypothesis", "graphviz", "click", "yaml"}),
        ("import stepward.validator", {"networkx", "z3", "hypothesis", "graphviz", "rich"}),
        ("from stepward.validator import ProgramValidator, StepGraph", {"networkx", "z3", "hypothesis", "graphviz"}),
        ("from stepward.validator.cli import main", {"pydantic", "networkx", "z3", "hypothesis", "rich", "mcp"}),
        ("import stepward.validator.cli.mcp", {"pydantic", "networkx", "z3", "hypothesis", "rich", "mcp"}),
        ("import stepward.validator.cli.studio", {"pydantic", "networkx", "z3", "hypothesis", "rich", "starlette"}),
        ("import stepward.vm.remote.tools", {"pydantic", "networkx", "z3", "hypothesis", "mcp", "anyio", "httpx2"}),
        ("import stepward.validator.gateway.catalogue", {"networkx", "z3", "hypothesis", "rich", "mcp", "starlette"}),
    ],
)
def test_an_import_costs_what_it_must(code: str, without: set[str]) -> None:
    assert not loaded_after(code) & without


def test_the_schema_of_each_step_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bodies hold steps of all types. Each process that loads a program makes all schemas, and waits for it."""
    made: Counter[type[Record]] = Counter()
    real = Record._schema.__func__

    def schema(cls: type[Record], handler: Any, ref: str) -> Any:
        made[cls] += 1
        return real(cls, handler, ref)

    monkeypatch.setattr(Record, "_schema", classmethod(schema))
    TypeAdapter(dict[Literal["steps", "body"], tuple[Step, ...]])
    assert set(made) > set(STEP_MODELS.values())
    assert {cls.__name__: times for cls, times in made.items() if times > 1} == {}


def test_a_check_of_a_clean_program_imports_no_heavy_library() -> None:
    program = ROOT / "specs/programs/good/customer_refund.yaml"
    code = f"""
from stepward.validator.cli import main
try:
    main(["check", {str(program)!r}], standalone_mode=False)
except SystemExit:
    pass"""
    assert not loaded_after(code) & {"z3", "hypothesis", "graphviz", "rich", "mcp"}


def test_attacks_need_no_extra_to_be_imported() -> None:
    """A plain install attacks, too: scenes of servers and of telemetry import what they need when they play."""
    extras = {"anyio", "httpx2", "mcp", "mcp_types", "opentelemetry", "orjson", "psycopg", "redis", "starlette"}
    assert not loaded_after("import stepward.sabotage.registry, stepward.sabotage.attacks.recorded") & extras


def test_only_the_door_knows_the_library_of_the_protocol() -> None:
    """It is an extra, and takes half a second to import."""
    paths = [path for floor in ALLOWED for path in modules(floor)]
    known = {path.relative_to(ROOT).as_posix() for path in paths if _names_protocol(imported(path))}
    remote = {f"vm/remote/{name}.py" for name in ("link", "streams", "tools", "web")}
    gateway = {"validator/cli/mcp.py", "validator/gateway/server.py", "validator/gateway/serving.py"}
    scenes = {"sabotage/recorded/remote/children.py"}
    pages = {"validator/cli/studio.py", "validator/studio/server.py", "validator/http_server.py"}
    assert known == {*gateway, *pages, *remote, *scenes}


def _names_protocol(names: frozenset[str]) -> bool:
    return bool({name.split(".")[0] for name in names} & {"mcp", "mcp_types", "starlette", "uvicorn", "anyio"})


def test_a_machine_that_asks_the_gate_imports_no_heavy_library() -> None:
    code = f"""
from stepward.validator import check_program
from stepward.vm import ExecutionVM, Program, RunRefused
machine = ExecutionVM(checker=check_program)
try:
    machine.run_sync(Program.load({str(ROOT / "specs/programs/good/customer_refund.yaml")!r}))
except RunRefused as error:
    assert "the machine has no" in str(error), error  # it passed the gate, and has no tools"""
    assert not loaded_after(code) & {"z3", "hypothesis", "graphviz", "rich"}


@pytest.mark.parametrize("floor", ALLOWED)
def test_type_checkers_know_the_public_names_from_where_they_come(floor: str) -> None:
    package = import_module(f"stepward.{floor}")
    tree = ast.parse((home(floor) / "__init__.py").read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    known = {one.asname: node.module for node in block.body if isinstance(node, ast.ImportFrom) for one in node.names}
    homes = {name: home.removeprefix("stepward.") for name, home in package._HOMES.items()}
    within = "" if floor == "testing" else f"{floor}."
    assert known == {name: f"stepward.{within}{home}" for name, home in homes.items()}
    assert all(getattr(package, name) is not None for name in package.__all__)


@pytest.mark.parametrize("floor", ALLOWED)
def test_completion_shows_the_public_names_before_they_are_imported(floor: str) -> None:
    code = (
        f"import stepward.{floor} as floor\nprint(set(floor.__all__) <= set(dir(floor)), 'ExecutionVM' in vars(floor))"
    )
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert shown == "True False\n"


def _files() -> list[tuple[str, Path]]:
    return [(floor, path) for floor in ALLOWED for path in modules(floor)]


def test_the_list_of_packages_is_the_tree() -> None:
    import tomllib

    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    found = {".".join(("stepward", floor, *path.parent.relative_to(home(floor)).parts)) for floor, path in _files()}
    data = {"sabotage.campaigns.specimens", "validator.pages", "validator.templates"}
    data |= {f"validator.templates.{name}" for name in ("approval", "common", "erasure", "refund")}
    assert set(listed) == found | {f"stepward.{name}" for name in data}


@pytest.mark.slow
def test_the_wheel_holds_every_module_and_the_type_marker(tmp_path: Path) -> None:
    """Built through the sdist, so that a file missing from either shows. To install builds in isolation already."""
    here = ["--no-isolation"] if find_spec("setuptools") else []
    built = subprocess.run(
        [sys.executable, "-m", "build", *here, "--outdir", str(tmp_path), str(ROOT)],
        check=True,
        capture_output=True,
        text=True,
    )
    assert "Package would be ignored" not in built.stdout + built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    expected = {f"stepward/{floor}/{path.relative_to(home(floor)).as_posix()}" for floor, path in _files()}
    expected |= {f"stepward/{folder}/py.typed" for folder in ALLOWED}
    folders = ("validator/templates", "validator/pages", "sabotage/campaigns/specimens")
    data = [path for folder in folders for path in (ROOT / folder).rglob("*")]
    expected |= {f"stepward/{path.relative_to(ROOT).as_posix()}" for path in data if path.is_file()}
    assert expected <= names, expected - names
    assert not any(name.startswith(("vm/", "validator/", "sabotage/", "testing/", "tests/")) for name in names)


def test_no_file_is_a_house_of_its_own() -> None:
    paths = [path for folder in (*ALLOWED, "tests", "benchmarks", "specs") for path in modules(folder)]
    lines = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8").count("\n") for path in paths}
    assert not {name: count for name, count in lines.items() if count > 500}, "a file has at most 500 lines"
