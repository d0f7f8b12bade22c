"""Small programs that ask for more: what failed of items, texts that are joined, and steps behind a follow-up.

Each takes a program of another generator and puts something into it, by chance of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from random import Random
from typing import Any, Final

from bodied_programs import bodied_program
from branched_programs import branched_program
from called_programs import called_program
from concurrent_programs import concurrent_program
from ordered_programs import ordered_program
from small_tools import INPUTS, KINDS, TOOLS

Data = dict[str, Any]

ERRORS: Final = (
    "len($E.errors) > 0",
    "len($E.errors) == 0",
    "len($E.errors) == 1",
    "len($E.errors) > 1",
    "defined($E.errors[0])",
    "not defined($E.errors[1])",
    "defined($E.errors)",
    "not defined($E.errors)",
    "defined($E.errors[0]) and $E.errors[0].index == 0",
    "defined($E.errors[0]) and $E.errors[0].index > 0",
    "defined($E.errors[1]) and $E.errors[1].index == 1",
    "defined($E.errors[0]) and $E.errors[0].index < 0",
    "defined($E.errors[0]) and $E.errors[0].error_name == 'Declared'",
    "defined($E.errors[0]) and $E.errors[0].error_name != 'Declared'",
    "defined($E.errors[0].error)",
)
"""What asks for the errors of the items of the step E."""
NAMED: Final = tuple(
    f"defined($E.errors[0]) and $E.errors[0].error_name {sign} '{name}'"
    for sign, name in (("==", "Unexpected"), ("==", "Declined"), ("!=", "BadOutput"), ("==", "Visits"), ("==", "Other"))
)
SIZES: Final = (
    "len($E.output) > 2",
    "len($E.output) > 1",
    "len($E.output) == 0",
    "len($E.output) < 2",
    "defined($E.output[0])",
    "defined($E.output[1])",
    "defined($E.output[2])",
    "len($E.errors) > 2",
    "len($E.errors) > 1",
    "defined($E.errors[2])",
    "defined($E.errors[0]) and $E.errors[0].index > 1",
    "defined($E.errors[1]) and $E.errors[1].index > 0",
)
"""What asks how many items the step E had."""
OF_CALLS: Final = ("Unexpected", "Declined", "Busy", "BadOutput", "Undefined", "BadValue", "BadArguments", "Refused")
OF_ITEMS: Final = (*OF_CALLS, "Timeout", "Declared", "Uncovered", "Visits", "TooManyItems")
NAMES: Final = (
    *(f"defined($E.errors[0]) and $E.errors[0].error_name == '{name}'" for name in OF_ITEMS),
    *(f"defined($E.errors[0]) and $E.errors[0].error_name not in {[*names]}" for names in (OF_CALLS, OF_ITEMS)),
    "defined($E.errors[1]) and $E.errors[1].error_name not in ['Declared', 'Visits']",
)
"""What asks for the names of errors, also for those that no item can have."""
NUMBERS: Final = ("$i > 1", "$i > 0", "$i < 1", "$i == 2", "$i < 0")
"""What asks for the number of an item."""


# -- errors of items ---------------------------------------------------------------------------------------------------


def with_errors(data: Data, chance: Random, pool: tuple[str, ...] = (*ERRORS, *NAMED)) -> Data:
    """Return a program with for_each steps that asks, behind one of them, what failed of its items.

    `pool` is what may be asked.
    """
    steps = [dict(step) for step in data["steps"]]
    place = next(number for number, step in enumerate(steps) if step["id"] == "each")
    each = steps[place]
    if chance.random() < 0.7:
        each["on_item_error"] = "skip"
    bodies = [inner for inner in each.get("steps", ()) if inner["type"] == "for_each"]
    if bodies and chance.random() < 0.5:
        each["steps"] = [_asks_inside(step, bodies[0], chance, pool) for step in each["steps"]]
    asked = _asked("each", chance, pool)
    ways = ["late", each["next_step"]] if chance.random() < 0.5 else [each["next_step"], "late"]
    ask = {"id": "asks", "type": "condition", "condition": asked, "then": ways[0], "otherwise": ways[1]}
    late: Data = {"id": "late", "type": "tool", "tool": "book", "on_error": "skip"}
    late |= {"is_terminal": True} if chance.random() < 0.4 else {"next_step": each["next_step"]}
    _settle(steps, each["next_step"])
    each["next_step"] = "asks"
    if "error_step" in each and chance.random() < 0.4:
        each["error_step"] = "asks"
    steps[place + 1 : place + 1] = [ask, late]
    if chance.random() < 0.3:
        _ask_again(steps[place + 3 :], chance, pool)
    rules = [*data["guardrails"], _about_late(each, chance)]
    if chance.random() < 0.3:
        rules.append({"name": "asking", "never": {"tool": "book"}, "when": _asked("each", chance, pool)})
    return {**data, "tools": {**data["tools"], "book": data["tools"].get("book", TOOLS["book"])}, "steps": steps} | {
        "guardrails": rules
    }


def _settle(steps: list[Data], name: str) -> None:
    """Make the successor of an arm explicit, which would end the run else."""
    for step, following in pairwise(steps):
        is_silent = step["type"] not in ("condition", "end") and not {"next_step", "is_terminal"} & set(step)
        if step["id"] == name and is_silent:
            step.update({"is_terminal": True} if "outcome" in step else {"next_step": following["id"]})


def _asked(name: str, chance: Random, pool: tuple[str, ...]) -> str:
    text = chance.choice(pool).replace("$E", f"${name}")
    is_guarded = text.startswith(("defined(", "not defined("))
    what = f"${name}.output" if f"${name}.output" in text else f"${name}.errors"
    return text if is_guarded or chance.random() < 0.5 else f"defined({what}) and {text}"


def _asks_inside(step: Data, inner: Data, chance: Random, pool: tuple[str, ...]) -> Data:
    """Return a step of a body, which asks for the errors of a for_each step beside it if it is a condition."""
    if step is inner:
        return {**step, "on_item_error": "skip"} if chance.random() < 0.7 else step
    return {**step, "condition": _asked(inner["id"], chance, pool)} if "condition" in step else step


def _ask_again(steps: list[Data], chance: Random, pool: tuple[str, ...]) -> None:
    asking = [step for step in steps if "condition" in step and step["id"] != "after"]
    if asking:
        step = chance.choice(asking)
        asked = _asked("each", chance, pool)
        step["condition"] = chance.choice([asked, f"({asked}) or ({step['condition']})"])


def _about_late(each: Data, chance: Random) -> Data:
    """Return a rule that a run breaks, or keeps, by what was asked."""
    inside = [step["id"] for step in (*each.get("steps", ()), *([each["do"]] if "do" in each else ()))]
    other = {"step": chance.choice(inside)}
    late = {"step": "late"}
    return {"name": "late"} | chance.choice(
        [
            {"never": late},
            {"never": late},
            {"protects": late, "requires": other},
            {"exclusive": [late, other]},
            {"protects": late, "requires": {"step": "asks", "branch": "then"}},
            {"at_most_once": late},
            {"followed_by": {"first": {"step": "asks"}, "then": late}},
        ]
    )


def with_numbers(data: Data, chance: Random) -> Data:
    """Return a program with a rule about the numbers of the items of its for_each step."""
    steps = [dict(step) for step in data["steps"]]
    each = next(step for step in steps if step["id"] == "each")
    each.setdefault("index_as", "i")
    calls = [step["id"] for step in (*each.get("steps", ()), *([each["do"]] if "do" in each else ())) if "tool" in step]
    rule = {"never": {"step": chance.choice(calls)} if calls else {"effect": "write"}, "when": chance.choice(NUMBERS)}
    each["guardrails"] = [*each.get("guardrails", ()), {"name": "numbered", **rule}]
    return {**data, "steps": steps}


def with_errors_at_once(data: Data, chance: Random, pool: tuple[str, ...] = ERRORS) -> Data:
    """Return a program whose items run at once, and which asks behind them what failed; `pool` is what may be asked."""
    steps = [dict(step) for step in data["steps"]]
    place = next(number for number, step in enumerate(steps) if step["id"] == "both")
    both = steps[place]
    following = both.pop("next_step", None)
    both.pop("is_terminal", None)
    if following is None:
        following = "last"
        steps.insert(place + 1, {"id": "last", "type": "end", "outcome": "success"})
    _settle(steps, following)
    asked = chance.choice(pool).replace("$E", "$both")
    ask: Data = {"id": "asks", "type": "condition", "condition": asked, "then": "late", "otherwise": following}
    late: Data = {"id": "late", "type": "tool", "tool": "pay", "on_error": "skip", "next_step": following}
    both["next_step"] = "asks"
    if both["on_item_error"] == "fail" and both.get("on_error") != "skip" and chance.random() < 0.6:
        both["error_step"] = "asks"
    steps[place + 1 : place + 1] = [ask, late]
    inside = [step["id"] for step in both["steps"] if step["type"] == "tool"]
    rules: list[Data] = [{"never": {"step": "late"}}]
    rules += [{"protects": {"step": "late"}, "requires": {"step": one}} for one in inside[:1]]
    rules += [{"exclusive": [{"step": "late"}, {"step": one}]} for one in inside[:1]]
    rules.append({"never": {"step": "late"}, "when": chance.choice(pool).replace("$E", "$both")})
    found = [*data["guardrails"], {"name": "late", **chance.choice(rules)}]
    return {**data, "guardrails": found, "steps": steps}


# -- texts that are joined ---------------------------------------------------------------------------------------------

_COMPARED: Final = re.compile(r"\$(\w+) (==|!=) '([abc])'")


def with_joins(data: Data, chance: Random) -> Data:
    """Return a program of which some questions about texts are about texts that it joins."""
    texts = [name for name in data["inputs"] if KINDS.get(name) == "letter"]
    found = data
    if not texts:
        found, texts = {**data, "inputs": {**data["inputs"], "mode": INPUTS["mode"]}}, ["mode"]

    def joined(match: re.Match[str]) -> str:
        name, sign, letter = match.groups()
        return _joined(f"${name}", sign, letter, [f"${one}" for one in texts], chance)

    kept = {name: value for name, value in found.items() if name == "programs"}  # it has inputs of its own
    found = {**_changed(found, lambda text: _COMPARED.sub(joined, text)), **kept}
    if found.get("language") != 2:
        return found | {"language": 2}
    rule = _joining_rule(found, texts, chance)
    return {**found, "guardrails": [*found["guardrails"], *rule]}


def _joined(text: str, sign: str, letter: str, others: list[str], chance: Random) -> str:
    """Return a question about a text that is joined with another one."""
    other = chance.choice(others)
    ends = chance.choice("abc")
    return chance.choice(
        [
            f"{text} {sign} '{letter}'",
            f"{text} + 'b' {sign} '{letter}b'",
            f"'a' + {text} {sign} 'a{letter}'",
            f"{text} + {other} {sign} '{letter}{ends}'",
            f"{other} + {text} {sign} '{ends}{letter}'",
            f"{text} + {other} + {text} {sign} '{letter}{ends}{letter}'",
            f"{text} + '' {sign} {other}",
            f"{text} + '-' + {other} {sign} '{letter}-{ends}'",
        ]
    )


def _joining_rule(data: Data, texts: list[str], chance: Random) -> list[Data]:
    """Return a rule that joins texts, of an argument if a tool has one, or none."""
    used = sorted({part["tool"] for part in _all_parts(data["steps"]) if "tool" in part})
    if not used or chance.random() < 0.3:
        return []
    tool = "mail" if "mail" in used and chance.random() < 0.6 else chance.choice(used)
    text = "$args.x" if tool == "mail" else f"${chance.choice(texts)}"
    when = _joined(text, chance.choice(("==", "!=")), chance.choice("abc"), [f"${one}" for one in texts], chance)
    return [{"name": "joining", "never": {"tool": tool}, "when": when}]


def _changed(value: Any, change: Callable[[str], str], key: str = "") -> Any:
    """Return a program with other conditions."""
    if isinstance(value, dict):
        return {name: _changed(inner, change, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [_changed(inner, change) for inner in value]
    return change(value) if key in ("condition", "when") and isinstance(value, str) else value


def _all_parts(steps: list[Data]) -> Iterator[Data]:
    for step in steps:
        yield from (step, *step.get("parallel_steps", ()))
        yield from _all_parts([*step.get("steps", ()), *([step["do"]] if "do" in step else ())])


BRANCH_JOINS: Final = (
    "$g + $h == 'ab'",
    "$h + $g == 'aa'",
    "$g + 'b' == 'ab'",
    "'a' + $h != 'aa'",
    "$g + $g == 'ab'",
    "$g + '' == $h",
    "$g + $h != $h + $g",
)


def with_joins_beside(data: Data, chance: Random) -> Data:
    """Return a program with branches, or items at once, that joins texts in conditions, rules and outputs."""
    found = _changed(data, lambda text: chance.choice(BRANCH_JOINS) if _may_change(text, chance) else text)
    inputs = {**data["inputs"], "h": {"type": "string", "enum": ["a", "b"]}}
    found["inputs"] = inputs
    rule = {"name": "joining", "never": {"tool": "pay"}, "when": chance.choice(BRANCH_JOINS)}
    fork = next(step for step in found["steps"] if step["id"] == "both")
    ends = [step for branch in fork.get("branches", {}).values() for step in branch["steps"] if "output" in step]
    for step in ends:
        if chance.random() < 0.6:
            step["output"] = chance.choice(["$g$h", "$g-$h", "$g", "is $f"])
            rule["when"] = chance.choice([one.replace("$g", "$m.output") for one in BRANCH_JOINS[:2]])
            rule["when"] = f"defined($m.output) and {rule['when']}"
    if chance.random() < 0.6:
        found["guardrails"] = [*found["guardrails"], rule]
    return dict(found)


def _may_change(text: str, chance: Random) -> bool:
    return text in ("$g == 'a'", "$g == 'b'", "$f and $g == 'a'", "not $f") and chance.random() < 0.7


# -- a follow-up, and a step behind it ---------------------------------------------------------------------------------


def with_step_behind(data: Data, chance: Random) -> Data:
    """Return a program with branches in which P starts one of them, and Q and another step a sibling."""
    steps = [dict(step) for step in data["steps"]]
    place = next(number for number, step in enumerate(steps) if step["id"] == "both")
    fork = steps[place] = {**steps[place], "branches": dict(steps[place]["branches"])}
    one, other = chance.sample(sorted(fork["branches"]), 2)
    skips = chance.choice([[], ["q"], ["q", "d"], ["p", "q", "d"]])
    tools = {"p": "pay", "q": "look", "d": chance.choice(["look", "pay"])}
    made: dict[str, Data] = {name: {"id": name, "type": "tool", "tool": tools[name]} for name in "pqd"}
    for name in skips:
        made[name]["on_error"] = "skip"
    for branch, names in ((one, "p"), (other, "qd")):
        inner = fork["branches"][branch]["steps"]
        chain = [*(made[name] for name in names), inner[0]]
        for step, following in pairwise(chain):
            step["next_step"] = following["id"]
        fork["branches"][branch] = {**fork["branches"][branch], "steps": [*chain[:-1], *inner]}
    then = {"step": "q"} if chance.random() < 0.7 else {"tool": "look"}
    rule: Data = {"name": "behind", "followed_by": {"first": {"step": "p"}, "then": then}}
    ends = chance.choice([None, None, "success", "any"])
    rules = [*data["guardrails"], rule if ends is None else {**rule, "ends": ends}]
    return {**data, "guardrails": rules, "steps": steps}


# -- what items carry on, and a condition says -------------------------------------------------------------------------


def with_lazy_carry(data: Data, chance: Random) -> Data:
    """Return a program with for_each steps that carries on what a condition says: it reads only as far as it has to."""
    steps = [dict(step) for step in data["steps"]]
    place = next(number for number, step in enumerate(steps) if step["id"] == "each")
    inputs = [f"${name}" for name in data["inputs"] if name in KINDS]
    outputs = [part["output_key"] for step in steps for part in _all_parts([step]) if "output_key" in part]
    assigned = [name for step in steps for name in step.get("set", ())]
    late = [f"${name}" for name in sorted({*outputs, *assigned}) if name in KINDS] or inputs
    first, second = (_flag(chance.choice(inputs), chance) for _ in range(2))
    doubtful = _flag(chance.choice(late), chance)
    lazy = chance.choice(
        [f"{first} and {doubtful}", f"{first} or {doubtful}", f"({first} and {doubtful}) or {second}", doubtful]
    )
    steps[place]["carry"] = {**steps[place].get("carry", {}), "lazy": lazy}
    rules = list(data["guardrails"])
    if chance.random() < 0.5:
        calls = [step["id"] for step in steps if step["type"] in ("tool", "llm")]
        rules += [{"name": "lazy", "protects": {"step": one}, "requires": {"step": "each"}} for one in calls[-1:]]
    return {**data, "steps": steps, "guardrails": rules}


def _flag(name: str, chance: Random) -> str:
    """Return a condition about a value of a small program."""
    asked = {"letter": f"{name} == 'a'", "flag": name, "number": f"{name} > 0"}[KINDS[name[1:]]]
    return f"not ({asked})" if chance.random() < 0.4 else asked


# -- programs of a seed ------------------------------------------------------------------------------------------------


def _chance(seed: int) -> Random:
    return Random(f"{seed}/richer")


def richer_bodied(seed: int) -> Data:
    """Return the program with for_each steps of a seed, which asks for errors of items, for joined texts, or both."""
    chance, data = _chance(seed), bodied_program(seed)
    kind = chance.choice(["errors", "errors", "joins", "both"])
    data = with_errors(data, chance) if kind != "joins" else data
    return with_joins(data, chance) if kind != "errors" else data


def lazy_bodied(seed: int) -> Data:
    """Return the program with for_each steps of a seed, which carries on what a condition says."""
    return with_lazy_carry(bodied_program(seed), _chance(seed))


def sized_bodied(seed: int) -> Data:
    """Return the program with for_each steps of a seed, which asks how many items there were, for their errors by name,
    and for their numbers."""
    chance = Random(f"{seed}/sizes")
    pool = chance.choice([SIZES, SIZES, NAMES])
    data = with_errors(bodied_program(seed), chance, pool)
    return with_numbers(data, chance) if chance.random() < 0.4 else data


def sized_concurrent(seed: int) -> Data:
    """Return the program with items at once of a seed, which asks how many there were."""
    return with_errors_at_once(concurrent_program(seed), Random(f"{seed}/sizes"), SIZES)


def richer_branched(seed: int) -> Data:
    """Return the program with branches of a seed, with joined texts, a follow-up with a step behind it, or both."""
    chance, data = _chance(seed), branched_program(seed)
    kind = chance.choice(["behind", "joins", "both"])
    data = with_step_behind(data, chance) if kind != "joins" else data
    return with_joins_beside(data, chance) if kind != "behind" else data


def richer_concurrent(seed: int) -> Data:
    """Return the program with items at once of a seed, which asks for their errors, for joined texts, or both."""
    chance, data = _chance(seed), concurrent_program(seed)
    kind = chance.choice(["errors", "errors", "joins", "both"])
    data = with_errors_at_once(data, chance) if kind != "joins" else data
    return with_joins_beside(data, chance) if kind != "errors" else data


def richer_called(seed: int) -> Data:
    """Return the program with calls of a seed, with joined texts in the caller and in the program that is called."""
    chance, data = _chance(seed), called_program(seed)
    found = with_joins(data, chance)
    inner = found["programs"]["p"]
    if any(KINDS.get(name) == "letter" for name in inner["inputs"]):
        joined = with_joins({**inner, "language": 2}, chance)
        found["programs"] = {"p": {name: value for name, value in joined.items() if name != "language"}}
    return found


def richer_ordered(seed: int) -> Data:
    """Return the program with an order of sub-steps of a seed, with joined texts."""
    return with_joins(ordered_program(seed), _chance(seed))
