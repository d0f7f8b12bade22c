"""Random programs with items that run at once: for_each steps with `max_concurrency`, beside or within other bodies."""

from __future__ import annotations

from random import Random
from typing import Any, Final

from stepward.sabotage.drawn.bodies import body_program, plain
from stepward.sabotage.drawn.branches import BRANCHES, MANNERS, STEPS, bounded, branch_program
from stepward.sabotage.drawn.machine import DrawnCase
from stepward.sabotage.drawn.wide import Theme, all_steps
from stepward.vm import Program, ProgramError
from stepward.vm.language.scopes import crossings
from stepward.vm.machine.plan import Plan
from stepward.vm.machine.state import Limits

ITEMS: Final[Theme] = BRANCHES._replace(
    kinds=(*["call"] * 5, "condition", "set", "set", "parallel", *["for_each"] * 6, "end")
)
MOST_TRIES: Final = 40
SHARE_BESIDE_BRANCHES: Final = 0.2
"""The share of programs that have branches, too."""

SHARE_OF_SHORT_LISTS: Final = 0.15
"""The share of for_each steps that keep a list that was drawn: most get one of three or four items."""


def items_program(seed: str) -> dict[str, Any]:
    """Return the program of a seed."""
    for number in range(MOST_TRIES):
        chance = Random(f"items {seed}/{number}")
        if chance.random() < SHARE_BESIDE_BRANCHES:
            data = branch_program(f"items {seed}/{number}")
        else:
            data = plain(body_program(f"items {seed}/{number}", ITEMS).program) | {"max_steps": 400}
        for step in all_steps(data["steps"]):
            if step["type"] == "for_each":
                _set_beside(step, chance)
        program = bounded(data)
        if program.layout.beside and not list(crossings(program)) and _is_runnable(program):
            return data
    raise AssertionError("no program with items at once was drawn")


def _set_beside(step: dict[str, Any], chance: Random) -> None:
    """Let the items of most steps run at once."""
    if chance.random() < 0.15:
        return
    step.pop("carry", None)
    step |= {"max_concurrency": chance.choice((2, 2, 3)), "on_item_error": chance.choice(("fail", "skip"))}
    if chance.random() >= SHARE_OF_SHORT_LISTS:
        step |= {"items": chance.choice(([1, 2, 3], [4, "$x", 6], "$l", [1, 2, 3, 4])), "max_items": 4}


def _is_runnable(program: Program) -> bool:
    try:
        Plan(program)
    except ProgramError:  # a body may have read what its items carried on
        return False
    return True


def items_case(seed: str) -> DrawnCase:
    """Return the case of a seed: a program with items that run at once, and a world."""
    program = Program.from_dict(items_program(seed))
    limits = Limits(steps=Random(f"steps {seed}").choice(STEPS))
    return DrawnCase(program, seed, manner=Random(f"manner {seed}").choice(MANNERS), limits=limits)
