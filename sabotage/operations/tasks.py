"""Plain programs: lists of tasks, one after the other. What such a program does is known without its text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final, NamedTuple

from stepward.vm.language.policy import Policy
from stepward.vm.language.program import Program

SECRET: Final = "4711471147"

TOOLS: Final[Mapping[str, Mapping[str, Any]]] = {
    "get": {"effect": "read", "args": {}, "returns": {"type": "string"}},
    "ask": {"effect": "none", "suspends": True, "args": {}, "returns": {"type": "string"}},
    "sign": {"effect": "write", "suspends": True, "args": {}, "returns": {"type": "string"}},
    "pay": {"effect": "write", "args": {"sum": {"type": "integer"}}, "returns": {"type": "string"}},
    "mail": {"effect": "write", "idempotent": True, "args": {"text": {"type": "string"}}},
    "log": {"effect": "write", "idempotent": True, "args": {"n": {"type": "integer"}}},
}

POLICIES: Final[Mapping[str, Policy]] = {
    "people": Policy.from_dict({"policy": "people", "four_eyes": ["ask", "sign"]}),
    "once": Policy.from_dict({"policy": "once", "guardrails": [{"name": "once", "at_most_once": {"tool": "mail"}}]}),
}

WRITES: Final = ("pay", "mail", "sign")
SECONDS: Final = (3, 5, 9)
LIMITS: Final = (7, 20)
"""Seconds that a run may take."""


class Task(NamedTuple):
    """A step. `kind` is a tool, or one of both (asks at once), beg (asks again after a deadline), rest, rests (waits at
    once), think, each and set. Each item of an `each` thinks and logs; `number` is that of its first item, and its fate
    that of the last one's log.

    `number` tells it from others of its kind, `lasts` are the seconds of its waits or deadlines, None without one.
    `fate` is what becomes of its first call: it is well, in doubt, or the process dies in it.
    """

    id: str
    kind: str
    number: int = 0
    lasts: tuple[int | None, ...] = ()
    fate: str = "well"

    @property
    def cost(self) -> int:
        """The steps that it is charged when it begins."""
        return 1 + len(self.lasts) if self.kind == "both" else 1

    def args(self) -> dict[str, Any]:
        """Return the arguments of its call."""
        if self.kind == "pay":
            return {"sum": self.number}
        return {"text": SECRET if self.number else "well"} if self.kind == "mail" else {}

    def items(self) -> list[int]:
        """Return the items of an `each`."""
        return [self.number + one for one in range(len(self.lasts))]

    def fates(self) -> dict[str, str]:
        """Return what becomes of its first call, by the name that the desk has for it."""
        return {self.id if self.kind != "each" else str(self.items()[-1]): self.fate}

    def step(self) -> dict[str, Any]:
        """Return it as a step of a program."""
        step: dict[str, Any] = {"id": self.id, "type": "tool", "tool": self.kind, "on_error": "skip"}
        match self.kind:
            case "rest":
                return {"id": self.id, "type": "wait", "seconds": self.lasts[0]}
            case "set":
                return {"id": self.id, "type": "set", "set": {"n": self.number}}
            case "think":
                return {"id": self.id, "type": "llm", "prompt": f"about {self.id}"}
            case "rests":
                wait = {"id": f"{self.id}_wait", "type": "wait", "seconds": "$lasts"}
                most = {"max_concurrency": max(2, len(self.lasts) - 1)}
                over = {"items": list(self.lasts), "as": "lasts", "steps": [wait]}
                return {"id": self.id, "type": "for_each", **over, **most}
            case "each":
                think = {"id": f"{self.id}_think", "type": "llm", "prompt": "about $item"}
                log = {**step, "id": f"{self.id}_log", "tool": "log", "args": {"n": "$item"}}
                return {"id": self.id, "type": "for_each", "items": self.items(), "as": "item", "steps": [think, log]}
            case "both":
                parts = [
                    _dated({**step, "id": f"{self.id}_{n}", "tool": "ask"}, one) for n, one in enumerate(self.lasts)
                ]
                return {"id": self.id, "type": "parallel", "on_error": "skip", "parallel_steps": parts}
            case "pay":
                return {**step, "args": {"sum": self.number}}
            case "mail":
                return {**step, "args": {"text": "$card" if self.number else "well"}}
            case "ask" | "sign":
                return _dated(step, self.lasts[0])
            case "beg":
                retry = [{"errors": ["Deadline"], "max_attempts": 2, "delay_seconds": 0}]
                return _dated({**step, "tool": "ask", "retry": retry}, self.lasts[0])
            case _:
                return step


def _dated(step: dict[str, Any], seconds: int | None) -> dict[str, Any]:
    return step if seconds is None else {**step, "deadline_seconds": seconds}


KINDS: Final = (
    "get",
    "pay",
    "pay",
    "mail",
    "ask",
    "ask",
    "sign",
    "both",
    "both",
    "beg",
    "rest",
    "rests",
    "think",
    "each",
    "set",
)


QUICK: Final = ("get", "beg", "pay", "pay", "mail", "sign", "ask", "think", "each", "set")
"""Kinds of tasks of programs that seldom wait, so that their runs are soon interrupted, and continued."""

SPARE: Final = ("think", "think", "each", "set", "set", "mail")
"""Kinds of tasks of programs that think, or do not, so that chains spend budgets of tokens in some of their runs."""


def drawn_task(chance: Random, name: str, kinds: Sequence[str] = KINDS) -> Task:
    """Return a task by chance."""
    kind = chance.choice(kinds)
    dated = (None, *SECONDS)
    match kind:
        case "pay":
            return Task(name, kind, chance.randint(1, 2), (), chance.choice(("well", "well", "doubt", "dies")))
        case "mail":
            return Task(name, kind, chance.randint(0, 1), (), chance.choice(("well", "well", "dies")))
        case "ask" | "sign":
            return Task(name, kind, 0, (chance.choice((None, None, *SECONDS)),))
        case "both" | "rests":
            among = dated if kind == "both" else SECONDS
            return Task(name, kind, 0, tuple(chance.choice(among) for _ in range(chance.randint(2, 3))))
        case "rest" | "beg":
            return Task(name, kind, 0, (chance.choice(SECONDS),))
        case "each":
            number, count = 10 * int(name.strip("s")), chance.randint(1, 3)
            return Task(name, kind, number, (None,) * count, chance.choice(("well", "dies")))
        case _:
            return Task(name, kind, chance.randint(0, 9))


class Plain(NamedTuple):
    """A program: its name, its tasks, and what it may spend: steps, tokens, cost and seconds; None for any number."""

    name: str
    tasks: tuple[Task, ...]
    steps: int | None = None
    tokens: int | None = None
    cost: int | None = None
    seconds: int | None = None

    def built(self, inputs: Sequence[str] = ("card",)) -> Program:
        """Return it as a program."""
        limits = {"max_steps": self.steps, "max_tokens": self.tokens, "max_cost": self.cost}
        limits |= {"timeout_seconds": self.seconds}
        return Program.from_dict(
            {
                "name": self.name,
                "language": 2,
                "inputs": {name: {"type": "string", "sensitive": True} for name in inputs},
                "tools": TOOLS,
                **{name: most for name, most in limits.items() if most is not None},
                "steps": [*(task.step() for task in self.tasks), {"id": "end", "type": "end"}],
            }
        )


def drawn_plain(chance: Random, first: int, kinds: Sequence[str], before: Sequence[Task] = ()) -> Plain:
    """Return a program by chance, whose steps have numbers from `first` on. Often it repeats one of the writes that
    were `before` before."""
    tasks = [drawn_task(chance, f"s{first + number}", kinds) for number in range(chance.randint(2, 5))]
    if before and chance.random() < 0.7:
        tasks[0] = chance.choice(before)._replace(id=tasks[0].id, fate="well")
    steps = chance.randint(1, 6) if chance.random() < (0.4 if kinds is KINDS else 0.8) else None
    tokens, cost = chance.choice(((None, None), (None, 4), (1, None), (3, None), (3, 3), (5, 7)))
    seconds = chance.choice(LIMITS) if chance.random() < 0.25 else None
    return Plain(f"p{chance.randint(0, 1)}", tuple(tasks), steps, tokens, cost, seconds)


def echo() -> str:
    """Return a text that repeats the sensitive value."""
    return f"it is {SECRET}"
