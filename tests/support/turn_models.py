"""Random sessions of turns, and a plain model of what they do, which shares no code with the session."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

TOOLS: dict[str, dict[str, Any]] = {
    "get": {"effect": "read", "args": {"n": {"type": "number"}}, "returns": {"type": "number"}},
    "put": {"effect": "write", "idempotent": True, "args": {"n": {"type": "number"}}, "returns": {"type": "number"}},
}
POLICY: dict[str, Any] = {"policy": "world", "tools": TOOLS, "allow": list(TOOLS)}
NAMES = ("a", "b", "c", "d")

Stmt = tuple[Any, ...]


class Failure(Exception):  # noqa: N818 - a name without Error
    """A tool has failed, or the turn has said that it fails."""


class World:
    """The tools: each call has a number, on which its result depends, and whether it fails."""

    def __init__(self, seed: str) -> None:
        self.seed = seed
        self.calls: list[tuple[str, Any]] = []

    def call(self, tool: str, n: Any) -> int:
        self.calls.append((tool, n))
        chance = Random(f"{self.seed}/{len(self.calls)}")
        if chance.random() < 0.18:
            raise Failure("the tool fails")
        return 10 * len(self.calls) + chance.randint(0, 9)

    def tools(self) -> dict[str, Any]:
        def get(n: Any) -> int:
            return self.call("get", n)

        def put(n: Any) -> int:
            return self.call("put", n)

        return {"get": get, "put": put}


# -- turns -------------------------------------------------------------------------------------------------------------


def text_of(stmt: Stmt) -> str:
    """Return a statement as Lisp."""
    match stmt:
        case "def", name, inner:
            return f"(def {name} {text_of(inner)})"
        case "call", tool, n:
            return f"(tool/{tool} {{:n {n}}})"
        case "add", one, number:
            return f"(+ {one} {number})"
        case "loop", numbers:
            return f"(doseq [x [{' '.join(map(str, numbers))}]] (tool/put {{:n x}}))"
        case "when", name, limit, inner:
            return f"(when (< {name} {limit}) {text_of(inner)})"
        case ("fail",):
            return '(fail "as it says")'
        case _:
            raise AssertionError(stmt)


def random_turn(chance: Random, known: set[str], before: list[Stmt] | None) -> list[Stmt]:
    """Return the statements of a turn; with the failed turn before it, often that one, changed or not."""
    if before and chance.random() < 0.8:
        turn = [one for one in before if one != ("fail",)]
        if chance.random() < 0.4:
            turn.insert(chance.randint(0, len(turn)), _effect(chance, known))
        if turn and chance.random() < 0.2:
            turn.append(("fail",))
        return turn or [("call", "get", 1)]
    made: set[str] = set()
    turn = []
    for _ in range(chance.randint(1, 4)):
        name = chance.choice(NAMES)
        if chance.random() < 0.45 and name not in made:
            turn.append(("def", name, _value(chance, known | made)))
            made.add(name)
        else:
            turn.append(_effect(chance, known | made))
    if chance.random() < 0.15:
        turn.append(("fail",))
    return turn


def _value(chance: Random, known: set[str]) -> Stmt:
    if known and chance.random() < 0.4:
        return "add", chance.choice(sorted(known)), chance.randint(1, 9)
    return "call", "get", _operand(chance, known)


def _effect(chance: Random, known: set[str]) -> Stmt:
    kind = chance.random()
    call = "call", chance.choice(("get", "put")), _operand(chance, known)
    if kind < 0.3:
        return "loop", tuple(chance.sample(range(1, 9), chance.randint(1, 4)))
    if kind < 0.45 and known:
        return "when", chance.choice(sorted(known)), chance.randint(0, 120), call
    return call


def _operand(chance: Random, known: set[str]) -> Any:
    return chance.choice(sorted(known)) if known and chance.random() < 0.3 else chance.randint(1, 5)


# -- the model ---------------------------------------------------------------------------------------------------------


@dataclass
class Model:
    """What a session has to do: `memory` are the calls of failed turns, each for one call of the same site."""

    world: World
    names: dict[str, int] = field(default_factory=dict)
    memory: list[tuple[str, int, Any, int]] = field(default_factory=list)

    def turn(self, stmts: list[Stmt]) -> bool:
        """Take a turn; return whether it has succeeded."""
        self._new = dict(self.names)
        self._left, self._made = list(self.memory), []  # type: ignore[var-annotated]
        ranks: dict[str, int] = {}
        try:
            for stmt in stmts:
                self._run(stmt, ranks)
        except Failure:
            self.memory += self._made
            return False
        self.names, self.memory = self._new, []
        return True

    def _run(self, stmt: Stmt, ranks: dict[str, int]) -> Any:
        match stmt:
            case "def", name, inner:
                self._new[name] = self._run(inner, ranks)
            case "call", tool, n:
                text = text_of(stmt)
                rank = ranks[text] = ranks.get(text, -1) + 1
                return self._call(text, rank, tool, self._of(n))
            case "add", one, number:
                return self._of(one) + number
            case "loop", numbers:
                text = "(tool/put {:n x})"
                rank = ranks[text] = ranks.get(text, -1) + 1
                for number in numbers:
                    self._call(text, rank, "put", number)
            case "when", name, limit, ("call", tool, n) as inner:
                text = text_of(inner)
                rank = ranks[text] = ranks.get(text, -1) + 1
                if self._of(name) < limit:
                    self._call(text, rank, tool, self._of(n))
            case ("fail",):
                raise Failure("as it says")
        return None

    def _of(self, operand: Any) -> Any:
        return self._new[operand] if isinstance(operand, str) else operand

    def _call(self, text: str, rank: int, tool: str, n: Any) -> int:
        for one in self._left:
            if one[:3] == (text, rank, n):
                self._left.remove(one)
                return one[3]
        found = self.world.call(tool, n)
        self._made.append((text, rank, n, found))
        return found
