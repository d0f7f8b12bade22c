"""What a hit costs: a check from the cache imports nothing heavy."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence

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


def loaded_by(runs: Sequence[Sequence[str]]) -> list[set[str]]:
    """Return which modules are there after each run of the check, all in one fresh process."""
    script = f"""
import json, sys
from stepward.validator.cli import main
for arguments in {runs!r}:
    try:
        main(["check", *arguments], standalone_mode=False)
    except SystemExit as end:
        assert not end.code, end.code
    print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    found = [set(json.loads(line)) for line in done.stderr.splitlines() if line.startswith("[")]
    assert len(found) == len(runs)
    return found


@pytest.mark.usefixtures("_clean_folder")
def test_a_clean_folder_from_the_cache_imports_nothing_heavy() -> None:
    runs = [[], ["--output-format=concise"], ["--output-format=json"]]
    assert all(check(*arguments).exit_code == 0 for arguments in runs)
    for arguments, warm in zip(runs, loaded_by(runs), strict=True):
        assert not HEAVY & warm, arguments
        rules = {name for name in warm if name.startswith(("stepward.validator.rules", "stepward.vm.language"))}
        assert not rules, arguments


@pytest.mark.usefixtures("_clean_folder")
def test_other_formats_import_no_graphs_and_no_solver() -> None:
    runs = [[f"--output-format={name}"] for name in sorted(FORMATS.keys() - {"full", "concise", "json"})]
    assert all(check(*arguments).exit_code == 0 for arguments in runs)
    for arguments, warm in zip(runs, loaded_by(runs), strict=True):
        assert not {"networkx", "z3", "hypothesis", "graphviz"} & warm, arguments
