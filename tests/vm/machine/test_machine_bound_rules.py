"""Fast: a rule about a step binds the program that goes on with a run: a call of another name is no way around it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from stepward.vm import ExecutionVM, MemoryJournal, Policy, Program, RunRefused, ScriptedModel, Suspend
from stepward.vm.journal.verify import verify
from stepward.vm.machine import moving
from stepward.vm.machine.replay import replayer

NUMBER = {"type": "number"}
TOOLS: dict[str, Any] = {
    "ask": {"effect": "none", "suspends": True, "returns": {"type": "boolean"}},
    "pay": {"effect": "write", "idempotent": True, "args": {"sum": NUMBER}},
    "mail": {"effect": "write", "idempotent": True, "args": {}},
}
LARGE = {"step": "large"}
RULES: dict[str, dict[str, Any]] = {
    "requires": {"protects": LARGE, "requires": {"step": "may", "branch": "then"}},
    "never": {"never": LARGE, "when": "$args.sum > 100"},
    "at_most_once": {"at_most_once": LARGE},
    "exclusive": {"exclusive": [{"tool": "mail"}, LARGE]},
    "followed_by": {"followed_by": {"first": LARGE, "then": {"tool": "mail"}}},
}
END: dict[str, Any] = {"id": "end", "type": "end"}
CHECKS: Any = {"checker": lambda *_: ()}
"""A machine that finds nothing: what is refused is refused by the machine alone."""


def pay(name: str, sum: Any = "$a", **more: Any) -> dict[str, Any]:
    return {"id": name, "type": "tool", "tool": "pay", "args": {"sum": sum}, **more}


def first(rule: dict[str, Any], *more: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Return a program that waits on `ask`, and pays a large sum only behind `may`."""
    steps = [
        pay("small", 1),
        pay("other", "$b"),
        {"id": "ask", "type": "tool", "tool": "ask", "output_key": "ok"},
        {"id": "may", "type": "condition", "condition": "$ok", "then": "large", "otherwise": "end"},
        pay("large", next_step="mail"),
        {"id": "mail", "type": "tool", "tool": "mail", "next_step": "end"},
        END,
        *more,
    ]
    data = {"name": "first", "language": 2, "inputs": {"a": NUMBER, "b": NUMBER}, "tools": TOOLS, "steps": steps}
    return copy.deepcopy({**data, "guardrails": [{"name": "rule", **rule}], **changes})


class Desk:
    """A machine with one run of a program, that waits or that has used up its steps."""

    def __init__(self, data: dict[str, Any], policy: Any = ()) -> None:
        self.journal = MemoryJournal()
        tools = {"ask": lambda: Suspend("may it?"), "pay": lambda sum: None, "mail": lambda: None}
        self.vm = ExecutionVM(tools, ScriptedModel({"*": ["yes"]}), self.journal, policy, **CHECKS)
        self.run = self.vm.run_sync(Program.from_dict(data), {"a": 900, "b": 2}, run_id="r")

    def refuses(self, what: Callable[[], Any]) -> str | None:
        """Return what is wrong, and what to do."""
        try:
            what()
        except RunRefused as error:
            return f"{error}: {error.help}"
        return None

    def moves(self, data: dict[str, Any]) -> str | None:
        assert self.run.status == "SUSPENDED", self.run.error
        return self.refuses(lambda: self.vm.migration_sync("r", Program.from_dict(data)))

    def continues(self, *steps: dict[str, Any], **more: Any) -> str | None:
        assert self.run.status == "BUDGET_EXCEEDED", self.run.error
        inputs = {"a": NUMBER, "b": NUMBER}
        programs = {name: more.pop(name) for name in ("programs",) if name in more}
        data = {"name": "second", "language": 2, "inputs": inputs, "tools": TOOLS, "steps": [*steps, END], **programs}
        reads = more.pop("reads", ["a", "b"])
        return self.refuses(
            lambda: self.vm.continue_run_sync("r", Program.from_dict(data), reads, grant={"steps": 20}, **more)
        )


def renamed(data: dict[str, Any], *, rule: bool = False) -> dict[str, Any]:
    """Return a program whose step `large` is called `huge`; `rule` says whether its rules say so."""
    kept = data["guardrails"]
    found: dict[str, Any] = eval(repr(data).replace("'large'", "'huge'"))
    return found if rule else {**found, "guardrails": kept}


# -- moves -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", RULES)
@pytest.mark.parametrize("keeps", [True, False], ids=["rule kept", "rule dropped"])
def test_a_version_does_not_rename_the_step_of_a_rule(kind: str, keeps: bool) -> None:
    data = first(RULES[kind])
    desk = Desk(data)
    new = renamed(data) if keeps else {**renamed(data), "guardrails": []}
    assert desk.moves(new) == (
        "guardrail `rule` of run `r` is about `large`, and `huge` of the version calls `pay`, too: give it the id "
        "`large`, or give the version a rule that says the same of `huge`"
    )
    assert desk.moves(data) is None
    assert desk.moves({**data, "guardrails": []}) is None, "the rule goes on, and `large` is there"


@pytest.mark.parametrize("kind", RULES)
def test_a_version_may_say_of_the_new_step_what_the_rule_said_if_no_past_is_lost(kind: str) -> None:
    data = first(RULES[kind])
    assert (Desk(data).moves(renamed(data, rule=True)) is None) == (kind in ("requires", "never"))


def test_a_rule_about_the_tool_says_the_same_and_a_weaker_rule_does_not() -> None:
    data = first(RULES["requires"])
    data["steps"] = data["steps"][2:]  # nothing was paid before
    for rule, is_fine in (
        ({"protects": {"tool": "pay"}, "requires": {"step": "may", "branch": "then"}}, True),
        ({"protects": {"tool": "pay"}, "requires": {"step": "may", "branch": "then"}, "fresh": False}, False),
        ({"protects": {"tool": "pay"}, "requires": {"step": "may", "branch": "otherwise"}}, False),
        ({"protects": {"tool": "mail"}, "requires": {"step": "may", "branch": "then"}}, False),
    ):
        new = {**renamed(data), "guardrails": [{"name": "same", **rule}]}
        assert (Desk(data).moves(new) is None) == is_fine, rule


def test_a_second_step_beside_that_of_a_rule_is_refused_unless_the_version_has_the_rule() -> None:
    data = first(RULES["requires"])
    new = first(RULES["requires"])
    new["steps"][3]["otherwise"] = "more"
    new["steps"].append(pay("more", is_terminal=True))
    assert Desk(data).moves(new) is None, "it has the rule and its step: it says what the rule is about"
    assert "`more` of the version calls `pay`" in str(Desk(data).moves({**new, "guardrails": []}))
    new["steps"][3]["otherwise"] = "small"
    new["steps"][0]["next_step"] = "end"
    assert Desk(data).moves({**new, "guardrails": []}) is None, "`small` was no step of the rule before"
    new["steps"][0]["args"]["sum"] = 900
    assert "`small` of the version calls `pay`" in str(Desk(data).moves({**new, "guardrails": []}))


@pytest.mark.parametrize("name", ["rule", "other"])
def test_rules_of_one_name_each_count(name: str) -> None:
    """The version says of `more` what its own rule says of `large`; the rule of the policy says something else."""
    policy = Policy.from_dict({"policy": "gate", "guardrails": [{"name": name, "at_most_once": LARGE}]})
    data = first(RULES["requires"])
    data["steps"][5]["next_step"] = "more"
    data["steps"].insert(6, pay("more", next_step="end"))
    data["guardrails"].append({"name": "too", **RULES["requires"], "protects": {"step": "more"}})
    assert Desk(first(RULES["requires"])).moves(data) is None
    found = Desk(first(RULES["requires"]), policy).moves(data)
    assert found is not None
    assert found.startswith(f"guardrail `{name}` of run `r` is about `large`, and `more` of the version calls `pay`")


def test_a_version_may_do_without_the_call_or_leave_the_rest_unreached() -> None:
    data = first(RULES["requires"])
    new = first(RULES["requires"], guardrails=[])
    new["steps"] = [step for step in new["steps"] if step["id"] != "large"]
    new["steps"][3]["then"] = "mail"
    assert Desk(data).moves(new) is None, "nothing is paid any more"
    new["steps"].insert(0, pay("huge"))
    assert Desk(data).moves(new) is None, "it stands before the wait"


CONTROL: dict[str, dict[str, Any]] = {
    "end": {"id": "named", "type": "end"},
    "set": {"id": "named", "type": "set", "set": {"x": 1}, "next_step": "end"},
    "condition": {"id": "named", "type": "condition", "condition": "$a > 1", "then": "end", "otherwise": "end"},
    "wait": {"id": "named", "type": "wait", "seconds": 1, "next_step": "end"},
    "for_each": {"id": "named", "type": "for_each", "items": [1], "as": "one", "max_items": 1, "next_step": "end",
                 "steps": [{"id": "in", "type": "set", "set": {"y": 1}}]},
}  # fmt: skip


@pytest.mark.parametrize("kind", CONTROL)
def test_of_a_rule_about_a_step_that_calls_nothing_the_step_stays(kind: str) -> None:
    rule = {"exclusive": [{"tool": "pay"}, {"step": "named"}]} if kind != "for_each" else {"never": {"step": "named"}}
    data = first(rule, CONTROL[kind])
    data["steps"][3]["otherwise"] = "named"
    desk, without = Desk(data), first(rule, guardrails=[])
    assert f"the version has no step of this id and of type `{kind}`" in str(desk.moves(without))
    other = first(rule, {**CONTROL["set" if kind == "end" else "end"]})
    other["steps"][3]["otherwise"] = "named"
    assert "the version has no step of this id" in str(desk.moves(other))
    assert "the version has no step" not in str(desk.moves(data))


def test_a_verifier_refuses_a_move_around_a_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    data = first(RULES["requires"])
    desk = Desk(data)
    with monkeypatch.context() as patch:
        patch.setattr(moving, "require_moved_bound", lambda *_: None)
        desk.vm.migrate_sync("r", Program.from_dict({**renamed(data), "guardrails": []}))
    faults = [one.what for one in verify(desk.journal, "r", replay=replayer(desk.journal, "r")).faults]
    assert any("is about `large`, and `huge` of the version calls `pay`" in one for one in faults), faults


# -- continuations -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", RULES)
def test_a_continuation_makes_the_call_of_a_rule_in_its_step_alone(kind: str) -> None:
    data = first(RULES[kind], max_steps=2)
    assert Desk(data).continues(pay("huge")) == (
        "guardrail `rule` of run `r` is about `large`, and `huge` calls `pay`, too: give it the id `large`"
    )
    assert Desk(data).continues(pay("large")) is None, "the rule is there, and the checker is asked"
    decoy = {"id": "no", "type": "condition", "condition": "1 == 2", "then": "large", "otherwise": "huge"}
    why = Desk(data).continues(decoy, pay("large", next_step="end"), pay("huge", next_step="end"))
    assert "`huge` calls `pay`" in str(why)
    assert Desk(data).continues({"id": "write", "type": "tool", "tool": "mail"}) is None, "it pays nothing"


NEAR: dict[str, dict[str, Any]] = {
    "a sub-step": {"id": "both", "type": "parallel", "parallel_steps": [pay("huge")]},
    "a step of items": {"id": "each", "type": "for_each", "items": [1], "as": "one", "max_items": 1,
                        "steps": [pay("huge")]},
    "a step of a branch": {"id": "fork", "type": "parallel", "branches": {"x": {"steps": [pay("huge")]},
                                                                          "y": {"steps": [pay("large", 3)]}}},
    "another sum in a known step": pay("small", 900),
    "another name of a value": pay("other", "$a"),
}  # fmt: skip


@pytest.mark.parametrize("where", NEAR)
def test_a_call_of_another_name_is_refused_wherever_it_stands(where: str) -> None:
    why = Desk(first(RULES["requires"], max_steps=2)).continues(NEAR[where])
    assert "guardrail `rule` of run `r` is about `large`" in str(why), why


def test_the_same_call_may_be_made_if_it_reads_the_same_value() -> None:
    data = first(RULES["requires"], max_steps=1)
    assert Desk(data).continues(pay("small", 1)) is None
    assert Desk(data).continues(pay("other", "$b")) is None
    assert "`other` calls `pay`" in str(Desk(data).continues(pay("other", "$b"), reads={"a": "a", "b": "a"}))


def test_a_call_of_a_model_counts_as_one_of_a_tool() -> None:
    asked = {"id": "think", "type": "llm", "prompt": "of $a?", "next_step": "end"}
    data = first({"never": {"step": "think"}, "when": "$a > 1000"}, asked, max_steps=2)
    data["guardrails"] = [{"name": "rule", "never": {"step": "think"}, "when": "$a > 1000"}]
    data["steps"][3]["otherwise"] = "think"
    assert "`ponder` asks a model the same, too: give it the id `think`" in str(
        Desk(data).continues({**asked, "id": "ponder"})
    )
    assert Desk(data).continues(asked) is None


@pytest.mark.parametrize(
    ("before", "now", "is_same"),
    [
        ("Is $a fine?", "Is $a fine?", True),
        ("Is $a fine?", "is  $b fine", True),
        ("Is $a fine?", "$a", True),  # it may ask anything
        ("$a", "Is $a fine?", True),
        ("Is $a fine?", "Greet the customer.", False),
        ("Is $a fine?", "Is $a fine? Why?", False),
    ],
)
def test_two_steps_ask_a_model_the_same_in_the_same_words(before: str, now: str, is_same: bool) -> None:
    think = {"id": "think", "type": "llm", "prompt": before, "next_step": "end"}
    data = first({"never": {"step": "think"}}, think, max_steps=2)
    data["steps"][3]["otherwise"] = "think"
    why = Desk(data).continues({**think, "id": "ponder", "prompt": now, "system": "Be brief."})
    assert (why is not None and "`ponder` asks a model the same" in why) == is_same, why
    version = first({"never": {"step": "think"}}, {**think, "id": "ponder", "prompt": now}, guardrails=[])
    version["steps"][3]["otherwise"] = "ponder"
    waits = first({"never": {"step": "think"}}, think)
    waits["steps"][3]["otherwise"] = "think"
    assert ("`ponder` of the version asks a model the same" in str(Desk(waits).moves(version))) == is_same


INNER = {"language": 2, "inputs": {"a": NUMBER}, "tools": TOOLS, "steps": [pay("z")]}
CALLED = {"id": "c", "type": "call", "program": "inner", "args": {"a": "$a"}}


@pytest.mark.parametrize(
    ("named", "steps", "part", "help"),
    [
        ("large", [pay("huge")], "huge", "give it the id `large`"),
        ("large", [pay("large", 1), pay("huge")], "huge",
         "make the call in step `large` of the program itself, and leave `huge` out"),
        ("large", [CALLED], "c/z", "make the call in step `large` of the program itself, and leave `c/z` out"),
        ("c/y", [CALLED], "c/z", "give it the id `y`"),
        ("d/z", [CALLED], "c/z", "make the call in step `z` of the program that step `d` calls"),
        ("d/z", [pay("huge")], "huge", "make the call in step `z` of the program that step `d` calls"),
    ],
)  # fmt: skip
def test_the_help_of_a_refusal_can_be_followed(named: str, steps: list[Any], part: str, help: str) -> None:
    data = first({"never": {"step": named}, "when": "$a > 1000"}, max_steps=2)
    data["guardrails"] = [{"name": "rule", "never": {"step": named}, "when": "$a > 1000"}]
    if "/" in named:
        call, _, inner = named.partition("/")
        data["programs"] = {"p": {**INNER, "steps": [pay(inner)]}}
        data["steps"] = [{**CALLED, "id": call, "program": "p"} if one["id"] == "large" else one
                         for one in data["steps"]]  # fmt: skip
        data["steps"][3]["then"] = call
        data["steps"][4]["next_step"] = "mail"
    why = Desk(data).continues(*steps, programs={"inner": INNER})
    assert str(why).endswith(f"`{part}` calls `pay`, too: {help}"), why


def test_an_end_that_a_rule_is_about_is_asked_for_where_another_takes_its_place() -> None:
    rule = {"exclusive": [{"tool": "pay"}, {"step": "refused"}]}
    refused: dict[str, Any] = {"id": "refused", "type": "end", "outcome": "failure"}
    data = first(rule, refused, max_steps=2)
    data["steps"][3]["otherwise"] = "refused"
    may = {"id": "may_it", "type": "condition", "condition": "$a > 5", "then": "mail", "otherwise": "no"}
    mail = {"id": "mail", "type": "tool", "tool": "mail", "next_step": "end"}
    assert Desk(data).continues(mail) is None, "it declares no failure"
    assert Desk(data).continues({**may, "otherwise": "refused"}, mail, refused) is None
    wrong = "the program has no step of this id and of type `end` with `outcome: failure`: give the step that takes " \
        "its place the id `refused`, or add one"  # fmt: skip
    assert wrong in str(Desk(data).continues(may, mail, {**refused, "id": "no"}))
    decoy = {"id": "refused", "type": "end"}
    assert wrong in str(Desk(data).continues({**may, "then": "refused"}, decoy, {**refused, "id": "no"}))
    each = {"id": "each", "type": "for_each", "items": [1], "as": "one", "steps": [{**refused, "id": "no"}]}
    assert wrong in str(Desk(data).continues(each)), "the item ends so"
    assert Desk(data).continues(may, mail, {**refused, "id": "no"}, accept=["SW407"]) is None


@pytest.mark.parametrize("kind", CONTROL)
def test_a_rule_about_a_step_that_calls_nothing_is_lost_only_by_name(kind: str) -> None:
    rule = {"exclusive": [{"tool": "pay"}, {"step": "named"}]} if kind != "for_each" else {"never": {"step": "named"}}
    data = first(rule, CONTROL[kind], max_steps=2)
    data["steps"][3]["otherwise"] = "named"
    mail = {"id": "write", "type": "tool", "tool": "mail"}
    assert str(Desk(data).continues(mail)).startswith(
        "SW407: guardrail `rule` of run `r` is about `named`, and the program has no step of this id and of type "
        f"`{kind}`"
    )
    assert Desk(data).continues(mail, accept=["SW407"]) is None
    assert Desk(data).continues(mail, CONTROL[kind]) is None


def test_the_rules_of_all_runs_of_a_chain_count() -> None:
    desk = Desk(first(RULES["requires"], max_steps=2))
    assert desk.continues({"id": "again", "type": "set", "set": {"n": 1}, "next_step": "again"}) is None
    data = {"name": "third", "language": 2, "inputs": {"a": NUMBER}, "tools": TOOLS, "steps": [pay("huge"), END]}
    with pytest.raises(RunRefused, match="guardrail `rule` of run `r` is about `large`"):
        desk.vm.continue_run_sync("r~1", Program.from_dict(data), ["a"], grant={"steps": 5})
