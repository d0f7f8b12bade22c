"""What bodies cost: a run against the same steps written flat, and a check of many: `python benchmarks/bodies.py`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from check import table
from clock import multiple, take_turns
from commits import listening
from floors import Commit

from stepward.validator import ProgramValidator
from stepward.vm import ExecutionVM, MemoryJournal, Program, SQLiteJournal
from stepward.vm.journal.store import Journal

ITEMS: Final = 100
BESIDE: Final = 4
BODIES: Final = (250, 1_000)
RULED: Final = (100, 400)
PATIENCE: Final = 3_600
"""Seconds for the proofs of one program: the clock stops none of them."""

Case = tuple[Program, dict[str, Any]]
"""A program with its inputs."""

IN_A_ROW: Final = "one after the other"
HANDED: Final = "a `set` for each call"
AT_ONCE: Final = "four looks at once"
COMPARED: Final = {
    "items of four steps": [IN_A_ROW],
    "calls of four steps": [IN_A_ROW, HANDED],
    f"items, {BESIDE} at once": [IN_A_ROW, AT_ONCE],
    f"branches, {BESIDE} at once": [IN_A_ROW, AT_ONCE],
}
"""How the steps of each program are written flat: as strictly as can be, and with what they do the same as it."""

TOOLS: Final = {
    "look": {"effect": "read", "args": {"n": {"type": "integer"}}, "returns": {"type": "integer"}},
    "pay": {"effect": "write", "idempotent": True, "args": {"n": {"type": "integer"}}},
    "close": {"effect": "write", "idempotent": True},
}


class Tools:
    """Tools that return at once."""

    def has(self, name: str) -> bool:  # noqa: ARG002
        """Return True."""
        return True

    async def call(self, name: str, args: Any, context: Any) -> int:  # noqa: ARG002
        """Return 1."""
        return 1


def item_steps(item: object, last: str, end: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the four steps that are performed for an item; `last` is part of their ids."""
    return [
        {"id": f"look{last}", "type": "tool", "tool": "look", "args": {"n": item}},
        {"id": f"add{last}", "type": "set", "set": {"sum": f"$sum + $look{last}.output"}},
        {"id": f"ask{last}", "type": "condition", "condition": "$sum > 0", "then": f"note{last}"},
        {"id": f"note{last}", "type": "set", "set": {f"noted{last}": True}, **end},
    ]


def of_bodies() -> Program:
    """Return a program that performs a body for each item."""
    each = {"id": "each", "type": "for_each", "items": "$items", "as": "item", "carry": {"sum": 0}}
    steps = [{**each, "steps": item_steps("$item", "", {"is_terminal": True})}, {"id": "done", "type": "end"}]
    listed = {"type": "array", "maxItems": ITEMS, "items": {"type": "integer"}}
    return _program("bodies", steps, language=2, inputs={"items": listed})


def flat() -> Program:
    """Return the same steps, written one after the other."""
    steps: list[dict[str, Any]] = [{"id": "begin", "type": "set", "set": {"sum": 0}}]
    for number in range(ITEMS):
        going = {"next_step": f"look{number + 1}" if number + 1 < ITEMS else "done"}
        steps += item_steps(number, str(number), going)
    return _program("flat", [*steps, {"id": "done", "type": "end"}])


def handed_over() -> Program:
    """Return the same steps one after the other, with a step before each four that sets the argument of a call."""
    steps: list[dict[str, Any]] = []
    for number in range(ITEMS):
        steps += [{"id": f"hand{number}", "type": "set", "set": {f"item{number}": number}}]
        steps += going_on(alone(f"$item{number}", str(number)), f"hand{number + 1}" if number + 1 < ITEMS else "done")
    return _program("handed-over", [*steps, {"id": "done", "type": "end"}], language=2)


def looks_at_once() -> Program:
    """Return the same steps, with the four looks that run at once as sub-steps, and the others one after the other."""
    steps: list[dict[str, Any]] = []
    for first in range(0, ITEMS, BESIDE):
        four = {number: alone(number, str(number)) for number in range(first, first + BESIDE)}
        looks = [own[0] for own in four.values()]
        steps += [{"id": f"all{first}", "type": "parallel", "parallel_steps": looks, "next_step": f"add{first}"}]
        for number, own in four.items():
            after = "done" if number + 1 == ITEMS else f"add{number + 1}" if number + 1 in four else f"all{number + 1}"
            steps += going_on(own[1:], after)
    return _program("looks-at-once", [*steps, {"id": "done", "type": "end"}], language=2)


def of_calls() -> Program:
    """Return a program that calls another one, of the same four steps, so many times."""
    inputs = {"item": {"type": "integer"}}
    called = {"inputs": inputs, "tools": TOOLS, "steps": alone("$item", "")}
    steps = [{"id": f"call{one}", "type": "call", "program": "one", "args": {"item": one}} for one in range(ITEMS)]
    return _program("calls", [*steps, {"id": "done", "type": "end"}], language=2, programs={"one": called})


def at_once() -> Program:
    """Return a program that performs the body of four items at once."""
    each = {"id": "each", "type": "for_each", "items": "$items", "as": "item", "max_concurrency": BESIDE}
    steps = [{**each, "steps": alone("$item", "")}, {"id": "done", "type": "end"}]
    listed = {"type": "array", "maxItems": ITEMS, "items": {"type": "integer"}}
    return _program("at-once", steps, language=2, inputs={"items": listed})


def of_branches() -> Program:
    """Return a program of steps with four branches each, with the same four steps in every branch."""
    steps = []
    for first in range(0, ITEMS, BESIDE):
        branches = {f"branch{one}": {"steps": alone(one, str(one))} for one in range(first, first + BESIDE)}
        steps.append({"id": f"all{first}", "type": "parallel", "branches": branches})
    return _program("branches", [*steps, {"id": "done", "type": "end"}], language=2)


def alone(item: object, last: str) -> list[dict[str, Any]]:
    """Return the four steps of a body that has no total around it."""
    steps = item_steps(item, last, {"is_terminal": True})
    steps[1]["set"] = {f"sum{last}": f"1 + $look{last}.output"}
    steps[2]["condition"] = f"$sum{last} > 0"
    return steps


def going_on(steps: list[dict[str, Any]], to: str) -> list[dict[str, Any]]:
    """Return the steps of a body, of which the last one goes on to a step instead of ending it."""
    last = {name: value for name, value in steps[-1].items() if name != "is_terminal"}
    return [*steps[:-1], {**last, "next_step": to}]


def many(count: int, *, are_ruled: bool = False) -> Program:
    """Return a program of so many bodies, under one rule about all of them; with `are_ruled` each has another one."""
    steps: list[dict[str, Any]] = []
    for number in range(count):
        item = f"item{number}"
        pay = {"id": f"pay{number}", "type": "tool", "tool": "pay", "args": {"n": f"${item}"}, "is_terminal": True}
        asks = {"type": "condition", "condition": f"${item} > 3", "then": f"pay{number}", "otherwise": f"no{number}"}
        body = [{"id": f"ask{number}", **asks}, pay, {"id": f"no{number}", "type": "end"}]
        own = {"name": f"asked{number}", "protects": {"tool": "pay"}, "requires": {"step": f"ask{number}"}}
        rules = {"guardrails": [own]} if are_ruled else {}
        steps.append({"id": f"each{number}", "type": "for_each", "items": "$items", "as": item, "steps": body, **rules})
    listed = {"type": "array", "maxItems": 9, "items": {"type": "integer"}}
    steps.append({"id": "close", "type": "tool", "tool": "close"})
    rule = {"name": "closed-once", "at_most_once": {"tool": "close"}}
    return _program("many", steps, language=2, inputs={"items": listed}, guardrails=[rule])


def _program(name: str, steps: list[dict[str, Any]], **more: Any) -> Program:
    return Program.from_dict({"name": name, "inputs": {}, "tools": TOOLS, "steps": steps, **more})


def run(vm: ExecutionVM, program: Program, inputs: dict[str, Any]) -> None:
    """Run a program on a machine that knows it."""
    assert vm.run_sync(program, inputs).status == "SUCCESS"


def check(program: Program) -> None:
    """Check a program; all of it has to be proved."""
    found = ProgramValidator(program, time_limit=PATIENCE).validate()
    assert {one.verdict for one in found.properties} == {"proved"}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--bodies", type=int, nargs=2, default=BODIES, help="the sizes of programs that are checked")
    parser.add_argument("--ruled", type=int, nargs=2, default=RULED, help="the sizes of those with a rule in each body")
    given = parser.parse_args(arguments)
    head = ["", "flat", "in memory", "on SQLite", "records", "commits"]
    table("a run with bodies, of the same steps written flat", head, run_rows(given.rounds))
    rounds = max(1, given.rounds // 3)
    rows = [grown("one rule", given.bodies, rounds), grown("a rule in each", given.ruled, rounds, are_ruled=True)]
    table("a check of so many bodies", ["bodies", "ratio", "per body"], rows)


def run_rows(rounds: int) -> list[list[str]]:
    """Return a row for each program with bodies and each way to write its steps flat, as a multiple of that."""
    bodied, written = programs()
    runs = [*bodied.values(), *written.values()]
    in_memory = take_runs(MemoryJournal(), runs, rounds)
    with TemporaryDirectory() as folder:
        with closing(SQLiteJournal(Path(folder) / "runs.db")) as journal:
            on_disk = take_runs(journal, runs, rounds)
        with listening() as heard, closing(SQLiteJournal(Path(folder) / "heard.db")) as journal:
            counted = [_counted(journal, heard, one) for one in runs]
    places = {name: place for place, name in enumerate([*bodied, *written])}
    rows = []
    for name, flats in COMPARED.items():
        for other in flats:
            one, of = places[f"{ITEMS} {name}"], places[other]
            ratios = [multiple(times[one], times[of]) for times in (in_memory, on_disk)]
            shares = [*ratios, counted[one][0] / counted[of][0]]
            rows.append([f"{ITEMS} {name}", other, *(f"{share:.2f}" for share in shares), str(counted[one][1])])
    return rows


def programs() -> tuple[dict[str, Case], dict[str, Case]]:
    """Return the programs with bodies, and the ways to write their steps flat, by name, with their inputs."""
    items = {"items": list(range(ITEMS))}
    bodied: dict[str, Case] = {
        f"{ITEMS} items of four steps": (of_bodies(), items),
        f"{ITEMS} calls of four steps": (of_calls(), {}),
        f"{ITEMS} items, {BESIDE} at once": (at_once(), items),
        f"{ITEMS} branches, {BESIDE} at once": (of_branches(), {}),
    }
    return bodied, {IN_A_ROW: (flat(), {}), HANDED: (handed_over(), {}), AT_ONCE: (looks_at_once(), {})}


def _counted(journal: Journal, heard: list[Commit], one: Case) -> tuple[int, int]:
    """Return the number of records of a run, and that of its commits."""
    heard.clear()
    vm, (program, inputs) = ExecutionVM(Tools(), None, journal, checker=None), one
    return vm.run_sync(program, inputs).seq + 1, len(heard)


def take_runs(journal: Journal, runs: Sequence[Case], rounds: int) -> list[list[float]]:
    """Return the CPU of each run in each round."""
    vm = ExecutionVM(Tools(), None, journal, checker=None)
    return take_turns([partial(run, vm, *one) for one in runs], rounds)


def grown(name: str, sizes: Sequence[int], rounds: int, *, are_ruled: bool = False) -> list[str]:
    """Return the row of the checks of two programs, the larger as a multiple of the smaller."""
    few, most = sizes
    small, large = many(few, are_ruled=are_ruled), many(most, are_ruled=are_ruled)
    ratio = multiple(*take_turns([lambda: check(large), lambda: check(small)], rounds))
    return [f"{most} of {few}, {name}", f"{ratio:.2f}", f"{ratio * few / most:.2f}"]


if __name__ == "__main__":
    main()
