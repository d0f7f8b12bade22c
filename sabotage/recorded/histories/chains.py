"""Histories of several runs: chains of up to four, sessions of three turns, and what their rules have seen in each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, Final, NamedTuple

from stepward.sabotage.recorded.histories.kit import Story, afterwards, with_cache
from stepward.vm.machine.authority import Envelope
from stepward.vm.machine.turns import TurnRequest, steps_left, turn_name, turn_policies

PAY: Final = {"tool": "pay"}
LOOK: Final = {"tool": "look"}
MAIL: Final = {"tool": "mail"}


def _gate(branch: str | int, run: int) -> dict[str, Any]:
    return {"step": f"gate{run}", "branch": branch}


def rules(run: int) -> Sequence[Mapping[str, Any]]:
    """Return a rule of every form; those about steps mean the steps of a run."""
    yes = _gate("then", run)
    forms: tuple[dict[str, Any], ...] = (
        {"protects": PAY, "requires": yes},
        {"protects": PAY, "requires": yes, "fresh": False},
        {"protects": {"effect": "write"}, "requires": {"any_of": [_gate("otherwise", run), LOOK]}},
        {"protects": PAY, "requires": {"all_of": [yes, LOOK]}},
        {"protects": PAY, "requires": {"all_of": [LOOK, {"any_of": [yes, MAIL]}, LOOK]}},
        {"protects": PAY, "requires": {"step": f"look{run}"}},
        {"never": PAY},
        {"never": PAY, "when": "$a > 3"},
        {"at_most_once": PAY},
        {"at_most_once": {"effect": "write"}},
        {"exclusive": [LOOK, PAY]},
        {"exclusive": [PAY, LOOK]},
        {"exclusive": [MAIL, {"effect": "write"}]},
        {"followed_by": {"first": LOOK, "then": PAY}},
        {"followed_by": {"first": LOOK, "then": PAY}, "ends": "any"},
        {"followed_by": {"first": LOOK, "then": {"step": "mail2"}}, "ends": "success"},
    )
    return [{"name": f"rule{number}", **form} for number, form in enumerate(forms)]


ENDINGS: Final = ("steps", "stalled", "failed", "tokens", "moved", "cost", "time", "doubt", "caught")
"""How a run ends before it is continued."""

CARRIES: Final = ("same", "changed", "exchanged", "constant")
"""What becomes of the variables that conditions read, from one run to the next."""

GRANTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "steps": {"steps": 9},
    "tokens": {"tokens": 40},
    "cost": {"cost": 20.5},
    "time": {"time": 100},
}
"""What is granted after a run that ended for want of it."""


class Chain(NamedTuple):
    """One chain: its rule, the run that has the evidence, where the rule stands, and how values are carried on."""

    rule: int
    evidence: int
    place: str
    carry: str


CHAINS: Final = tuple(
    Chain(rule, evidence, ("program", "policy", "later")[(rule + evidence + number // 2) % 3], carry)
    for rule, evidence, (number, carry) in product(range(16), range(3), enumerate(CARRIES))
    if (rule + evidence + number) % (2 if rule < 6 else 4) == 0
)


def chain(story: Story, number: int) -> None:
    """Play a chain of three runs, or four: one has the evidence, and the last does what the rule is about."""
    one = CHAINS[number % len(CHAINS)]
    length = 4 if number % 5 == 0 else 3
    rule = rules(one.evidence)[one.rule]
    if number % 7 == 0:
        with_cache(story)
    if one.place == "policy":
        story.policy("house", guardrails=[rule], four_eyes=["sign"] if number % 2 else None)
    secret = number % 4 == 1
    inputs: dict[str, Any] = {"a": 3, "b": 3, "card": "4929 1111 2222 3333"}
    run, grant = "r", dict[str, Any]()
    for at in range(length):
        ending = "end" if at == length - 1 else ENDINGS[(number + at) % len(ENDINGS)]
        data = run_of(at, one, ending, secret=secret, length=length)
        if one.place == "program" and at == min(one.evidence, 1):
            data["guardrails"] = [rule]
        if one.place == "later" and at == 1:
            story.policy("house", guardrails=[rule])
            story.policy("house", guardrails=[rule], description="again")
        _script(story, at, ending)
        by = ("ann", "bob", "cyn" if number % 2 else None)[(number + at) % 3]  # where two settle, nobody may start
        if at == 0:
            story.start(data, inputs, by=by, envelope=Envelope("gate", "gate 1") if number % 3 == 0 else None)
        else:
            story.go_on(run, data, _reads(one.carry, at), grant=grant, by=by)
        run = "r" if at == 0 else f"r~{at}"
        if story.store.head(run) is None:
            break
        grant = {**(grant if number % 2 else {}), **GRANTS.get(ending, {})}
        _leave(story, run, ending, run_of(at, one, "version", secret=secret, length=length), number)
        if ending == "moved" and story.store.head(f"r~{at + 1}") is not None:
            break
    story.chain()
    afterwards(story, number)


def _reads(carry: str, at: int) -> Mapping[str, str]:
    same = {"a": "a", "b": "b", "card": "card"}
    match carry:
        case "exchanged":
            return {**same, "a": "$b", "b": "a"}
        case "constant" if at == 1:
            return {**same, "a": "sum"}
    return same


def run_of(at: int, one: Chain, ending: str, *, secret: bool, length: int) -> dict[str, Any]:
    """Return the program of a run of a chain."""
    does: list[dict[str, Any]] = [_set("sum", "$a + $b - 2")]
    if one.carry == "changed" and at == one.evidence + 1:
        does.append(_set("c", "$b"))
    if at == one.evidence:
        does += [
            {"id": f"gate{at}", "type": "condition", "condition": "$a <= $b", "then": f"look{at}", "otherwise": "no"},
            {**_call("look", at), "next_step": f"on{at}"},
            {"id": "no", "type": "end", "outcome": "failure", "output": "$a"},
            {"id": f"on{at}", "type": "set", "set": {"seen": "$b"}},
        ]
    if at == length - 1 or (at == 1 and one.evidence == 0 and one.carry == "same"):
        does += [_call("pay", at), _call("mail", at)]
        if at == length - 1:
            does += [
                {**_call("look", 9), "on_error": "skip"},
                {**_call("pay", 8), "args": {"x": 1}, "on_error": "skip"},
            ]
    does += _ending(ending, at)
    card: dict[str, Any] = {"type": "string", "sensitive": True} if secret else {"type": "string"}
    whole: dict[str, Any] = {"name": "p", "inputs": {"a": {"type": "number"}, "b": {"type": "number"}, "card": card}}
    bounds: Mapping[str, Mapping[str, Any]] = {
        "steps": {"max_steps": max(1, len(does) - (2 if at == one.evidence else 1))},
        "stalled": {"max_stalled_steps": 2},
        "tokens": {"max_tokens": 6},
        "cost": {"max_cost": 3},
        "time": {"timeout_seconds": 10},
    }
    return {**whole, **bounds.get(ending, {}), "steps": does}


def _set(name: str, text: str) -> dict[str, Any]:
    return {"id": f"set_{name}", "type": "set", "set": {name: text}}


def _call(tool: str, number: int) -> dict[str, Any]:
    return {"id": f"{tool}{number}", "type": "tool", "tool": tool, "args": {"x": "$a" if tool == "look" else number}}


def _ending(ending: str, at: int) -> list[dict[str, Any]]:
    match ending:
        case "stalled":
            return [{"id": f"still{at}{number}", "type": "set", "set": {"sum": "$sum"}} for number in range(4)]
        case "failed":
            return [_call("mail", 70 + at), {**_call("look", 80 + at), "on_error": "retry", "max_retries": 2}]
        case "caught":
            catch = [{"errors": ["Lacking"], "then": f"sorry{at}"}]
            sorry = {"id": f"sorry{at}", "type": "end", "outcome": "failure", "output": f"$look{80 + at}.error_name"}
            return [{**_call("look", 80 + at), "catch": catch}, {"id": "over", "type": "end"}, sorry]
        case "tokens" | "cost":
            ask = [{"id": f"think{at}{n}", "type": "llm", "prompt": "of $a", "cache": n == 0} for n in range(4)]
            return [*ask, {"id": "over", "type": "end"}]
        case "moved" | "time":
            return [
                {**_call("ask", at), "next_step": "over"},
                {"id": "over", "type": "end", "output": f"$ask{at}.output"},
            ]
        case "version":
            over = {"id": "over", "type": "end", "output": [f"$ask{at}.output", "$sum"]}
            return [{**_call("ask", at), "next_step": "more"}, {**_call("mail", 60 + at), "id": "more"}, over]
        case "doubt":
            return [_call("pay", 50 + at), {**_call("look", 80 + at), "on_error": "retry", "max_retries": 1}]
    return [{"id": "over", "type": "end", "output": {"sum": "$sum", "card": "$card"}}]


def _script(story: Story, at: int, ending: str) -> None:
    story.script |= {f"look{80 + at}": ["lack", "lack"], f"ask{at}": ["wait"], f"pay{50 + at}": ["doubt"]}
    if ending == "cost":
        story.script[f"think{at}0"] = [("well", 0, 1), ("well", 2, 2)]


def _leave(story: Story, run: str, ending: str, version: Mapping[str, Any], number: int) -> None:
    """Bring a run to its end."""
    match ending:
        case "moved":
            story.move(run, version, by="ann")
            story.answer(run, 1, by="bob")
        case "time":
            story.at(10_000_000 + (number % 3 - 1))
            story.recover(run)
            story.at(2_000_000)
            story.recover(run)
        case "doubt":
            story.settle(run, ("done", "not_done", "abandon")[number % 3], 2, by=("ann", None)[number % 2])
    story.at(1_000_000)


# -- sessions ----------------------------------------------------------------------------------------------------------

TURNS: Final = tuple((rule, evidence, (None, 9, 14)[rule % 3]) for rule in range(16) for evidence in (rule % 2,))
"""The sessions: the rule, the turn that has the evidence, and the steps of all turns together."""


def session(story: Story, number: int) -> None:
    """Take three turns of a session, behind the last one, and once behind an earlier one."""
    rule, evidence, bound = TURNS[number % len(TURNS)]
    story.policy("house", guardrails=[rules(evidence)[rule]])
    first, before = story.policies, []
    for at in range(3):
        one = Chain(rule, evidence, "policy", "same")
        data = run_of(at, one, "failed" if at == 1 and number % 2 else "end", secret=False, length=3)
        _script(story, at, "")
        turn = TurnRequest("the first", {"a": 0}, signature=None, max_steps=bound)
        try:
            before = story.quiet(story.process().turns("s"))
            story.policies, most = first, bound
            if before:
                turn, most = TurnRequest(f"turn {at}"), steps_left(before[-1])
                story.policies = [*turn_policies(before[-1].plan.policies, before[-1])]
        except Exception as error:
            story.notes.add_error(error)
            return
        data |= {} if most is None else {"max_steps": most}
        program = story.program({name: value for name, value in data.items() if name != "guardrails"})
        if program is None:
            break
        inputs = {"a": at, "b": at, "card": "none"}
        name, last = turn_name("s", len(before) + 1), before[-1] if before else None
        story.do(f"turn {name} {most}", story.process().take_turn(name, program, inputs, turn, last, by="ann"))
        story.at(1_000_000)
    if before:
        program = story.program(run_of(3, Chain(0, 0, "", "same"), "end", secret=False, length=3))
        if program is not None:
            work = story.process().take_turn(
                turn_name("s", 2), program, {"a": 1, "b": 1, "card": ""}, TurnRequest("x"), before[0]
            )
            story.do("turn again", work)
    story.policies = first
    story.chain()
    afterwards(story, number)


# -- budgets -----------------------------------------------------------------------------------------------------------

BUDGETS: Final = tuple(
    (kind, most, used, grant)
    for kind in ("steps", "tokens", "cost", "time")
    for most, used, grant in ((6, 0, None), (6, 1, 2), (3, 2, 1.5), (3, 1, 0))
)
"""What is bounded, to how much, what a model or a wait uses of it in each run, and what is granted."""


def budget(story: Story, number: int) -> None:
    """Play a chain of runs that take parts of a budget."""
    kind, most, used, grant = BUDGETS[number % len(BUDGETS)]
    bound = {"steps": "max_steps", "tokens": "max_tokens", "cost": "max_cost", "time": "timeout_seconds"}[kind]
    for at in range(4):
        story.script["think"] = [("well", used + 1, used + 1)] * 2 + [("well", 9, 9)]
        story.script["slow"] = ["wait"]
        think = {"type": "llm", "prompt": "go"}
        steps = [
            {"id": "think", "max_visits": 3, "next_step": "count", **think},
            {"id": "count", "type": "set", "set": {"n": "$m + 1"}},
        ]
        steps += [{"id": "slow", "type": "tool", "tool": "ask", "args": {"x": "$m"}, "deadline_seconds": 2 + used}]
        steps += [{"id": "again", "type": "condition", "condition": "$n < 5", "then": "think", "otherwise": "over"}]
        steps += [{"id": "over", "type": "end"}]
        data: dict[str, Any] = {"inputs": {"m": {"type": "number"}}, "steps": steps}
        if at in (0, 2):
            data[bound] = most + at
        more = {"grant": {kind: grant}} if grant is not None and at != 2 else {}
        if at == 0:
            story.start(data, {"m": 0})
        else:
            story.go_on("r" if at == 1 else f"r~{at - 1}", data, {"m": "$m"}, max_continuations=3 - number % 2, **more)
        run = f"r~{at}" if at else "r"
        if story.store.head(run) is None:
            break
        for _ in range(2):
            story.at((used + 1) * 1_000_000 + number % 3 - 1)
            story.answer(run, 0)
            story.recover(run)
        story.script["think"] = ["fail"]
        for _ in range(3):
            story.at(5_000_000)
            story.recover(run)
    story.chain()
    afterwards(story, number + 1)
