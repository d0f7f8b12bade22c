"""Injection past a policy: a waiver of one rule is used for another rule, program or policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from stepward.sabotage.attack import Attack, Family
from stepward.sabotage.invariants import Invariant, Outcome
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.every_tool import EveryTool
from stepward.sabotage.playing.world import WorldClock
from stepward.vm.language.policy import Policy
from stepward.vm.language.program import Program
from stepward.vm.machine.refusals import DeliveryRefused
from stepward.vm.machine.tools import Suspend

STARTER: Final = "ann"
NAME: Final = "waived"


class Waived(NamedTuple):
    """A waiver, and the deeds that it makes possible."""

    rules: tuple[str, ...]
    allows: tuple[str, ...] = ()
    program: str = NAME
    expiry: str = "2099-01-01"
    policy: str = "p"


WAIVERS: Final[Mapping[str, Waived]] = {
    "nothing": Waived(()),
    "the rule `kept`": Waived(("kept",), ("never",)),
    "the rule `kept too`": Waived(("kept too",), ("twice",)),
    "the rule `keep`": Waived(("keep",), ("unchecked",)),
    "the rule `one`": Waived(("one",), ("both",)),
    "the allow-list": Waived(("allow",), ("not allowed",)),
    "four eyes": Waived(("four_eyes",), ("alone",)),
    "the code of `never` and of the allow-list": Waived(("SW403",), ("never", "not allowed")),
    "the code of `at_most_once`": Waived(("SW404",), ("twice",)),
    "the code of `exclusive`": Waived(("SW406",), ("both",)),
    "one of the codes of `requires`": Waived(("SW401",)),
    "both codes of `requires`": Waived(("SW401", "SW402"), ("unchecked",)),
    "a name that begins alike": Waived(("ke", "kept to", "four", "SW40")),
    "a name in capitals": Waived(("Kept", "KEEP", "ALLOW")),
    "rules of another program": Waived(("kept", "keep", "allow", "four_eyes"), program="waive"),
    "rules until a day that is over": Waived(("kept", "keep", "allow", "four_eyes"), expiry="2001-01-01"),
    "rules of another policy": Waived(("kept", "keep", "allow", "four_eyes"), policy="pp"),
}

RULES: Final[tuple[dict[str, Any], ...]] = (
    {"name": "kept", "never": {"tool": "never"}},
    {"name": "kept too", "at_most_once": {"tool": "twice"}},
    {"name": "keep", "protects": {"tool": "unchecked"}, "requires": {"step": "check"}},
    {"name": "one", "exclusive": [{"tool": "both"}, {"tool": "other"}]},
)

DEEDS: Final[Mapping[str, tuple[str, ...]]] = {
    "never": ("never",),
    "twice": ("twice", "twice"),
    "unchecked": ("unchecked",),
    "both": ("other", "both"),
    "not allowed": ("barred",),
    "alone": ("alone",),
    "nothing": ("free",),
}
"""What a run does, by the rule that forbids it: the tools that it calls. A person settles the last call of `alone`."""

TOOLS: Final = tuple(dict.fromkeys(tool for tools in DEEDS.values() for tool in tools))


class _World(EveryTool):
    """Tools that note that they were called. Two of them wait for a person."""

    def __init__(self) -> None:
        self.called: list[str] = []

    async def call(self, name: str, args: Any, context: Any) -> Any:
        """Note a call."""
        del args, context
        self.called.append(name)
        return Suspend() if name in ("hold", "alone") else 1


class WaiverForOneRule(Attack):
    """A policy has rules of each kind, and waives one of them, by its name or by a code, or something that is like it.
    Runs do what each of the rules forbids. The policy is there at the start of the run, or comes later."""

    family = Family.INJECTION
    surface = "waiver of one rule"
    action = "used for each other rule, and for other programs, days and policies"
    invariant = Invariant.PERMISSION
    defence = "a waiver is for one rule of one policy, and for one program"
    weight = 8
    draws = True
    enumerates = "each rule under each waiver"

    def play(self, case: Case) -> Outcome:
        """Check that under each waiver exactly the deeds are possible that it allows."""
        turn = case.seed()
        pairs = [(waived, deed) for waived in WAIVERS for deed in DEEDS]
        plays = [(*pair, (turn + number) % 2 == 0) for number, pair in enumerate(pairs)]
        for waived, deed, is_later in case.each("what is waived, and what a run does", plays):
            case.act(f"waived is {waived}; a run does what is {deed}; the policy comes {'later' * is_later or 'first'}")
            due = deed == "nothing" or deed in WAIVERS[waived].allows
            is_done = self._is_done(case, _policies(WAIVERS[waived]), deed, is_later=is_later)
            message = f"a run {'did' if is_done else 'could not do'} what is {deed}, where {waived} is waived"
            case.hold(is_done == due, self.invariant, message)
        return Outcome.BLOCKED

    def _is_done(self, case: Case, policies: tuple[Policy, ...], deed: str, *, is_later: bool) -> bool:
        """Play a run, and return whether it did all of a deed."""
        world, clock = _World(), WorldClock()
        first, later = (
            case.machine(world, None, case.store, policy, clock=clock)
            for policy in (() if is_later else policies, policies)
        )
        run = case.do(first.run(_program(deed, holds=is_later), {}, run_id=case.run_id(), by=STARTER))
        while run.suspensions:
            waiting = run.suspensions[0]
            by = STARTER if waiting.step == "s0" and deed == "alone" else "bob"
            try:
                run = case.do(later.resume(waiting.token, 1, by=by))
            except DeliveryRefused:
                return False
        return run.status == "SUCCESS" and tuple(world.called[is_later and deed != "alone" :]) == DEEDS[deed]


def _policies(waived: Waived) -> tuple[Policy, ...]:
    """Return a policy with rules of each kind, and another one whose name begins alike, one of them with a waiver."""
    allow = [tool for tool in (*TOOLS, "hold") if tool != "barred"]
    found: dict[str, dict[str, Any]] = {
        "p": {"policy": "p", "guardrails": list(RULES), "allow": allow, "four_eyes": ["alone"]},
        "pp": {"policy": "pp"},
    }
    waiver = {"program": waived.program, "reason": "an attack", "expiry": waived.expiry}
    found[waived.policy]["waivers"] = [{**waiver, "rule": rule} for rule in waived.rules]
    return tuple(Policy.from_dict(policy) for policy in found.values())


def _program(deed: str, *, holds: bool) -> Program:
    """Return a program that does a deed; perhaps it waits for somebody before that."""
    tools = [*["hold"] * (holds and deed != "alone"), *DEEDS[deed]]
    return Program.from_dict(
        {
            "name": NAME,
            "inputs": {},
            "tools": {tool: {"effect": "write", "suspends": tool in ("hold", "alone")} for tool in (*TOOLS, "hold")},
            "steps": [{"id": f"s{number}", "type": "tool", "tool": tool} for number, tool in enumerate(tools)],
            "max_steps": 9,
        }
    )
