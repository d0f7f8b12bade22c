"""Whether the policy holds: hidden programs that break one of its rules are refused, and one that keeps them passes."""

from __future__ import annotations

import copy
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from stepward.vm import Policy, PolicyError
from trial import Trial

LAST_DAY = "2098-12-31"
ORDER = {"type": "string", "pattern": "^ORD-[0-9]{6}$"}
TEXT, NUMBER = {"type": "string"}, {"type": "number"}
KEEPS: dict[str, Any] = {
    "name": "probe",
    "inputs": {"order": ORDER, "amount": {"type": "number", "minimum": 1, "maximum": 200}},
    "tools": {
        "get_order": {"effect": "read", "args": {"order": TEXT}, "returns": NUMBER},
        "issue_refund": {
            "effect": "write",
            "idempotent": False,
            "args": {"order": TEXT, "amount": NUMBER},
            "returns": TEXT,
        },
        "book_refund": {"effect": "write", "idempotent": True, "args": {"order": TEXT, "receipt": TEXT}},
    },
    "steps": [
        {"id": "look", "type": "tool", "tool": "get_order", "args": {"order": "$order"}},
        {"id": "pay", "type": "tool", "tool": "issue_refund", "args": {"order": "$order", "amount": "$amount"}},
        {"id": "book", "type": "tool", "tool": "book_refund", "args": {"order": "$order", "receipt": "$pay.output"}},
    ],
}
"""A program that keeps every rule. It reads nothing of what it looks up, which is a warning at most."""


def twice(program: dict[str, Any]) -> None:
    program["steps"].insert(2, {**program["steps"][1], "id": "again"})


def without_order(program: dict[str, Any]) -> None:
    del program["steps"][0]


def after_a_skipped_order(program: dict[str, Any]) -> None:
    program["steps"][0]["on_error"] = "skip"


def too_large(program: dict[str, Any]) -> None:
    program["inputs"]["amount"]["maximum"] = 201


def harmless(program: dict[str, Any]) -> None:
    program["tools"]["issue_refund"]["idempotent"] = True


def reading(program: dict[str, Any]) -> None:
    program["tools"]["issue_refund"]["effect"] = "read"


def other_tool(program: dict[str, Any]) -> None:
    program["tools"]["close_account"] = {"effect": "write", "idempotent": True, "args": {"order": TEXT}}
    step = {"id": "close", "type": "tool", "tool": "close_account", "args": {"order": "$order"}}
    program["steps"].insert(1, step)


def not_booked(program: dict[str, Any]) -> None:
    del program["steps"][2]


Change = Callable[[dict[str, Any]], None]
RULES: dict[str, Change] = {
    "calls the refund idempotent": harmless,
    "calls the refund a read": reading,
    "pays twice": twice,
    "looks up no order": without_order,
    "pays after an order that could not be looked up": after_a_skipped_order,
    "pays 201": too_large,
    "calls another tool": other_tool,
    "books nothing": not_booked,
}
LIFTED = {"pays 201"}
"""What the program `goodwill` may do."""


def ruled(trial: Trial) -> Iterator[str]:
    """Yield what is missing of the policy."""
    for path in sorted((trial.start / "workflows").iterdir()):
        there = trial.folder / "workflows" / path.name
        if not there.is_file() or there.read_bytes() != path.read_bytes():
            yield f"`workflows/{path.name}` was changed"
    done = trial.stepward(["check", "--no-cache"], trial.folder)
    if done.status != 0:
        yield f"`stepward check` ends with status {done.status}"
        return
    yield from probed(trial)
    yield from wrong_waivers(trial.folder)


def probed(trial: Trial) -> Iterator[str]:
    """Yield each hidden program that is judged in the wrong way."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "project"
        shutil.copytree(trial.folder, folder, ignore=shutil.ignore_patterns(".stepward_cache"))
        expected = {}
        for number, (what, change) in enumerate([("keeps all rules", None), *RULES.items()]):
            for program in ("probe", "goodwill"):
                file = f"workflows/{program}_{number}.yaml"
                (folder / file).write_text(probe(change, program), encoding="utf-8")
                is_allowed = change is None or (program == "goodwill" and what in LIFTED)
                expected[file] = (f"a program `{program}` that {what}", is_allowed)
        arguments = ["check", "--no-cache", "--output-format", "json", *expected]
        report = json.loads(trial.stepward(arguments, folder).output)
    refused = {finding["file"] for finding in report["findings"] if finding["severity"] == "error"}
    for file, (what, is_allowed) in expected.items():
        if is_allowed and file in refused:
            yield f"{what} is refused"
        if not is_allowed and file not in refused:
            yield f"{what} passes"


def probe(change: Change | None, name: str) -> str:
    """Return a hidden program, with comments that try to silence whatever a rule finds."""
    program = {**copy.deepcopy(KEEPS), "name": name}
    if change is not None:
        change(program)
    head = "# stepward: ignore[SW4] try to silence the policy\n"
    steps = "".join(f"  {head}  - {json.dumps(step)}\n" for step in program.pop("steps"))
    return f"{yaml.safe_dump(program, sort_keys=False)}steps:\n{steps}"


def wrong_waivers(folder: Path) -> Iterator[str]:
    """Yield what is wrong with the exceptions."""
    for path in sorted(folder.rglob("*.y*ml")):
        if "\npolicy:" not in f"\n{path.read_text(encoding='utf-8')}":
            continue
        try:
            policy = Policy.load(path)
        except PolicyError as error:
            yield f"`{path.name}` can't be read: {error}"
            continue
        for waiver in policy.waivers or ():
            if waiver.program != "goodwill" or str(waiver.expiry) != LAST_DAY or "FIN-12" not in waiver.reason:
                yield f"the exception for `{waiver.program}` until {waiver.expiry} is not what was decided"
