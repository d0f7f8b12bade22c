"""Random programs that compute. Most of their expressions have a value, over numbers, texts and lists close
together."""

from __future__ import annotations

from decimal import Decimal
from random import Random
from typing import Any, Final

NUMBERS: Final = (0, 1, 1, 2, -1, 0.5, 1.0, 10, 1e3, 1e-7, -2.5e-9, 1e21, 10**24 + 1, Decimal("1.10"), Decimal("1E+3"))
"""Numbers close together, and some that other programs write with an exponent, or with zeros at the end."""

TEXTS: Final = ("", "a", "ab", "ba", "aba", "1", "é𝔘", " Aß\u2003", "İǅΣ")
JOINS: Final = ("', '", "''", "'a'")
JOINED: Final = ("'a'", "$t0", "$v2", "$t1 + '-'", "''", "$n0", "$l1")
PATTERNS: Final = ("'^a'", "'(?i)ab$'", "'^[^a]*$'", "'\\\\pL'")
NUMBER: Final = {"type": "number"}
TEXT: Final = {"type": "string"}
INPUTS: Final[dict[str, dict[str, Any]]] = {
    "n0": NUMBER,
    "n1": NUMBER,
    "n2": {"type": "integer"},
    "t0": TEXT,
    "t1": TEXT,
    "b0": {"type": "boolean"},
    "b1": {"type": "boolean"},
    "l0": {"type": "array", "items": NUMBER},
    "l1": {"type": "array", "items": TEXT},
    "q": {"type": ["number", "null"]},
    "o": {"type": "object", "properties": {"a": NUMBER, "t": TEXT, "z": {"type": ["null", "string"]}}},
}
ILL: Final = 0.015
"""The share of operands of a random kind."""

STEPS: Final = 7
MOST_DEPTH: Final = 3


def expression_program(seed: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the program of a seed and its inputs."""
    chance = Random(f"expressions {seed}")
    maker = _Maker(chance, Random(f"functions {seed}"), Random(f"joins {seed}"))
    steps = [maker.step(number) for number in range(STEPS)]
    ending = {
        "id": f"s{STEPS}",
        "type": "end",
        "output": {"all": "$v0", "text": "$v1 of $t0 and $l0, $o; $n0 $n1 $n2 $q $b0"},
    }
    names = {"n": NUMBERS, "t": TEXTS, "b": (True, False), "q": (*NUMBERS, None)}
    inputs: dict[str, Any] = {name: chance.choice(names[name[0]]) for name in INPUTS if name[0] in names}
    inputs["n2"] = chance.choice((0, 1, 2, -1))
    inputs["l0"] = [chance.choice(NUMBERS) for _ in range(chance.randint(0, 3))]
    inputs["l1"] = [chance.choice(TEXTS) for _ in range(chance.randint(0, 3))]
    inputs["o"] = {
        name: value
        for name, value in (("a", chance.choice(NUMBERS)), ("t", chance.choice(TEXTS)), ("z", None))
        if chance.random() < 0.7
    }
    if chance.random() < 0.5:
        inputs["o"]["b"] = {"n": [{"d": 1, "c": chance.choice(NUMBERS)}], "m": chance.choice(TEXTS)}
    first = {"id": "first", "type": "set", "set": {"v0": True, "v1": 1, "v2": "'a'"}}
    program = {"name": "computes", "language": 2, "inputs": INPUTS, "steps": [first, *steps, ending], "max_steps": 30}
    return program, inputs


class _Maker:
    def __init__(self, chance: Random, functions: Random, joins: Random) -> None:
        self.chance, self.functions, self.joins = chance, functions, joins

    def step(self, number: int) -> dict[str, Any]:
        """Return a step that computes or decides. Both branches of a decision lead to the next step."""
        name, following = f"s{number}", f"s{number + 1}"
        if self.chance.random() < 0.7:
            values = {"v0": self.truth(0), "v1": self.number(0), "v2": self.text()}
            assigned = {key: values[key] for key in values if self.chance.random() < 0.8} or {"v0": values["v0"]}
            return {"id": name, "type": "set", "set": assigned, "next_step": following}
        later = f"s{self.chance.randint(number + 1, STEPS)}"
        if self.chance.random() < 0.5:
            return {"id": name, "type": "condition", "condition": self.truth(0), "then": later, "otherwise": following}
        cases = [{"when": self.truth(1), "then": self.chance.choice((later, following))} for _ in range(2)]
        return {"id": name, "type": "condition", "cases": cases, "otherwise": following}

    def any(self) -> str:
        return self.chance.choice(
            [f"${name}" for name in (*INPUTS, "v0", "v1", "v2")]
            + ["null", "1", "'a'", "$nothing", "1e999", "9e999 * 10", "1e500 * 1e499"]
        )

    def truth(self, depth: int) -> str:
        chance = self.chance
        if chance.random() < ILL:
            return self.any()
        if depth < MOST_DEPTH and chance.random() < 0.5:
            left, right, third = (self.truth(depth + 1) for _ in range(3))
            return chance.choice(
                (
                    f"({left} and {right})",
                    f"({left} or {right})",
                    f"not ({left})",
                    f"({left} or {right} and {third})",
                    f"({left} and not {right})" if right.startswith(("(", "$")) else f"({left} and {right})",
                )
            )
        a, b, text, other = self.number(depth + 1), self.number(depth + 1), self.text(), self.text()
        if self.joins.random() < 0.08:
            array = f"{self.joins.choice(('$l0', '[1]', '$l1'))} + {self.joins.choice(('$l0', '[1, 2]', '[]', '$l1'))}"
            return self.joins.choice((f"{a} in {array}", f"len({array}) > 1", f"({array}) contains {text}"))
        order, equal = chance.choice(("<", "<=", ">", ">=")), chance.choice(("==", "!="))
        element, negation = chance.choice(("in", "not in")), chance.choice(("contains", "not contains"))
        if self.functions.random() < 0.1:
            return f"matches({text}, {self.functions.choice(PATTERNS)})"
        return chance.choice(
            (
                f"{a} {order} {b}",
                f"{a} {order} {b}",
                f"{a} {equal} {b}",
                f"{text} {equal} {other}",
                f"{text} {chance.choice(('starts_with', 'ends_with', negation))} {other}",
                f"{a} {element} $l0",
                f"$l1 {negation} {text}",
                f"{text} {element} ['a', 'ab']",
                f"$q {equal} null",
                f"$o.{chance.choice('zz')} {equal} null"
                if chance.random() < 0.2
                else f"defined($o.{chance.choice('atz')})",
                "defined($o.a) and $o.a >= 1",
                f"defined($q) {chance.choice(('and', 'or'))} $q {order} 1",
                chance.choice(("$b0", "$b1", "$v0", "true", "false")),
                f"$b0 {equal} $b1",
            )
        )

    def number(self, depth: int) -> str:
        chance = self.chance
        if chance.random() < ILL:
            return self.any()
        simple = ("0", "1", "2", "0.5", "1e-7", "2.50", "$n0", "$n1", "$n2", "$v1", "len($t0)", "len($l0)", "len($v2)")
        if depth > 1 or chance.random() < 0.5:
            return chance.choice(simple)
        a, b, c = (self.number(depth + 1) for _ in range(3))
        return chance.choice((f"({a} + {b})", f"({a} - {b} - {c})", f"{a} * {b}", f"-({a})", f"({a} + {b} * {c})"))

    def text(self) -> str:
        chance = self.chance
        if chance.random() < ILL:
            return self.any()
        text = self.called(chance.choice(("$t0", "$t1", "$v2", "''", "'a'", "'ab'", "'é'")))
        return f"({text} + {self.joins.choice(JOINED)})" if self.joins.random() < 0.15 else text

    def called(self, text: str) -> str:
        """Return a text, or now and then the value of functions of it."""
        chance = self.functions
        if chance.random() < 0.7:
            return text
        if chance.random() < 0.2:
            return f"join({chance.choice(('$l1', '$l1', '$l0'))}, {chance.choice(JOINS)})"
        return f"{chance.choice(('lower', 'upper', 'trim'))}({self.called(text)})"
