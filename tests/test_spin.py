"""SPIN, a model checker that knows nothing of us, says whether guardrails can be broken.

It must say what is true, and what the checker says, unless that leaves it open. The truth is that of `brute_force.py`,
which enumerates every run in another way. `STEPWARD_SPIN` says how many of the random programs are tried;
`STEPWARD_NEEDS_SPIN` makes a missing SPIN a failure, as in CI, where it is installed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
import yaml

import promela
from brute_force import Truth, truth
from small_language import NotSmallError
from small_programs import small_program
from stepward.validator import ProgramValidator, Verdict
from stepward.vm import Program

PROGRAMS: Final = int(os.environ.get("STEPWARD_SPIN", "160"))
CHUNK: Final = 20
SECONDS: Final = 120
"""For each call; it takes about four."""
# Nothing runs beside the one process, so there is nothing to reduce. Optimizing takes longer than it saves.
COMPILE: Final = ["gcc", "-O0", "-w", "-DSAFETY", "-DNOREDUCE", "-DNOFAIR", "-o", "pan", "pan.c"]
SEARCH: Final = ["./pan", "-n", "-m200000", "-w20"]

Rule = dict[str, Any]


class Pair(NamedTuple):
    """A program and one of its guardrails."""

    seed: int
    program: dict[str, Any]
    rule: Rule


# -- running SPIN ------------------------------------------------------------------------------------------------------

Searcher = Callable[[list[Pair]], set[int]]


@cache
def missing() -> str:
    """Return what keeps SPIN from running here; other programs are called `spin` too."""
    absent = [name for name in ("spin", "gcc") if shutil.which(name) is None]
    if absent:
        return f"there is no {' and no '.join(absent)} on the PATH; see .ci/run"
    said = subprocess.run(["spin", "-V"], capture_output=True, text=True, check=False, timeout=SECONDS).stdout
    return "" if said.startswith("Spin Version") else "the `spin` on the PATH is not the model checker"


@pytest.fixture
def search(tmp_path: Path) -> Searcher:
    """Return what tells which pairs of a list SPIN finds broken."""
    if missing():
        (pytest.fail if os.environ.get("STEPWARD_NEEDS_SPIN") else pytest.skip)(missing())
    return lambda pairs: searched(
        tmp_path, [promela.process(pair.program, pair.rule, n) for n, pair in enumerate(pairs)]
    )


def searched(folder: Path, processes: list[str]) -> set[int]:
    """Search every process, completely, and return the numbers of those that get to `broken`."""
    (folder / "model.pml").write_text(promela.model(processes), encoding="utf-8")
    for command in (["spin", "-a", "model.pml"], COMPILE, SEARCH):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=SECONDS)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    # An error would be a process that is stuck, a guard for which nothing was written.
    is_complete = "errors: 0" in done.stdout and "not completed" not in done.stdout
    assert is_complete, re.sub(r"broken \d+\n", "", done.stdout)
    return {int(number) for number in re.findall(r"^broken (\d+)$", done.stdout, re.MULTILINE)}


# -- random programs ---------------------------------------------------------------------------------------------------


def pairs_of(seeds: range) -> tuple[list[Pair], int]:
    """Return what is translated, and how much is not."""
    pairs, refused = [], 0
    for seed in seeds:
        program = small_program(seed)
        for rule in program["guardrails"]:
            try:
                promela.process(program, rule, 0)
            except promela.NotTranslatedError:
                refused += 1
            else:
                pairs.append(Pair(seed, program, rule))
    return pairs, refused


@cache
def known(seed: int) -> Truth | None:
    """Return the truth about a program, if it is small enough to enumerate."""
    try:
        return truth(small_program(seed))
    except NotSmallError:
        return None


@cache
def verdicts(seed: int) -> dict[str, Verdict]:
    """Return what the checker says of the guardrails of a program."""
    program = small_program(seed)
    names = {rule["name"] for rule in program["guardrails"]}
    properties = ProgramValidator(Program.from_dict(program), recheck=False).validate().properties
    return {prop.rule: prop.verdict for prop in properties if prop.rule in names}


def against_truth(pair: Pair, is_broken: bool) -> str:
    """Return where SPIN and the enumeration part; both count a run that is cancelled right before what it owes."""
    found, name = known(pair.seed), pair.rule["name"]
    if found is None or is_broken == bool(found.broken[name] | found.debatable.get(name, set())):
        return ""
    return f"SPIN says {told(is_broken)}, the enumeration {sorted(found.broken[name])}"


def against_checker(pair: Pair, is_broken: bool) -> str:
    """Return where SPIN and the checker part; of what is debatable the checker may say either."""
    found, name = known(pair.seed), pair.rule["name"]
    said = verdicts(pair.seed).get(name, Verdict.UNKNOWN)
    is_debatable = found is not None and bool(found.debatable.get(name)) and not found.broken[name]
    if said is Verdict.UNKNOWN or is_debatable or (said is Verdict.VIOLATED) == is_broken:
        return ""
    return f"SPIN says {told(is_broken)}, the checker {said}"


def told(is_broken: bool) -> str:
    return "broken" if is_broken else "holds"


def _chunks() -> Iterator[Any]:
    for first in range(0, PROGRAMS, CHUNK):
        last = min(PROGRAMS, first + CHUNK)
        yield pytest.param(range(first, last), id=f"{first}-{last - 1}", marks=pytest.mark.slow)


@pytest.mark.parametrize("seeds", list(_chunks()))
def test_spin_says_the_same(seeds: range, search: Searcher) -> None:
    pairs, _ = pairs_of(seeds)
    broken = search(pairs)
    wrong = []
    for number, pair in enumerate(pairs):
        parted = [against_truth(pair, number in broken), against_checker(pair, number in broken)]
        wrong += [f"seed {pair.seed}, {pair.rule}: {text}" for text in parted if text]
        if any(parted) and len(wrong) < 3:
            wrong.append(yaml.safe_dump(pair.program, sort_keys=False, default_flow_style=None))
    assert not wrong, "\n".join(wrong)


def test_most_programs_are_translated() -> None:
    pairs, refused = pairs_of(range(300))
    print(f"{len(pairs)} pairs are translated, {refused} are not")
    assert len(pairs) > 0.95 * (len(pairs) + refused)


# -- programs with known answers ---------------------------------------------------------------------------------------

INPUTS: Final[dict[str, Any]] = {
    "n": {"type": "integer", "minimum": 0, "maximum": 3},
    "ok": {"type": "boolean"},
    "letter": {"type": "string", "enum": ["a", "b"]},
}
TOOLS: Final[dict[str, Any]] = {
    "pay": {"effect": "write", "idempotent": False, "args": {"x": {"type": "integer"}}},
    "book": {"effect": "write", "idempotent": True},
    "ask": {"effect": "read", "returns": {"type": "boolean"}},
    "look": {"effect": "read", "returns": {"type": "object", "properties": {"fine": {"type": "boolean"}}}},
}
CHECK: Final = "{id: c, type: condition, condition: $n < 2, then: p, otherwise: e}"
PAY: Final = "{id: p, type: tool, tool: pay, args: {x: $n}, is_terminal: true}"
END: Final = "{id: e, type: end}"
GATED: Final = "{protects: {tool: pay}, requires: {step: c, branch: then}}"
ONCE: Final = "{at_most_once: {tool: pay}}"
BOOKED: Final = "{followed_by: {first: {tool: pay}, then: {tool: book}}}"
BOOK: Final = "{id: b, type: tool, tool: book}"
LOOP: Final = [
    "{id: s, type: set, set: {k: 0}}",
    "{id: more, type: condition, condition: $k < $n, then: t, otherwise: p}",
    "{id: t, type: set, set: {k: $k + 1}, next_step: more}",
    "{id: p, type: tool, tool: pay, args: {x: $k}, is_terminal: true}",
]
BOTH: Final = "{id: both, type: parallel, parallel_steps: [%s, {id: y, type: tool, tool: pay, args: {x: 1}}]%s}"
ASK: Final = "{id: x, type: tool, tool: ask, output_key: v}"

KNOWN: Final[dict[str, tuple[list[str], str, bool]]] = {
    "a gate": ([CHECK, PAY, END], GATED, False),
    "the other branch of the gate": ([CHECK.replace("<", ">"), PAY, END], GATED.replace("then", "otherwise"), True),
    "a way around, that is infeasible": (
        [
            CHECK.replace("otherwise: e", "otherwise: d"),
            "{id: d, type: condition, condition: $n == 1, then: p}",
            PAY,
            END,
        ],
        GATED,
        False,
    ),
    "a way around": (
        [
            CHECK.replace("otherwise: e", "otherwise: d"),
            "{id: d, type: condition, condition: $n == 2, then: p}",
            PAY,
            END,
        ],
        GATED,
        True,
    ),
    "stale": (
        [
            "{id: s, type: set, set: {k: $n}}",
            "{id: c, type: condition, condition: $k < 2, then: t}",
            "{id: t, type: set, set: {k: 0}, next_step: p}",
            PAY,
        ],
        GATED,
        True,
    ),
    "a guard that was skipped": (
        ["{id: a, type: tool, tool: ask, on_error: skip}", PAY],
        "{protects: {tool: pay}, requires: {tool: ask}}",
        True,
    ),
    "a guard that fell back": (
        ["{id: a, type: tool, tool: ask, timeout_seconds: 1, on_timeout: fallback, fallback: true}", PAY],
        "{protects: {tool: pay}, requires: {tool: ask}}",
        True,
    ),
    "a guard that must succeed": (
        ["{id: a, type: tool, tool: ask}", PAY],
        "{protects: {tool: pay}, requires: {tool: ask}}",
        False,
    ),
    "siblings are not before one another": ([BOTH % (ASK, "")], "{protects: {tool: pay}, requires: {tool: ask}}", True),
    "a sibling's output": (
        [BOTH % (ASK, ""), "{id: d, type: condition, condition: $v, then: p, otherwise: e}", PAY, END],
        "{never: {step: p}, when: not $v}",
        False,
    ),
    "a sibling that succeeded beside one that failed": (
        [BOTH % (ASK, ", error_step: p"), "{id: z, type: end}", PAY],
        "{never: {step: p}, when: $v}",
        True,
    ),
    "never by an argument": ([CHECK, PAY, END], "{never: {tool: pay}, when: $args.x > 0}", True),
    "never by an argument, infeasible": ([CHECK, PAY, END], "{never: {tool: pay}, when: $args.x > 1}", False),
    "never by what may be undefined": (
        ["{id: a, type: tool, tool: ask, output_key: v, on_error: skip}", PAY],
        "{never: {tool: pay}, when: $v and false}",
        True,
    ),
    "a field that may be absent fails the condition": (
        [
            "{id: a, type: tool, tool: look, output_key: r}",
            "{id: d, type: condition, condition: $r.fine, then: p, otherwise: p}",
            PAY,
        ],
        "{never: {tool: pay}, when: not defined($r.fine)}",
        False,
    ),
    "an argument that is undefined fails the step before it starts": (
        [
            "{id: a, type: tool, tool: ask, output_key: v, on_error: skip}",
            "{id: p, type: tool, tool: book, args: {x: $v}}",
        ],
        "{never: {tool: book}, when: not defined($v)}",
        False,
    ),
    "a retry": ([PAY.replace("is_terminal: true", "on_error: retry")], ONCE, True),
    "a retry without the budget for it": ([PAY.replace("is_terminal: true", "on_error: retry"), "1"], ONCE, False),
    "a retry of an idempotent tool": (
        ["{id: b, type: tool, tool: book, on_error: retry}"],
        "{at_most_once: {tool: book}}",
        False,
    ),
    "a retry of a parallel step": ([BOTH % (ASK, ", on_error: retry"), "4"], ONCE, False),
    "a retry of a parallel step, with the budget for it": ([BOTH % (ASK, ", on_error: retry"), "5"], ONCE, True),
    "what is owed when a step between fails": ([PAY.replace(", is_terminal: true", ""), ASK, BOOK], BOOKED, True),
    "what is owed when the run succeeds": (
        [PAY.replace(", is_terminal: true", ""), ASK, BOOK],
        BOOKED.replace("}}}", "}}, ends: success}"),
        False,
    ),
    "what is owed at an end": ([CHECK.replace("otherwise: e", "otherwise: b"), PAY, BOOK], BOOKED, True),
    "what is owed by a run that is cancelled": (
        [PAY.replace(", is_terminal: true", ""), BOOK],
        BOOKED.replace("}}}", "}}, ends: any}"),
        True,
    ),
    "two arms": (
        [CHECK.replace("otherwise: e", "otherwise: b"), PAY, BOOK],
        "{exclusive: [{tool: pay}, {tool: book}]}",
        False,
    ),
    "one arm and its successor": (
        [CHECK.replace("otherwise: e", "otherwise: b"), PAY.replace("is_terminal: true", "next_step: b"), BOOK],
        "{exclusive: [{tool: pay}, {tool: book}]}",
        True,
    ),
    "an arm ends the run": ([CHECK, PAY.replace(", is_terminal: true", ""), BOOK, END], "{never: {tool: book}}", False),
    "a loop": (LOOP, "{never: {tool: pay}, when: $k == 3}", True),
    "a loop ends when it should": (LOOP, "{never: {tool: pay}, when: $k != $n}", False),
    "a loop without visits": (
        [*LOOP[:2], LOOP[2][:-1] + ", max_visits: 2}", LOOP[3]],
        "{never: {tool: pay}, when: $k == 3}",
        False,
    ),
    "a loop out of budget": ([*LOOP, "6"], "{never: {tool: pay}, when: $k == 2}", False),
    "a loop within its budget": ([*LOOP, "7"], "{never: {tool: pay}, when: $k == 2}", True),
    "`and` stops when it is decided": (
        [
            "{id: a, type: tool, tool: ask, output_key: v, on_error: skip}",
            "{id: d, type: condition, condition: defined($v) and $v, then: e, otherwise: p}",
            PAY,
            END,
        ],
        "{never: {tool: pay}, when: not defined($v)}",
        True,
    ),
    "a text": (
        ["{id: d, type: condition, condition: \"$letter in ['a'] and not $ok\", then: p, otherwise: e}", PAY, END],
        "{never: {tool: pay}, when: $letter != 'a' or $ok}",
        False,
    ),
}


def written(texts: list[str], rule: str) -> Pair:
    """Return a program whose steps are written down one by one; a number behind them is the budget."""
    *_, last = steps = [yaml.safe_load(text) for text in texts]
    budget = {"max_steps": steps.pop()} if isinstance(last, int) else {}
    guardrail = {"name": "rule", **yaml.safe_load(rule)}
    return Pair(-1, {"inputs": INPUTS, "tools": TOOLS, "guardrails": [guardrail], **budget, "steps": steps}, guardrail)


def test_spin_knows_what_we_know(search: Searcher) -> None:
    broken = search([written(texts, rule) for texts, rule, _ in KNOWN.values()])
    answers = {name: number in broken for number, name in enumerate(KNOWN)}
    assert answers == {name: is_broken for name, (_, _, is_broken) in KNOWN.items()}


@pytest.mark.parametrize("name", list(KNOWN))
def test_the_enumeration_knows_that_too(name: str) -> None:
    texts, rule, is_broken = KNOWN[name]
    found = truth(written(texts, rule).program)
    assert bool(found.broken["rule"] | found.debatable["rule"]) == is_broken


# -- mistakes in the translation ---------------------------------------------------------------------------------------


def both_sides(expressions: promela._Expressions, kind: str, parts: tuple[Any, ...]) -> promela.Value:
    values = [expressions.tree(part) for part in parts]
    every = " && ".join(exists for exists, _ in values)
    whole = (" && " if kind == "and" else " || ").join(value for _, value in values)
    return f"({every})", f"({whole})"


MISTAKES: Final[dict[str, tuple[type, str, Any]]] = {
    "nothing goes stale": (promela._Requires, "assigned", lambda self, variables: []),
    "nothing is owed": (promela._Followed, "ended", lambda self, status: []),
    "a retry is no performance": (promela._Once, "repeats", lambda self, part: []),
    "arms fall through": (promela._Process, "_arms", lambda self: set()),
    "nothing is undefined": (promela._Call, "can_start", lambda self: promela.TRUE),
    "visits are not counted": (promela._Process, "_bound", lambda self, number, step: []),
    "steps cost nothing": (promela._Process, "_budget", lambda self, cost: []),
    "`and` evaluates both sides": (promela._Expressions, "chain", both_sides),
}


@pytest.mark.slow
def test_mistakes_in_the_translation_are_seen(
    monkeypatch: pytest.MonkeyPatch, search: Searcher, tmp_path: Path
) -> None:
    """Each mistake is planted into every known program that it changes, and SPIN's answer to one must be false."""
    planted: list[tuple[str, bool]] = []
    processes: list[str] = []
    for texts, rule, is_broken in KNOWN.values():
        _, program, guardrail = written(texts, rule)
        for mistake, (owner, name, wrong) in MISTAKES.items():
            right = promela.process(program, guardrail, len(planted))
            with monkeypatch.context() as patch:
                patch.setattr(owner, name, wrong)
                text = promela.process(program, guardrail, len(planted))
            if text != right:
                planted.append((mistake, is_broken))
                processes.append(text)
    broken = searched(tmp_path, processes)
    seen = {mistake for number, (mistake, is_broken) in enumerate(planted) if is_broken != (number in broken)}
    assert seen == set(MISTAKES)
