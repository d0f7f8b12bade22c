"""Fast: what the shell completes of the commands about runs, and what a command does not import."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from shops import shop
from stepward.validator.cli import main

pytestmark = pytest.mark.usefixtures("in_shop")


def completed(*words: str) -> set[str]:
    from click.shell_completion import BashComplete

    shell = BashComplete(main, {}, "stepward", "_STEPWARD_COMPLETE")
    return {found.value for found in shell.get_completions(list(words[1:-1]), words[-1])}


def test_the_shell_completes_what_is_new() -> None:
    shop("--run-id", "red")
    shop("--run-id", "green")
    assert {"run", "runs"} <= completed("stepward", "ru")
    assert completed("stepward", "run", "shop.yaml", "--input", "o") == {"order="}
    assert completed("stepward", "run", "none.yaml", "--input", "o") == set()
    assert "--run-id" in completed("stepward", "run", "--r")
    assert completed("stepward", "runs", "re") == {"receipt", "reconcile", "recover", "resume", "red"}
    assert completed("stepward", "runs", "cancel", "") == {"red", "green"}
    assert completed("stepward", "runs", "cancel", "--journal", "none.db", "") == set()
    assert completed("stepward", "runs", "reconcile", "red", "pay", "") == {"done", "not-done", "abandon"}
    assert completed("stepward", "replay", "runs.db", "g") == {"green"}
    assert completed("stepward", "verify", "runs.db", "r") == {"red"}


def loaded_after(*arguments: str) -> set[str]:
    code = f"import sys\nfrom stepward.validator.cli import main\nmain({list(arguments)!r}, standalone_mode=False)\n"
    script = (
        f"try:\n    exec({code!r})\nexcept SystemExit: pass\nimport sys, json\nprint(json.dumps(list(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_a_check_does_not_know_the_machine_and_a_run_in_a_pipe_not_the_painter() -> None:
    checked = loaded_after("check", "shop.yaml")
    assert not {name for name in checked if name.startswith(("stepward.vm.machine", "stepward.vm.journal", "rich"))}
    ran = loaded_after("run", "ends.yaml", "--journal", "x.db")
    assert "stepward.vm.machine.execution" in ran
    heavy = {name.partition(".")[0] for name in ran} & {"rich", "z3", "hypothesis", "psycopg", "litellm"}
    assert not heavy
    assert "cryptography" not in {name.partition(".")[0] for name in ran}
