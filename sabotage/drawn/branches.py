"""Random programs with branches: parallel steps whose members are bodies, beside or within other bodies."""

from __future__ import annotations

from random import Random
from typing import Any, Final

from stepward.sabotage.drawn.bodies import BODIES, BodyMaker, plain
from stepward.sabotage.drawn.computing import with_compute
from stepward.sabotage.drawn.errors import settle_arms, with_errors
from stepward.sabotage.drawn.machine import DrawnCase
from stepward.sabotage.drawn.orders import with_order
from stepward.sabotage.drawn.wide import Theme, all_steps
from stepward.sabotage.drawn.world import Manner
from stepward.vm import Program
from stepward.vm.language.flow import Flow
from stepward.vm.language.meaning import Meaning
from stepward.vm.language.order import endless_branches, sibling_reads
from stepward.vm.language.scopes import crossings
from stepward.vm.machine.state import Limits

BRANCHES: Final = BODIES._replace(
    kinds=(*["call"] * 5, "condition", "set", "set", "parallel", *["fork"] * 5, "for_each", "end"),
    most_steps=4,
    rules=0.6,
    policies=0.0,
    later=0.0,
    budgets=0.0,
    waits=0.2,
    errors=0.4,
)
MOST_DEPTH: Final = 2
"""The most forks around a step."""

MANNERS: Final = (
    Manner(beside=0.05, echoes=0.0),
    Manner(beside=0.0, echoes=0.0, weights=((40, 1, 0, 0, 0, 4),)),
    Manner(beside=0.0, echoes=0.0, weights=((12, 3, 1, 1, 0, 3),)),
)
MOST_TRIES: Final = 20
SHARE_CROWDED: Final = 0.25
"""The share of programs whose outputs do not all fit into the state of a run."""

CROWDED: Final = Manner(beside=0.0, at_limit=0.8, echoes=0.0, weights=((40, 1, 0, 0, 0, 4),))
STEPS: Final = (60, 60, 60, 120, 120, 120, 120, 400)
"""Limits of the steps. Some programs loop until they are reached, and long runs take many times as long."""

STATES: Final = (1_500, 2_000, 3_000, 5_000)
"""Limits of the state. The first record of a run is checked against them, too, and has about 800 bytes."""


class _BranchMaker(BodyMaker):
    """Draws programs with branches, which name only steps of their own list."""

    def __init__(self, chance: Random, theme: Theme) -> None:
        super().__init__(chance, theme)
        self._depth = 0

    def fork(self, name: str) -> dict[str, Any]:
        """Return a parallel step with branches; at the greatest depth it is a call."""
        if self._depth >= MOST_DEPTH:
            return self.call(name, top=True) | self.going()
        self._made += 1
        step: dict[str, Any] = {"id": name, "type": "parallel", **self.failing(top=True)}
        step.pop("max_retries", None)
        if step.get("on_error") == "retry":
            del step["on_error"]
        branches: dict[str, Any] = {}
        self._depth += 1
        for number in range(self.chance.randint(1, 3)):
            branch = f"{name}{'zpk'[number]}"
            ids = [f"{branch}s{place}" for place in range(self.chance.randint(1, 3))]
            needs = [one for one in branches if self.odds(0.3)]
            readable = [one for one in needs if self.odds(0.7)]
            with self._inside(ids, (f"c{self._made}", f"d{self._made}"), []):
                self._around = [*self._around, *readable, *readable]
                found: dict[str, Any] = {"depends_on": needs} if needs else {}
                found["steps"] = [self.step(one) for one in ids]
                if self.odds(0.5):
                    ending = {"id": f"{branch}e", "type": "end", "output": self.template()}
                    found["steps"].append(ending)
                settle_arms(found["steps"])
                if self.odds(0.2):
                    found["guardrails"] = [self.rule(f"{branch}r", found["steps"])]
            branches[branch] = found
        self._depth -= 1
        step["branches"] = branches
        if self.odds(0.2):
            step["max_visits"] = self.chance.randint(1, 2)
        return step | self.going()

    def reference(self) -> str:
        """Return a reference; one to a branch reads its output."""
        found = super().reference()
        name, _, what = found[1:].partition(".")
        is_branch = name[-1:] in "zpk" and name in self._around and what in ("errors", "error")
        return f"${name}.output" if is_branch else found


def branch_program(seed: str) -> dict[str, Any]:
    """Return the program of a seed."""
    for number in range(MOST_TRIES):
        chance = Random(f"{seed}/{number}")
        data = plain(_BranchMaker(chance, BRANCHES).program().program)
        data["inputs"] = {
            "x": {"type": "number"},
            "l": {"type": "array", "items": {"type": "number"}, "maxItems": 4},
            **{name: spec for name, spec in data.get("inputs", {}).items() if name not in ("x", "l", "h")},
        }
        data = with_compute({**data, "language": 2, "max_steps": 400}, Random(f"{seed}/compute"), BRANCHES.computes)
        data = with_order(with_errors(data, Random(f"{seed}/errors"), BRANCHES.errors), Random(seed), BRANCHES.ordered)
        data = _with_guard(data, Random(f"{seed}/guard"))
        program = bounded(data)
        has_branches = bool(program.layout.forks)
        if has_branches and not list(sibling_reads(program, Meaning(program).read_at)) and not list(crossings(program)):
            return data
    raise AssertionError("no program with branches was drawn")


def _with_guard(data: dict[str, Any], chance: Random) -> dict[str, Any]:
    """Return the program, at times with a rule by which a step behind branches requires the first step of one."""
    steps, pairs = data["steps"], []
    for number, step in enumerate(steps):
        behind = step.get("next_step") or "".join(one["id"] for one in steps[number + 1 : number + 2])
        if behind and behind != step["id"]:
            pairs += [(behind, branch["steps"][0]["id"]) for branch in step.get("branches", {}).values()]
    if not pairs or chance.random() < 0.3:
        return data
    protected, required = ({"step": one} for one in chance.choice(pairs))
    rule = {"name": "joined", "protects": protected, "requires": required}
    return data | {"guardrails": [*data.get("guardrails", ()), rule]}


def bounded(data: dict[str, Any]) -> Program:
    """Bound the loops in branches, and return the program."""
    while True:
        program = Program.from_dict(data)
        loops = endless_branches(Flow(program))
        if not loops:
            return program
        ids = {program.layout.steps[number].id for number in loops[0]}
        for step in all_steps(data["steps"]):
            if step["id"] in ids and step["type"] != "end":
                step["max_visits"] = 2


def branches_case(seed: str) -> DrawnCase:
    """Return the case of a seed: a program with branches, and a world."""
    program, chance = Program.from_dict(branch_program(seed)), Random(f"crowded {seed}")
    if chance.random() < SHARE_CROWDED:
        limits = Limits(chance.choice((200, 300, 400)), chance.choice(STATES), steps=chance.choice(STEPS))
        return DrawnCase(program, seed, manner=CROWDED, limits=limits)
    limits = Limits(steps=chance.choice(STEPS))
    return DrawnCase(program, seed, manner=Random(f"manner {seed}").choice(MANNERS), limits=limits)
