"""Which modules a file imports, and a process has loaded."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from paths import ROOT

TESTKIT = ROOT / "validator/testkit"
"""The folder of `stepward.testing`: a package of its own, below that of the validator."""


def modules(folder: str) -> list[Path]:
    """Return the files of a package by its name below `stepward`, or of a folder in one."""
    if folder == "testing":
        return sorted(TESTKIT.rglob("*.py"))
    return sorted(path for path in (ROOT / folder).rglob("*.py") if not path.is_relative_to(TESTKIT))


def home(package: str) -> Path:
    """Return the folder of a package by its name below `stepward`."""
    return TESTKIT if package == "testing" else ROOT / package


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Return every node of a file's syntax tree."""
    return tuple(ast.walk(_tree(path)))


def statements_of(path: Path) -> Iterator[ast.AST]:
    """Yield every statement of a file, with handlers and cases: one node in twelve. No expression holds a statement."""
    pending: list[ast.AST] = [_tree(path)]
    for node in pending:
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            inner = getattr(node, name, ())
            pending.extend(inner if isinstance(inner, list) else ())
        yield node


@cache
def imported(path: Path) -> frozenset[str]:
    """Return every module that a file imports, wherever in the file."""
    names: set[str] = set()
    for node in statements_of(path):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively: absolute imports show the floor"
            names.add(node.module or "")
            if node.module == "stepward":
                names.update(f"stepward.{alias.name}" for alias in node.names)
    return frozenset(names)


def loaded_after(code: str) -> set[str]:
    """Return the top-level modules that a fresh interpreter has loaded after running `code`."""
    script = f"import sys, json\n{code}\nprint(json.dumps(sorted({{name.split('.')[0] for name in sys.modules}})))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd="/")
    return set(json.loads(done.stdout.splitlines()[-1]))
