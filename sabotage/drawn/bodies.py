"""Random programs with bodies: for_each steps, one within another, with carried variables and rules of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, Final

from stepward.sabotage.drawn.computing import with_compute
from stepward.sabotage.drawn.errors import settle_arms, with_errors
from stepward.sabotage.drawn.machine import DrawnCase
from stepward.sabotage.drawn.orders import with_order
from stepward.sabotage.drawn.wide import Maker, Theme, Wide
from stepward.sabotage.drawn.world import Manner
from stepward.vm import Policy, Program
from stepward.vm.language.scopes import crossings
from stepward.vm.machine.state import Limits

CALLS: Final = ("call",) * 4

BODIES: Final = Theme(
    (*CALLS, "condition", "set", "set", "parallel", *["for_each"] * 6, "end"),
    most_steps=5,
    rules=0.4,
    policies=0.2,
    budgets=0.15,
    repeats=0.1,
    waits=0.1,
    calm=0.9,
    errors=0.5,
    ordered=0.3,
    computes=0.3,
)
MOST_DEPTH: Final = 2
"""The most bodies around a step."""

LISTS: Final[tuple[Any, ...]] = ("$l", "$l", [1, 2], [1, 2], ["$x", 5], ["$x", 5], [3, 1, 2], [], "$x", [[1, 2], [3]])
MANNERS: Final = (Manner(beside=0.05, echoes=0.0), Manner(beside=0.0, echoes=0.0, weights=((40, 1, 0, 0, 0, 4),)))


class BodyMaker(Maker):
    """Draws programs with bodies. Their steps name only steps of their own list, but read what others have."""

    def __init__(self, chance: Random, theme: Theme) -> None:
        super().__init__(chance, theme)
        self._around: list[str] = []
        self._items: list[str] = []
        self._made = 0

    def reference(self) -> str:
        """Return a reference, often to an item, or to what a list around has."""
        if self._items and self.odds(0.4):
            return f"${self.chance.choice(self._items)}"
        if self.odds(0.15):
            names = [*self._around, *self.ids]
            return f"${self.chance.choice(names)}.{self.pick('output', 'output', 'errors', 'error')}"
        return super().reference()

    @contextmanager
    def _inside(self, ids: list[str], variables: tuple[str, ...], items: list[str]) -> Iterator[None]:
        before = self.ids, self.variables, self._items, self._around
        self._around = [*self._around, *self.ids]
        self.ids, self.variables, self._items = ids, variables, [*self._items, *items]
        self.subs |= {one: [f"{one}_{number}" for number in range(self.chance.randint(1, 3))] for one in ids}
        yield
        self.ids, self.variables, self._items, self._around = before

    def each(self, name: str) -> dict[str, Any]:
        """Return a for_each step. At the greatest depth it is a call."""
        depth = len(self._items) // 2
        if depth >= MOST_DEPTH:
            return self.call(name, top=True) | self.going()
        self._made += 1
        item, index, own = f"it{self._made}", f"n{self._made}", (f"a{self._made}", f"b{self._made}")
        step: dict[str, Any] = {"id": name, "type": "for_each", "as": item, **self.failing(top=True)}
        step["items"] = f"${self._items[-2]}" if self._items and self.odds(0.15) else self.pick(*LISTS)
        step["max_items"] = self.pick(1, 2, 3, 4, 4, 4, 5)
        if self.odds(0.5):
            step["index_as"] = index
        carried = self.variables[: self.chance.randint(1, 2)] if self.odds(0.4) else ()
        if carried:
            first = (0, "1 + 1", "$x", "[]", "'ok'", "$v")
            step["carry"] = {one: self.pick(*first) for one in carried}
        if self.odds(0.4):
            step["on_item_error"] = "skip"
        ids = [f"{name}b{number}" for number in range(self.chance.randint(1, 3))]
        with self._inside(ids, (*own, *carried, *carried), [item, index]):
            if self.odds(0.25):
                step["do"] = self.call(ids[0], top=False)
            else:
                step["steps"] = [self.step(one) for one in ids]
                settle_arms(step["steps"])
            if self.odds(0.3) and "steps" in step:
                step["guardrails"] = [self.rule(f"{name}r", step["steps"])]
        if self.odds(0.2):
            step["max_visits"] = self.chance.randint(1, 2)
        return step | self.going()


def body_program(seed: str, theme: Theme = BODIES) -> Wide:
    """Return the program of a seed, and its policies."""
    chance = Random(seed)
    found = BodyMaker(chance, theme).program()
    found.program["inputs"] = {
        "x": {"type": "number"},
        "l": {"type": "array", "items": {"type": "number"}, "maxItems": 4},
        **{name: spec for name, spec in found.program.get("inputs", {}).items() if name not in ("x", "l", "h")},
    }
    program = with_compute({**plain(found.program), "language": 2}, Random(f"{seed}/compute"), theme.computes)
    program = with_errors(program, Random(f"{seed}/errors"), theme.errors)
    return found._replace(program=with_order(program, Random(f"{seed}/order"), theme.ordered))


def plain(data: Any) -> Any:
    """Return data without the marks of sensitive values."""
    if isinstance(data, dict):
        return {key: plain(item) for key, item in data.items() if key != "sensitive"}
    return type(data)(map(plain, data)) if isinstance(data, list | tuple) else data


def bodies_case(seed: str) -> DrawnCase:
    """Return the case of a seed: a program with bodies, and a world."""
    data, policies, later = body_program(seed)
    program, chance = Program.from_dict(data), Random(f"limits {seed}")
    assert not list(crossings(program)), "a body assigns only its own names, and those that its items carry on"
    return DrawnCase(
        program,
        seed,
        list(map(Policy.from_dict, plain(policies))),
        list(map(Policy.from_dict, plain(later))),
        chance.choice(MANNERS),
        Limits(steps=chance.choice((20, 60, 120, 120))),
    )
