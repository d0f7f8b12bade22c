"""Null is followed through branches: what the checker takes for not null is not null in any run of the machine."""

from __future__ import annotations

from random import Random
from typing import Any, Final

import pytest

from machines import Bench
from sizes import asked_for
from stepward.validator import ProgramValidator
from stepward.validator.analysis import not_null
from stepward.validator.analysis.assignment import Effect
from stepward.vm import Program

SIZE: Final = asked_for("STEPWARD_NARROWING", 8, 60)
RUNS: Final = 12

CARD: Final = {"type": ["object", "null"], "properties": {"no": {"type": "string"}}, "required": ["no"]}
TOOLS: Final = {
    "find": {"effect": "read", "returns": {"type": ["string", "null"]}},
    "count": {"effect": "read", "returns": {"type": ["integer", "null"]}},
    "card": {"effect": "read", "returns": CARD},
    "list": {"effect": "read", "returns": {"type": ["array", "null"], "items": {"type": "string"}}},
    "name": {"effect": "read", "returns": {"type": "string"}},
    "use": {"effect": "read", "args": {"x": {"type": "string"}}},
    "add": {"effect": "read", "args": {"x": {"type": "number"}}},
    "send": {"effect": "read", "args": {"x": {"type": "object"}}},
}
GIVES: Final[dict[str, list[Any]]] = {
    "find": [None, "", "a"],
    "count": [None, 0, 5],
    "card": [None, {"no": "1"}],
    "list": [None, [], ["a"]],
    "name": ["a"],
}
ASKED: Final = {
    "t": ["$t == null", "$t != null", "not ($t == null)", "$t == 'a'", "$t != 'a'", "$t in ['a', 'b']", "len($t) > 0"],
    "n": ["$n == null", "$n != null", "$n > 3", "$n != 5", "$n + 1 > 3", "not $n < 4", "$n in [1, 5]"],
    "c": ["$c == null", "$c != null", "defined($c.no)", "$c.no == '1'", "$c != null and $c.no == '1'"],
    "l": ["$l == null", "$l != null", "len($l) > 0", "'a' in $l", "$l contains 'a'"],
}
READ: Final = {"t": ("use", "$t"), "n": ("add", "$n"), "c": ("send", "$c"), "l": ("use", "$c.no")}
GIVERS: Final = {"t": ["find", "find", "name"], "n": ["count"], "c": ["card"], "l": ["list"]}
SET: Final = {"t": ["'x'", "$t", None], "n": [0, "$n", "$n + 1"], "c": [None, "$c", {"no": "2"}], "l": [["a"], None]}


def random_program(seed: int) -> dict[str, Any]:
    """Return a program that gives, tests, assigns and hands over names that may be null, with loops."""
    chance = Random(seed)
    names = chance.sample(sorted(ASKED), chance.choice([1, 1, 2]))
    size = chance.randint(5, 9)
    ids = [f"s{number}" for number in range(size)] + ["done"]
    steps: list[dict[str, Any]] = []
    for number, name in enumerate(names):
        giver = chance.choice(GIVERS[name][:2])
        steps.append({"id": f"g{number}", "type": "tool", "tool": giver, "output_key": name})
        steps[-1]["next_step"] = f"g{number + 1}" if number + 1 < len(names) else "s0"
    for number in range(size):
        name = chance.choice(names)

        def target(number: int = number) -> str:
            back = chance.random() < 0.12
            return ids[chance.randrange(number + 1) if back else min(number + chance.choice([1, 1, 2, 3]), size)]

        step: dict[str, Any] = {"id": ids[number]}
        kind = chance.choice(["condition", "condition", "condition", "use", "use", "set", "give"])
        if kind == "condition" and number < size - 1:
            tests = [chance.choice(ASKED[chance.choice([name, *names])]) for _ in range(chance.choice([1, 1, 2]))]
            if chance.random() < 0.25:
                cases = [{"when": test, "then": target()} for test in tests]
                step |= {"type": "condition", "cases": cases, "otherwise": target()}
            else:
                text = chance.choice([" and ", " or "]).join(tests)
                text = f"not ({text})" if chance.random() < 0.2 else text
                step |= {"type": "condition", "condition": text, "then": target(), "otherwise": target()}
        elif kind == "set":
            step |= {"type": "set", "set": {name: chance.choice(SET[name])}, "next_step": target()}
        elif kind == "give":
            step |= {"type": "tool", "tool": chance.choice(GIVERS[name]), "output_key": name, "next_step": target()}
            if chance.random() < 0.3:
                step["error_step"] = target()
        else:
            tool, value = READ[name]
            value = value if "c" in names or name != "l" else "$l"
            step |= {"type": "tool", "tool": tool, "args": {"x": value}, "next_step": target()}
            if chance.random() < 0.3:
                step["error_step"] = target()
        steps.append(step)
    steps.append({"id": "done", "type": "end"})
    return {"name": "null", "inputs": {}, "tools": TOOLS, "max_steps": 40, "steps": steps}


def seen_null(program: Program, seed: int) -> set[str]:
    """Return the steps that failed before they started, or could not be evaluated, in runs with answers by chance."""
    found: set[str] = set()
    calls = {step.id: step.tool for step in program.steps if step.type == "tool"}
    for run in range(RUNS):
        chance = Random(f"{seed}/{run}")

        def answer(tool: str, chance: Random = chance) -> Any:
            def give(**_: Any) -> Any:
                return RuntimeError("no") if chance.random() < 0.1 else chance.choice(GIVES.get(tool, ["done"]))

            return give

        bench = Bench({step: answer(tool) for step, tool in calls.items()})
        bench.run(program)
        for body in bench.bodies():
            error = str(body.get("error", ""))
            if "visits" not in error and ("can't be evaluated" in error or "argument" in error or "undefined" in error):
                found.add(body["step"])
    return found


def disagreements(sizes: range) -> tuple[list[str], int, int]:
    """Return where a run fails at null though the checker says nothing, and how many steps were narrowed and failed."""
    wrong: list[str] = []
    narrowed = failed = 0
    for seed in sizes:
        program = Program.from_dict(random_program(seed))
        validator = ProgramValidator(program)
        report = validator.validate()
        codes = {"SW201", "SW202", "SW203", "SW205", "SW207", "SW210"}
        told = {finding.step for finding in report.findings if finding.code in codes}
        unreachable = any(finding.code in ("SW101", "SW106") for finding in report.findings)
        if unreachable:
            continue
        broken = seen_null(program, seed)
        failed += len(broken)
        narrowed += sum(bool(step.type == "tool" and step.args and step.id not in told) for step in program.steps)
        wrong += [f"seed {seed}: `{step}`" for step in sorted(broken - told)]
    return wrong, narrowed, failed


def test_what_is_taken_for_not_null_is_not_null_in_any_run() -> None:
    wrong, narrowed, failed = disagreements(range(SIZE))
    assert wrong == []
    assert narrowed > SIZE / 8, "many arguments are right only because null was ruled out before"
    assert failed > SIZE / 8, "many are not"


NULLABLE: Final = """
name: narrowed
inputs: {}
tools:
  find: {effect: read, returns: {type: [string, "null"]}}
  use: {effect: read, args: {id: {type: string}}}
steps:
  - {id: find, type: tool, tool: find, output_key: who, next_step: known}
  - KNOWN
  - {id: between, type: set, set: {other: 1}, next_step: go}
  - {id: again, type: tool, tool: find, output_key: who, next_step: go}
  - {id: go, type: tool, tool: use, args: {id: $who}, is_terminal: true}
  - {id: nobody, type: end, outcome: failure}
"""


@pytest.mark.parametrize(
    ("known", "is_right"),
    [
        ("condition: $who == null, then: nobody, otherwise: go", True),
        ("condition: $who == null, then: nobody, otherwise: between", True),
        ("condition: $who == null, then: nobody, otherwise: again", False),
        ("condition: $who == null, then: go, otherwise: nobody", False),
        ("condition: $who != null, then: go, otherwise: nobody", True),
        ("condition: null != $who, then: go, otherwise: nobody", True),
        ("condition: not ($who == null), then: go, otherwise: nobody", True),
        ("condition: not ($who != null), then: nobody, otherwise: go", True),
        ("condition: $who == 'a', then: go, otherwise: nobody", True),
        ("condition: $who == 'a', then: nobody, otherwise: go", False),
        ("condition: $who != 'a', then: go, otherwise: nobody", False),
        ("condition: $who != null and len($who) > 1, then: go, otherwise: nobody", True),
        ("condition: $who != null or defined($who), then: go, otherwise: nobody", False),
        ("condition: $who == null or $who == '', then: nobody, otherwise: go", True),
        ("condition: $who == null and $who != 'a', then: nobody, otherwise: go", True),
        ("condition: defined($who), then: go, otherwise: nobody", False),
        ("condition: \"$who in ['a', 'b']\", then: go, otherwise: nobody", True),
        ("condition: \"$who not in ['a', 'b']\", then: go, otherwise: nobody", False),
        ("cases: [{when: $who == null, then: nobody}, {when: $who == 'a', then: between}], otherwise: go", True),
        ("cases: [{when: $who == 'a', then: between}, {when: $who == null, then: nobody}], otherwise: go", True),
        ("cases: [{when: $who == 'a', then: nobody}, {when: $who == 'b', then: between}], otherwise: go", False),
    ],
)
def test_a_test_for_null_tells_the_branches_behind_it(known: str, is_right: bool) -> None:
    text = NULLABLE.replace("KNOWN", f"{{id: known, type: condition, {known}}}")
    report = ProgramValidator(Program.from_yaml(text)).validate()
    codes = {finding.code for finding in report.findings} - {"SW102", "SW303"}
    assert codes == (set() if is_right else {"SW207"})


def test_null_is_followed_round_a_loop_and_where_paths_meet() -> None:
    loop = NULLABLE.replace("is_terminal: true", "next_step: again, max_visits: 3").replace(
        "next_step: go}", "next_step: NEXT}"
    )
    known = "{id: known, type: condition, condition: $who == null, then: nobody, otherwise: go}"
    for following, codes in (("known", set()), ("go", {"SW207"})):
        text = loop.replace("KNOWN", known).replace("NEXT", following)
        report = ProgramValidator(Program.from_yaml(text)).validate()
        assert {finding.code for finding in report.findings} - {"SW102", "SW107", "SW105", "SW104"} == codes


CARDS: Final = """
name: nullable
inputs: {}
tools:
  find: {effect: read, returns: {type: [object, "null"], properties: {vip: {type: boolean}}, required: [vip]}}
  list: {effect: read, returns: {type: [array, "null"]}}
  look: {effect: read}
steps:
  - {id: find, type: tool, tool: TOOL, output_key: found}
  - {id: known, type: condition, condition: "CONDITION", then: good, otherwise: bad}
  - {id: good, type: end}
  - {id: bad, type: end, outcome: failure}
"""


@pytest.mark.parametrize(
    ("tool", "condition", "codes"),
    [
        ("find", "$found != null and $found.vip", set()),
        ("find", "$found == null or not $found.vip", set()),
        ("find", "not ($found == null) and $found.vip", set()),
        ("find", "defined($found.vip) and $found.vip", set()),
        ("find", "$found.vip", {"SW202"}),
        ("find", "$found == null and $found.vip", {"SW202", "SW303"}),
        ("find", "$found == null", set()),
        ("find", "$found == $found", {"SW203"}),
        ("list", "$found != null and len($found) > 0", set()),
        ("list", "null == $found or len($found) > 0", set()),
        ("list", "len($found) > 0", {"SW203"}),
        ("look", "$found != null and $found.vip", set()),  # of what nobody declares the uses say that it is nullable
        ("look", "$found != null and len($found) > 0", set()),
    ],
)
def test_objects_and_arrays_may_be_compared_with_null(tool: str, condition: str, codes: set[str]) -> None:
    program = Program.from_yaml(CARDS.replace("TOOL", tool).replace("CONDITION", condition))
    assert {finding.code for finding in ProgramValidator(program).validate().findings} - {"SW212"} == codes
    if "SW203" not in codes:  # then the machine has a value for it in each state, or SW202 says so
        for value in (None, {"vip": True}, {"vip": False}) if "vip" in condition else (None,):
            run = Bench({tool: value}).run(program)
            assert (run.reason == "error") <= ("SW202" in codes), run.error


@pytest.mark.parametrize("mistake", ["a branch tells the other's facts", "an assignment leaves null where it was"])
def test_a_mistake_of_the_data_flow_is_caught(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = not_null.NotNull._effect

    def effect(self: Any, number: int, way: Any) -> Effect:
        found = real(self, number, way)
        if mistake.startswith("an assignment"):
            return Effect(found.defined, frozenset())
        other = {"then": "otherwise", "otherwise": "then"}.get(way.branch)
        return real(self, number, way._replace(branch=other)) if other else found

    monkeypatch.setattr(not_null.NotNull, "_effect", effect)
    assert any(disagreements(range(seed, seed + 1))[0] for seed in range(60, 72))


def test_a_rule_is_not_proved_by_a_field_of_what_may_be_null() -> None:
    text = """
name: unfollowed
inputs: {}
tools:
  find: {effect: read, returns: {type: [object, "null"], properties: {vip: {type: boolean}}, required: [vip]}}
  note: {effect: read}
guardrails: [{name: noted, followed_by: {first: {tool: find}, then: {tool: note}}}]
steps:
  - {id: find, type: tool, tool: find, output_key: found}
  - {id: keep, type: set, set: {vip: $found.vip}}
  - {id: note, type: tool, tool: note}
"""
    report = ProgramValidator(Program.from_yaml(text)).validate()
    assert [one.verdict.value for one in report.properties if one.rule == "noted"] == ["violated"]
    guarded = text.replace(
        "keep, type: set, set: {vip: $found.vip}", "keep, type: set, set: {vip: $found != null and $found.vip}"
    )
    report = ProgramValidator(Program.from_yaml(guarded)).validate()
    assert [one.verdict.value for one in report.properties if one.rule == "noted"] == ["proved"]
