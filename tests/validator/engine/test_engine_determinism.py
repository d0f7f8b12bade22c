"""What the checker says hangs on the program alone: fresh processes, other hash seeds and pauses change nothing.

Only seconds may differ between two runs; verdicts, layers, evidence, paths and witnesses may not.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest
import yaml

from paths import PROGRAMS, STEPWARD
from sizes import MANY, size
from small_programs import small_program

RUNS = size(2, 8)
WHOLE_RUNS = 2
CORES = os.cpu_count() or 1
PAUSE = 0.05
"""Seconds for which a process stands still, and then for which it goes on."""

PATH_CODES = ("SW103", "SW202", "SW302", "SW303", "SW304", "SW305", *(f"SW40{number}" for number in range(1, 9)))
ENDLESS = ("SW408/cubes.yaml", "SW408/subtle.yaml")
"""Searches that end when all units are used up: seconds each."""

CONTRADICTS = """\
name: contradicts
inputs: {one: {type: integer}, two: {type: integer}}
tools: {pay: {effect: write, idempotent: false}, ask: {effect: read}}
guardrails: [{name: ask-before-pay, protects: {tool: pay}, requires: {tool: ask}}]
steps:
  - {id: less, type: condition, condition: $one < $two, then: more, otherwise: ask}
  - {id: more, type: condition, condition: $one > $two, then: pay, otherwise: ask}
  - {id: ask, type: tool, tool: ask, next_step: pay}
  - {id: pay, type: tool, tool: pay}
"""
ROUNDS = """\
name: rounds
tools: {pay: {effect: write, idempotent: false}}
guardrails: [{name: not-at-seven, never: {tool: pay}, when: $count == 7}]
max_steps: 40
steps:
  - {id: start, type: set, set: {count: 0}}
  - {id: more, type: condition, condition: $count < 7, then: add, otherwise: pay}
  - {id: add, type: set, set: {count: $count + 2}, next_step: more}
  - {id: pay, type: tool, tool: pay}
"""
NEEDS = {
    "block formula": CONTRADICTS,
    "explicit search": ROUNDS,
}
"""For each layer a program that only it decides."""


def few(folder: Path) -> list[Path]:
    """Write ten random programs, and one for each layer."""
    texts = {f"small{seed}": yaml.safe_dump(small_program(seed), sort_keys=False) for seed in range(10)}
    texts |= {layer.replace(" ", "_"): text for layer, text in NEEDS.items()}
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    return [folder]


def everything() -> list[Path]:
    """Return the programs beside the specification; by day one of each code, and every eighth good one."""
    of_codes = [sorted((PROGRAMS / "bad" / code).glob("*.yaml")) for code in PATH_CODES]
    kept = [[path for path in paths if not path.as_posix().endswith(ENDLESS)] for paths in of_codes]
    assert sum(map(len, kept)) > 40, "bad programs of codes that speak of paths"
    if MANY:
        return [PROGRAMS / "good", *(path for paths in kept for path in paths)]
    return [*sorted((PROGRAMS / "good").glob("*.yaml"))[::8], *(paths[0] for paths in kept)]


def said(targets: list[Path], hash_seed: int, *, is_paused: bool = False) -> dict[str, Any]:
    """Return what a fresh process says of programs; a paused one stands still for half of the time."""
    # Unbuffered, Python loses the rest of a text of which a pause lets the pipe take a part only.
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONUNBUFFERED": ""}
    command = [str(STEPWARD), "check", *map(str, targets), "--isolated", "--output-format", "json"]
    with subprocess.Popen(command, stdout=PIPE, stderr=PIPE, text=True, env=environment) as child:
        stopped = threading.Event()
        pauses = threading.Thread(target=pause, args=(child, stopped), daemon=True)
        if is_paused:
            pauses.start()
        try:
            shown, errors = child.communicate(timeout=300)
        finally:
            stopped.set()
            child.kill()
    assert child.returncode == 1, errors
    found = json.loads(shown)
    assert isinstance(found, dict)
    return found


def pause(child: subprocess.Popen[str], stopped: threading.Event) -> None:
    """Stop a process and let it go on, again and again, as busy cores would; that takes no core from other tests."""
    for order in itertools.cycle((signal.SIGSTOP, signal.SIGCONT)):
        if stopped.wait(PAUSE):
            break
        child.send_signal(order)


def timeless(value: Any) -> Any:
    """Return a report without its seconds."""
    if isinstance(value, dict):
        return {name: timeless(inner) for name, inner in value.items() if name != "seconds"}
    return [timeless(inner) for inner in value] if isinstance(value, list) else value


def assert_always_the_same(targets: list[Path], runs: int) -> dict[str, Any]:
    """Check as often as that, every second time with pauses, and return what is said every time."""
    with ThreadPoolExecutor(CORES) as pool:
        first, *others = pool.map(lambda seed: said(targets, seed, is_paused=seed % 2 == 1), range(runs))
    expected = json.dumps(timeless(first))  # as text: the order counts, too
    for number, found in enumerate(others, start=1):
        assert json.dumps(timeless(found)) == expected, f"run {number} says something else than run 0"
    return first


def layers(report: dict[str, Any]) -> set[str]:
    return {one["layer"] for one in report["properties"]}


@pytest.mark.slow
def test_many_runs_say_the_same_of_few_programs(tmp_path: Path) -> None:
    report = assert_always_the_same(few(tmp_path), RUNS)
    assert layers(report) >= {"graph", "finite abstraction", *NEEDS}
    assert any("witness" in (one["evidence"] or {}) for one in report["findings"])


@pytest.mark.slow
def test_a_few_runs_say_the_same_of_every_program() -> None:
    report = assert_always_the_same(everything(), WHOLE_RUNS)
    assert {one["code"] for one in report["findings"]} >= set(PATH_CODES)


def test_a_difference_is_seen() -> None:
    one = {"properties": [{"layer": "graph", "seconds": 0.1}], "findings": [{"evidence": {"path": [1, 2]}}]}
    other = {"properties": [{"layer": "graph", "seconds": 0.2}], "findings": [{"evidence": {"path": [2, 1]}}]}
    assert timeless(one)["properties"] == timeless(other)["properties"]
    assert timeless(one) != timeless(other)
