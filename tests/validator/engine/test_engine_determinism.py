"""What the checker says hangs on the program alone: fresh processes, other hash seeds and busy cores change nothing.

Only seconds may differ between two runs; verdicts, layers, evidence, paths and witnesses may not.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from paths import PROGRAMS, STEPWARD
from small_programs import small_program

RUNS = 8
WHOLE_RUNS = 2
CORES = os.cpu_count() or 1

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
    """Return the programs beside the specification."""
    bad = [path for code in PATH_CODES for path in sorted((PROGRAMS / "bad" / code).glob("*.yaml"))]
    kept = [path for path in bad if not path.as_posix().endswith(ENDLESS)]
    assert len(kept) > 40, "bad programs of codes that speak of paths"
    return [PROGRAMS / "good", *kept]


def said(targets: list[Path], hash_seed: int) -> dict[str, Any]:
    """Return what a fresh process says of programs."""
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    command = [str(STEPWARD), "check", *map(str, targets), "--isolated", "--output-format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def timeless(value: Any) -> Any:
    """Return a report without its seconds."""
    if isinstance(value, dict):
        return {name: timeless(inner) for name, inner in value.items() if name != "seconds"}
    return [timeless(inner) for inner in value] if isinstance(value, list) else value


@contextmanager
def busy_cores() -> Iterator[None]:
    """Keep every core busy as long as it lasts."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(CORES)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def assert_always_the_same(targets: list[Path], runs: int) -> dict[str, Any]:
    """Check as often as that, half of it on idle and half on busy cores, and return what is said every time."""
    with ThreadPoolExecutor(CORES) as pool:
        first, *idle = pool.map(lambda seed: said(targets, seed), range(runs // 2))
        with busy_cores():
            busy = list(pool.map(lambda seed: said(targets, seed), range(runs // 2, runs)))
    expected = json.dumps(timeless(first))  # as text: the order counts, too
    for number, found in enumerate((*idle, *busy), start=1):
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
