"""Whether the waiting runs got their answers, and nothing else happened."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from trial import Trial

WAITING = {"chairs": ("six chairs", 900), "yacht": ("a yacht", 49000), "tables": ("two tables", 1200)}
ANSWERS = {"chairs": {"approved": True, "comment": "ok"}, "yacht": {"approved": False, "comment": "too large"}}
ENDS = {"chairs": "SUCCESS", "yacht": "FAILED", "tables": "SUSPENDED"}


def begin(trial: Trial) -> None:
    """Start the three runs, so that the folder has a journal in which they wait."""
    for run, (item, amount) in WAITING.items():
        inputs = ["--input", f"item={item}", "--input", f"amount={amount}"]
        options = ["--tools", "tools.py", "--journal", "runs.db", "--run-id", run]
        done = trial.stepward(["run", "purchase.yaml", *inputs, *options], trial.folder)
        if done.status != 4:
            raise RuntimeError(f"run `{run}` does not wait: {done.output}")


def resumed(trial: Trial) -> Iterator[str]:
    """Yield what is missing of the answers."""
    if not (trial.folder / "runs.db").is_file():
        yield "`runs.db` is missing"
        return
    if trial.stepward(["verify", "runs.db"], trial.folder).status != 0:
        yield "`stepward verify` does not accept the journal"
    listed = json.loads(trial.stepward(["runs", "--output-format", "json"], trial.folder).output)
    statuses = {run["id"]: run["status"] for run in listed["runs"]}
    if statuses != ENDS:
        yield f"the runs should be {ENDS}, and are {statuses}"
    for run, answer in ANSWERS.items():
        yield from unanswered(trial, run, answer)
    orders = trial.folder / "orders.txt"
    lines = orders.read_text(encoding="utf-8").splitlines() if orders.is_file() else []
    if [line.split(" ", 1)[1] for line in lines] != ["six chairs 900"]:
        yield f"only the chairs should be ordered, once: {lines}"


def unanswered(trial: Trial, run: str, answer: dict[str, Any]) -> Iterator[str]:
    """Yield what the journal lacks of an answer."""
    done = trial.stepward(["runs", "show", run, "--output-format", "json"], trial.folder)
    if done.status == 2:
        yield f"run `{run}` is not in the journal"
        return
    given = [one for one in json.loads(done.output)["trace"] if one["kind"] == "resumed"]
    if [one["body"].get("output") for one in given] != [answer]:
        yield f"run `{run}` should have the answer {answer}, and has {[one.get('output') for one in given]}"
    elif given[0]["note"].get("by") != "kim":
        yield f"the journal does not say that `kim` answered run `{run}`"
