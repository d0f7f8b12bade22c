"""Random: pairs of versions and states: what may move breaks no rule of either, and what may not names a rule.

By day there are few of them, and 500 with `STEPWARD_MANY`. The rules are judged by a model that stands here alone.
"""

from __future__ import annotations

import copy
import re
from collections import Counter
from random import Random
from typing import Any, Final

import pytest

from sizes import size
from stepward.validator import check_program
from stepward.vm import ExecutionVM, MemoryJournal, Program, RunRefused, Suspend
from stepward.vm.journal.verify import verify
from stepward.vm.machine.replay import replayer

PAIRS: Final = size(15, 500)
NUMBER: Final = {"type": "integer", "minimum": 0, "maximum": 3}
ANSWER: Final = {"enum": ["yes", "no"]}
TOOLS: Final[dict[str, Any]] = {
    "wait": {"effect": "none", "suspends": True, "returns": ANSWER},
    "count": {"effect": "read", "returns": NUMBER},
    "pay": {"effect": "write", "args": {"sum": NUMBER}},
    "book": {"effect": "write", "args": {}},
    "mail": {"effect": "write", "args": {}},
}
WRITES: Final = ("pay", "book", "mail")


def drawn(chance: Random) -> dict[str, Any]:
    """Return a program of two to four steps, a step that waits, and up to six steps with branches."""
    steps: list[dict[str, Any]] = []
    for number in range(chance.randint(1, 3)):
        steps.append(call(chance, f"a{number}"))
    if not any(step.get("tool") == "count" for step in steps):
        steps.insert(0, {"id": "a", "type": "tool", "tool": "count", "output_key": "n"})
    steps.append({"id": "wait", "type": "tool", "tool": "wait", "output_key": "answer"})
    steps += rest(chance)
    rules = [rule(chance, f"g{number}") for number in range(chance.randint(1, 3))]
    return {"name": "drawn", "inputs": {"k": NUMBER}, "tools": TOOLS, "guardrails": rules, "steps": steps}


def call(chance: Random, name: str) -> dict[str, Any]:
    tool = chance.choice(["count", *WRITES, "mail"])
    step: dict[str, Any] = {"id": name, "type": "tool", "tool": tool}
    if tool == "count":
        step["output_key"] = "n"
    if tool == "pay":
        step["args"] = {"sum": chance.choice(["$k", 1, 2])}
    return step


def rest(chance: Random) -> list[dict[str, Any]]:
    """Return the steps behind the wait: a condition on the answer or a number, two arms, and what comes after."""
    texts = ["$answer == 'yes'", "$n > 1", "$k >= 2", "$answer == 'yes' and $n > 0"]
    ask = {"id": "agreed", "type": "condition", "condition": chance.choice(texts), "then": "b0", "otherwise": "c0"}
    arms = [call(chance, "b0") | {"next_step": "d0"}, call(chance, "c0") | {"next_step": chance.choice(["d0", "e0"])}]
    after = [call(chance, "d0"), call(chance, "e0")]
    if chance.random() < 0.3:
        after[0] |= {"next_step": "over"}
        arms[1]["next_step"] = "e0"
    return [ask, *arms, *after, {"id": "over", "type": "end", "outcome": chance.choice(["success", "failure"])}]


def rule(chance: Random, name: str) -> dict[str, Any]:
    one, two = ({"tool": tool} for tool in chance.sample(WRITES, 2))
    kinds: list[dict[str, Any]] = [
        {"protects": one, "requires": chance.choice([two, {"step": "agreed", "branch": "then"}])},
        {"at_most_once": one},
        {"exclusive": [one, two]},
        {"followed_by": {"first": one, "then": two}, **chance.choice([{}, {"ends": "success"}])},
        {"never": {"tool": "pay"}, "when": chance.choice(["$k > 2", "$args.sum > 1"])},
    ]
    return {"name": name, **chance.choice(kinds)}


def changed(data: dict[str, Any], chance: Random) -> dict[str, Any]:
    """Return another version: other steps behind the wait, other rules, or both."""
    found = copy.deepcopy(data)
    at = next(number for number, step in enumerate(found["steps"]) if step["id"] == "wait")
    if chance.random() < 0.8:
        found["steps"][at + 1 :] = rest(chance)
    if chance.random() < 0.3:
        del found["steps"][:at]
        if chance.random() < 0.5:
            found["steps"].insert(0, {"id": "a", "type": "tool", "tool": "count", "output_key": "n"})
    if chance.random() < 0.6:
        found["guardrails"] = [one for one in found["guardrails"] if chance.random() < 0.6]
        found["guardrails"].append(rule(chance, "h"))
    return found


def broken(rules: list[dict[str, Any]], history: list[tuple[str, str, Any]], k: int, *, succeeds: bool) -> list[str]:
    """Return the rules that a joined history breaks: it has (`start`, tool, argument) and (`branch`, step, arm)."""
    found = []
    for one in rules:
        starts = [(number, tool, arg) for number, (kind, tool, arg) in enumerate(history) if kind == "start"]
        names = [tool for _, tool, _ in starts]
        if "protects" in one:
            asked = one["requires"]
            came = ("branch", "agreed", "then") if "step" in asked else ("start", asked["tool"])
            bad = any(
                tool == one["protects"]["tool"] and not any(event[: len(came)] == came for event in history[:number])
                for number, tool, _ in starts
            )
        elif "at_most_once" in one:
            bad = names.count(one["at_most_once"]["tool"]) > 1
        elif "exclusive" in one:
            bad = all(each["tool"] in names for each in one["exclusive"])
        elif "followed_by" in one:
            first, then = one["followed_by"]["first"]["tool"], one["followed_by"]["then"]["tool"]
            last = max((number for number, tool in enumerate(names) if tool == first), default=None)
            owes = last is not None and then not in names[last + 1 :]
            bad = owes and (succeeds or "ends" not in one)
        else:
            bad = any(tool == "pay" and (k > 2 if "$k" in one["when"] else arg > 1) for _, tool, arg in starts)
        found += [one["name"]] if bad else []
    return found


class Play:
    """One run of a pair: moved, answered, and judged."""

    def __init__(self, data: dict[str, Any], seed: int, checker: Any = None) -> None:
        self.chance = Random(f"world {seed}")
        self.k = self.chance.randint(0, 3)
        world = Random(f"counts {seed}")
        tools: dict[str, Any] = {name: (lambda **_: None) for name in WRITES}
        tools |= {"wait": lambda: Suspend(None), "count": lambda: world.randint(0, 3)}
        tools["pay"] = lambda sum: None
        tools |= {name: (lambda: None) for name in ("book", "mail")}
        self.journal = MemoryJournal()
        self.vm = ExecutionVM(tools, journal=self.journal, checker=checker)
        self.run = self.vm.run_sync(Program.from_dict(data), {"k": self.k}, run_id="r", accept=CODES)

    def history(self, *names: str) -> list[tuple[str, str, Any]]:
        found: list[tuple[str, str, Any]] = []
        for name in names:
            for record in self.vm.get_sync(name).trace:
                if record.kind == "intent":
                    found.append(("start", record.tool, dict(record.args).get("sum")))  # type: ignore[union-attr]
                elif record.kind == "branched":
                    found.append(("branch", record.step, record.branch))  # type: ignore[union-attr]
        return found


CODES: Final = tuple(f"SW{number}" for number in range(100, 1_000))


def play(seed: int, counts: Counter[str]) -> None:
    chance = Random(f"pair {seed}")
    first = drawn(chance)
    other = changed(first, chance)
    begun = Play(first, seed, check_program)
    if begun.run.status != "SUSPENDED":
        counts["ended before"] += 1
        return
    try:
        begun.vm.migrate_sync("r", Program.from_dict(other))
    except RunRefused as error:
        names = {one["name"] for one in (*first["guardrails"], *other["guardrails"])}
        text = str(error)
        by_rule = re.search(r"SW40\d|has broken rule", text)
        assert by_rule is None or any(f"`{name}`" in text for name in names) or "SW408" in text, (seed, text)
        assert re.search(r"SW\d{3}|has broken rule|has no step|nothing is left", text), (seed, text)
        assert begun.vm.get_sync("r").status == "SUSPENDED"
        counts[re.search(r"SW\d{3}|has broken rule|no step|nothing", text)[0]] += 1  # type: ignore[index]
        return
    counts["moved"] += 1
    rules = [*first["guardrails"], *(one for one in other["guardrails"] if one not in first["guardrails"])]
    for answer in ("yes", "no"):
        again = Play(first, seed, check_program)
        again.vm.migrate_sync("r", Program.from_dict(other))
        run = again.vm.resume_sync(again.vm.get_sync("r").suspensions[0].token, answer)
        assert run.id == "r~1"
        history = again.history("r", "r~1")
        said = [record for record in run.trace if record.kind == "rejected"]
        assert said == [], (seed, said)
        assert broken(rules, history, again.k, succeeds=run.status == "SUCCESS") == [], (seed, answer, history)
        for name in ("r", "r~1"):
            faults = verify(again.journal, name, replay=replayer(again.journal, name)).faults
            assert faults == (), (seed, [fault.what for fault in faults])


@pytest.mark.slow
def test_what_may_move_breaks_no_rule_and_what_may_not_names_one() -> None:
    counts: Counter[str] = Counter()
    seed = 0
    while sum(counts.values()) - counts["ended before"] < PAIRS:
        play(seed, counts)
        seed += 1
    assert PAIRS // 10 < counts["moved"] < PAIRS - PAIRS // 10, counts


def test_the_model_finds_each_kind_of_broken_rule() -> None:
    pay, book = {"tool": "pay"}, {"tool": "book"}
    history = [("start", "pay", 2), ("branch", "agreed", "then"), ("start", "pay", 1)]
    rules = [
        {"name": "a", "protects": pay, "requires": {"step": "agreed", "branch": "then"}},
        {"name": "b", "at_most_once": pay},
        {"name": "c", "exclusive": [pay, book]},
        {"name": "d", "followed_by": {"first": pay, "then": book}},
        {"name": "e", "never": pay, "when": "$args.sum > 1"},
    ]
    assert broken(rules, history, 0, succeeds=True) == ["a", "b", "d", "e"]
    assert broken(rules, [("start", "pay", 1), ("start", "book", None)], 0, succeeds=True) == ["a", "c"]
