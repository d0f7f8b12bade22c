"""What a hit costs: a check from the cache imports nothing heavy."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from caches import PROGRAMS
from commands import check, put
from stepward.validator.report import FORMATS

pytestmark = pytest.mark.usefixtures("in_own_project")


HEAVY = {"networkx", "z3", "pydantic", "yaml", "hypothesis", "graphviz", "rich", "cryptography"}


@pytest.fixture
def _clean_folder(in_own_project: None) -> None:
    for number in range(3):
        text = (PROGRAMS / "good/customer_refund.yaml").read_text().replace("name: customer_refund", f"name: c{number}")
        put(f"programs/c{number}.yaml", text)
    put("programs/pipeline.yaml", "jobs: {a: {steps: []}}\n")
    put("policies/money.yaml", "policy: money\nguardrails: [{name: once, at_most_once: {tool: issue_refund}}]\n")
    put("stepward.toml", 'policies = ["policies/money.yaml"]\n')


def modules_of(*arguments: str) -> set[str]:
    script = f"""
import json, sys
from stepward.validator.cli import main
try:
    main(["check", *{arguments!r}], standalone_mode=False)
except SystemExit as end:
    assert not end.code, end.code
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.parametrize("arguments", [(), ("--output-format=concise",), ("--output-format=json",)])
@pytest.mark.usefixtures("_clean_folder")
def test_a_clean_folder_from_the_cache_imports_nothing_heavy(arguments: tuple[str, ...]) -> None:
    assert check(*arguments).exit_code == 0
    warm = modules_of(*arguments)
    assert not HEAVY & warm
    assert not {name for name in warm if name.startswith(("stepward.validator.rules", "stepward.vm.language"))}


@pytest.mark.parametrize("name", sorted(FORMATS.keys() - {"full", "concise", "json"}))
@pytest.mark.usefixtures("_clean_folder")
def test_other_formats_import_no_graphs_and_no_solver(name: str) -> None:
    assert check(f"--output-format={name}").exit_code == 0
    assert not {"networkx", "z3", "hypothesis", "graphviz"} & modules_of(f"--output-format={name}")
