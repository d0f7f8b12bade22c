"""Programs of any size whose shape is known, and a census that counts what they are.

The census follows the language's page on plain data and shares no code with the checker: a generator that stopped
making what its name says would make every figure a lie.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

Data = dict[str, Any]
Step = dict[str, Any]

LEVELS: Final = 20
INPUTS: Final[Data] = {
    "order": {"type": "string"},
    **{name: {"type": "integer"} for name in ("level", *(f"level_{depth}" for depth in range(1, LEVELS + 1)))},
}
TOOLS: Final[Data] = {
    "touch": {
        "effect": "read",
        "args": {
            "order": {"type": "string"},
            "number": {"type": "integer"},
            "before": {"type": "string", "default": ""},
        },
        "returns": {"type": "string"},
    },
    "ask": {"effect": "read", "returns": {"type": "string", "enum": ["open", "closed"]}},
}


@dataclass(frozen=True)
class Census:
    """What a program is made of; `backward` counts the branches that lead back up the list."""

    steps: int
    reachable: int
    conditions: int
    branches: int
    backward: int


@dataclass(frozen=True)
class Shape:
    """A family of programs: `make(n)` has n steps, and a census of it finds `expected(n)`."""

    name: str
    make: Callable[[int], Data]
    expected: Callable[[int], Census]

    def program(self, n: int) -> Data:
        """Return the program of n steps, after counting what it is made of."""
        data = self.make(n)
        assert census(data) == self.expected(n), f"{self.name} of {n} steps is none"
        return data


def _program(name: str, n: int, steps: list[Step]) -> Data:
    """Most shapes have an odd number of steps; one more in front makes an even one."""
    first = [_touch("start", 0)] if len(steps) < n else []
    return {"name": name, "inputs": INPUTS, "tools": TOOLS, "steps": first + steps}


def _touch(name: str, number: int, **fields: object) -> Step:
    return {"id": name, "type": "tool", "tool": "touch", "args": {"order": "$order", "number": number}, **fields}


def chain(n: int) -> Data:
    """Return n tool steps in a row, each of which reads an input and what the step before gave."""
    steps = [_touch(f"step_{number}", number, output_key=f"note_{number}") for number in range(n)]
    for number, step in enumerate(steps[1:]):
        step["args"]["before"] = f"$note_{number}"
    return _program("chain", n, steps)


def ladder(n: int) -> Data:
    """Return two-way branches in a row, each round one tool step, that meet again: about 2^(n/2) paths."""
    rungs = (n - 1) // 2
    steps: list[Step] = []
    for number in range(rungs):
        following = f"rung_{number + 1}" if number + 1 < rungs else "last"
        steps += [
            {
                "id": f"rung_{number}",
                "type": "condition",
                "condition": f"$level > {number}",
                "then": f"step_{number}",
                "otherwise": following,
            },
            _touch(f"step_{number}", number, next_step=following),
        ]
    return _program("ladder", n, [*steps, _touch("last", rungs, is_terminal=True)])


def tree(n: int) -> Data:
    """Return a balanced binary tree of two-way branches with a tool step at every leaf."""
    inner = (n - 1) // 2
    steps: list[Step] = [
        {
            "id": f"node_{number}",
            "type": "condition",
            # What one level asks says nothing of the next: every leaf can be reached.
            "condition": f"$level_{(number + 1).bit_length()} > {number}",
            "then": f"node_{2 * number + 1}",
            "otherwise": f"node_{2 * number + 2}",
        }
        for number in range(inner)
    ]
    leaves = [_touch(f"node_{number}", number, is_terminal=True) for number in range(inner, 2 * inner + 1)]
    return _program("tree", n, steps + leaves)


def loops(n: int) -> Data:
    """Return polling loops in a row: ask, and ask again while the answer is `open`, five times at most."""
    rounds = (n - 1) // 2
    steps: list[Step] = []
    for number in range(rounds):
        ask = {"id": f"ask_{number}", "type": "tool", "tool": "ask", "output_key": f"state_{number}", "max_visits": 5}
        steps += [
            ask | {"next_step": f"look_{number}"},
            {
                "id": f"look_{number}",
                "type": "condition",
                "condition": f"$state_{number} == 'open'",
                "then": f"ask_{number}",
                "otherwise": f"ask_{number + 1}" if number + 1 < rounds else "last",
            },
        ]
    return _program("loops", n, [*steps, _touch("last", rounds, is_terminal=True)])


def chain_with_a_fault(n: int) -> Data:
    """Return a chain whose last step reads what nothing defines: one finding, whose place must be found in the text."""
    data = chain(n)
    data["steps"][-1]["args"]["order"] = "$ordre"
    return data


SHAPES: Final = (
    Shape("chain", chain, lambda n: Census(n, n, 0, 0, 0)),
    Shape("ladder", ladder, lambda n: Census(n, n, (n - 1) // 2, n - 2 + n % 2, 0)),
    Shape("tree", tree, lambda n: Census(n, n, (n - 1) // 2, n - 2 + n % 2, 0)),
    Shape("loops", loops, lambda n: Census(n, n, (n - 1) // 2, n - 2 + n % 2, (n - 1) // 2)),
    Shape("chain, one fault", chain_with_a_fault, lambda n: Census(n, n, 0, 0, 0)),
)


def census(data: Data) -> Census:
    """Count what a program of the generators is made of, by the rules of control flow on plain data."""
    steps: list[Step] = data["steps"]
    position = {step["id"]: number for number, step in enumerate(steps)}
    assert len(position) == len(steps)
    named = {step[branch] for step in steps for branch in ("then", "otherwise") if branch in step}
    following: list[list[int]] = []
    branches = backward = 0
    for number, step in enumerate(steps):
        if step["type"] == "condition":
            targets = [position[step["then"]], position[step["otherwise"]]]
            branches += 2
            backward += sum(target <= number for target in targets)
        elif "next_step" in step:
            targets = [position[step["next_step"]]]
        else:
            ends = step.get("is_terminal") or step["id"] in named or number + 1 == len(steps)
            targets = [] if ends else [number + 1]
        following.append(targets)
    reached, pending = {0}, [0]
    while pending:
        fresh = [target for target in following[pending.pop()] if target not in reached]
        reached.update(fresh)
        pending += fresh
    conditions = sum(step["type"] == "condition" for step in steps)
    return Census(len(steps), len(reached), conditions, branches, backward)
