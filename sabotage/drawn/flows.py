"""Random small programs in which sensitive values go through each construct that copies values."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from random import Random
from typing import Any, Final

from stepward.sabotage.drawn.machine import DrawnCase
from stepward.sabotage.drawn.world import Manner
from stepward.vm import Program

Step = dict[str, Any]

HIDDEN: Final = {"type": "string", "sensitive": True}
PLAIN: Final = {"type": "string"}
PAIR: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"a": HIDDEN, "b": PLAIN},
    "required": ["a", "b"],
}
INPUTS: Final[dict[str, Any]] = {
    "h": HIDDEN,
    "t": PLAIN,
    "o": PAIR,
    "l": {"type": "array", "items": HIDDEN, "maxItems": 3},
    "m": {"type": "array", "items": PAIR, "maxItems": 3},
    "p": {"type": "array", "items": PLAIN, "maxItems": 3},
    "w": {**PAIR, "sensitive": True},
    "g": {"type": "array", "items": PLAIN, "sensitive": True, "maxItems": 3},
}
DEFAULT: Final = "dflt-sxmn-rqpd"
"""What an input of the called program is that nobody gives."""

GIVEN: Final[dict[str, Any]] = {
    "h": "qzv-1",
    "t": "plain",
    "o": {"a": "qzv-2", "b": "plain"},
    "l": ["qzv-3", "qzv-4"],
    "m": [{"a": "qzv-5", "b": "plain"}, {"a": "qzv-6", "b": "plain"}],
    "p": ["one", "two"],
    "w": {"a": "qzv-7", "b": "plain"},
    "g": ["qzv-8", "qzv-9"],
}
"""All sensitive values are too short to be looked for in outputs: what is sensitive follows from the program alone."""

LONGER: Final = "-wvbk-gtzx"
"""What makes sensitive values so long that they are looked for."""

ECHOING: Final = 0.3
"""The share of cases with such values, which outputs repeat."""

TOOLS: Final[dict[str, dict[str, Any]]] = {
    "get": {"effect": "read", "returns": {"type": ["string", "null"], "maxLength": 3}},
    "open": {
        "effect": "read",
        "returns": {**PAIR, "properties": {"a": {**HIDDEN, "maxLength": 3}, "b": {"maxLength": 3}}},
    },
    "list": {"effect": "read", "returns": {"type": "array", "items": {**HIDDEN, "maxLength": 3}, "maxItems": 2}},
    "file": {"effect": "write", "idempotent": True, "returns": {"type": "string", "maxLength": 3}},
}
OPEN: Final = {**TOOLS, "get": {"effect": "read"}, "file": {"effect": "write", "idempotent": True}}
"""The same tools with room for a sensitive value."""

ECHOES: Final = Manner(beside=0.0, echoes=0.6, weights=((20, 1, 0, 0, 0, 1), (8, 3, 0, 0, 0, 1)))
MANNER: Final = Manner(beside=0.0, echoes=0.0, weights=((20, 1, 0, 0, 0, 1), (8, 3, 0, 0, 0, 1), (40, 0, 0, 0, 0, 1)))
OBJECTS: Final = ("o", "w")
LISTS: Final = ("l", "m", "p", "g", "g")
ENDINGS: Final[tuple[Step, ...]] = ({"on_error": "skip"}, {"on_error": "skip"}, {"error_step": "last"})


class _Flow:
    """The steps of a program, and the names that they have assigned so far."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.names = list(INPUTS)
        self.objects = list(OBJECTS)
        self.lists = list(LISTS)
        self.made = 0

    def new(self, kind: str) -> str:
        """Return a name that no step has."""
        self.made += 1
        return f"{kind}{self.made}"

    def read(self, *more: str) -> str:
        """Return a reference to something, often to a field of an object; `more` are names that are read often."""
        chance = self.chance
        if more and chance.random() < 0.6:
            return f"${chance.choice(more)}"
        if chance.random() < 0.35:
            return f"${chance.choice(self.objects)}.{chance.choice('ab')}"
        return f"${chance.choice(self.names)}"

    def built(self, *more: str) -> Any:
        """Return a value with templates."""
        one, other = self.read(*more), self.read(*more)
        values = (one, [one, other], {"a": one, "b": "plain"}, {"b": one, "c": {"a": other}}, f"so {one} and {other}")
        return self.chance.choice((*values, [{"a": one}, "plain"]))

    def computed(self, *more: str) -> Any:
        """Return what a `set` assigns: a reference, a value that is built, or one that is computed."""
        one = self.read(*more)
        some = (one, one, "'a' + 'b'", f"[{one}]", f"defined({one})", f"{one} == {one}", f"[{one}, 'x'] + ['y']")
        built = self.built(*more)
        is_text = isinstance(built, str) and " " in built  # a text of a `set` is an expression
        return self.chance.choice(some) if is_text or self.chance.random() < 0.5 else built

    # -- steps ---------------------------------------------------------------------------------------------------------

    def assigned(self) -> list[Step]:
        """Return a `set` step, at times of fields of an object."""
        name, to = self.new("s"), self.new("v")
        self.names.append(to)
        if self.chance.random() < 0.5:
            return [{"id": name, "type": "set", "set": {to: self.computed()}}]
        first = self.chance.choice(
            ("$o", "$w", {"a": "$h", "b": {"a": "$h", "c": 1}}, {"a": 1, "b": "$o"}, {"b": "$w", "a": "$h"})
        )
        paths = self.chance.sample(("a", "b", "new", "b.a", "b.new"), self.chance.choice((1, 1, 2)))
        if self.chance.random() < 0.3:
            paths = ["b.a", "b.new"]  # two fields of one inner object
        if any(path.startswith("b.") for path in paths) and "b" in paths:
            paths.remove("b")
        if any(path.startswith("b.") for path in paths) and isinstance(first, str):
            first = {"a": "$h", "b": self.chance.choice(("$o", "$w"))}
        self.objects.append(to)
        return [
            {"id": name, "type": "set", "set": {to: first}},
            {"id": f"{name}x", "type": "set", "set": {f"{to}.{path}": self.computed() for path in paths}},
        ]

    def called(self) -> list[Step]:
        """Return a call of a tool, alone or beside another one that reads it."""
        name = self.new("c")
        one = self._call(name)
        if self.chance.random() < 0.5:
            self.names.append(f"{name}.output")
            return [{**one, "on_error": "skip", "output_key": self._output()}]
        parts = [self._call(f"{name}_0"), {**self._call(f"{name}_1", f"{name}_0.output"), "depends_on": [f"{name}_0"]}]
        return [
            {"id": name, "type": "parallel", "parallel_steps": parts, "on_error": "skip", "output_key": self._output()}
        ]

    def _call(self, name: str, *more: str) -> Step:
        tool = self.chance.choice(list(TOOLS))
        return {"id": name, "type": "tool", "tool": tool, "args": {"x": self.built(*more)}, "on_error": "skip"}

    def _output(self) -> str:
        name = self.new("v")
        self.names.append(name)
        return name

    def asked(self) -> list[Step]:
        """Return a question to a model: one that is sensitive is refused."""
        name = self.new("q")
        words = f"say {self.read()} of {self.read()}" if self.chance.random() < 0.7 else self.read()
        more = {"system": self.read()} if self.chance.random() < 0.2 else {}
        shape: Step = self.chance.choice(({"allowed_outputs": ["yes", "no"]}, {"returns": TOOLS["open"]["returns"]}))
        return [
            {
                "id": name,
                "type": "llm",
                "prompt": words,
                "on_error": "skip",
                "output_key": self._output(),
                **more,
                **shape,
            }
        ]

    def worked_out(self) -> list[Step]:
        """Return a `compute` step."""
        name = self.new("u")
        lisp = self.chance.choice(("data/x", "(str data/x)", "[data/x 1]", "(count [data/x])"))
        step = {"id": name, "type": "compute", "lisp": lisp, "args": {"x": self.built()}, "on_error": "skip"}
        return [{**step, "output_key": self._output()}]

    def each(self) -> list[Step]:
        """Return a for_each step, whose items come in order or at once."""
        chance, name = self.chance, self.new("e")
        item, own = f"it{self.made}", f"a{self.made}"
        items: Any = chance.choice(
            (*(f"${one}" for one in self.lists), ["$h", "$t"], ["$o", "$w"], ["$t", {"a": "$h"}])
        )
        step: Step = {"id": name, "type": "for_each", "as": item, "items": items, "max_items": 5}
        carried = self._output()
        is_beside = chance.random() < 0.4
        if is_beside:
            step["max_concurrency"] = 2
            self.names.remove(carried)
        else:
            step["carry"] = {carried: chance.choice(("'none'", "$h", {"a": "$h", "b": 1}, [1]))}
        within = (item, item) if is_beside else (item, item, carried)
        if chance.random() < 0.25:
            step["do"] = self._call(f"{name}b", *within)
            if not is_beside:
                del step["carry"]
                self.names.remove(carried)
        else:
            assigned: Step = {own: self.computed(*within)}
            if not is_beside and chance.random() < 0.7:
                assigned[carried] = self.computed(*within)
            steps = [{"id": f"{name}b", "type": "set", "set": assigned}]
            if chance.random() < 0.3:
                steps.append({**self._call(f"{name}c", *within, own), "on_error": "fail"})
            steps.append({"id": f"{name}z", "type": "end", "output": self.built(*within, own, own)})
            step["steps"] = steps
        step |= {"on_item_error": chance.choice(("fail", "skip", "skip")), **chance.choice(ENDINGS)}
        if step.get("error_step") and chance.random() < 0.5:
            step |= {"on_error": "retry", "max_retries": 2}
        step["output_key"] = self._output()
        self.lists.append(step["output_key"])
        return [step]

    def forked(self) -> list[Step]:
        """Return a parallel step with branches, of which one reads what another came to."""
        chance, name = self.chance, self.new("f")
        branches: dict[str, Any] = {}
        for number, branch in enumerate((f"{name}z", f"{name}k", f"{name}p")[: chance.choice((2, 2, 3))]):
            own, more = f"x{self.made}", []
            found: dict[str, Any] = {}
            if number and chance.random() < 0.7:
                before = chance.choice(list(branches))
                found["depends_on"] = [before]
                more = [f"{before}.output", f"{before}.output"]
            steps: list[Step] = [{"id": f"{branch}s", "type": "set", "set": {own: self.computed(*more)}}]
            if chance.random() < 0.3:
                steps.append(self._call(f"{branch}c", own))
            steps.append({"id": f"{branch}e", "type": "end", "output": self.built(own, own, *more)})
            branches[branch] = {**found, "steps": steps}
        self.names += [f"{branch}.output" for branch in branches]
        step: Step = {"id": name, "type": "parallel", "branches": branches, "output_key": self._output()}
        return [step | chance.choice(ENDINGS)]

    def invoked(self) -> list[Step]:
        """Return a call of a program, whose inputs are sensitive by their types or by what is given."""
        name = self.new("i")
        args = {"x": self.built(), "y": self.chance.choice(("$o", "$t", "$h", {"a": "$t", "b": "$h"}, "$w"))}
        step = {
            "id": name,
            "type": "call",
            "program": "p",
            "args": {key: self._as_argument(value) for key, value in args.items()},
        }
        return [{**step, "output_key": self._output(), **self.chance.choice(ENDINGS)}]

    @staticmethod
    def _as_argument(value: Any) -> Any:
        """Return an argument of a program: none mixes text and references."""
        return "$h" if isinstance(value, str) and " " in value else value


def flows_case(seed: str) -> DrawnCase:
    """Return the case of a seed: some steps, each of which reads what those before it have left."""
    chance = Random(f"flows {seed}")
    flow = _Flow(chance)
    kinds = (
        flow.assigned,
        flow.assigned,
        flow.called,
        flow.asked,
        flow.worked_out,
        flow.each,
        flow.each,
        flow.forked,
        flow.invoked,
    )
    steps = [step for _ in range(chance.choice((2, 3, 4, 5))) for step in chance.choice(kinds)()]
    steps.append({"id": "last", "type": "end", "output": [flow.read(), "$h"] if chance.random() < 0.3 else None})
    for step, following in pairwise(steps):
        step["next_step"] = following["id"]
    inner = _Flow(chance)
    inner.names = ["x", "y", "x", "y", "y.a", "n"]
    inner.objects = ["y"]
    called = {
        "inputs": {
            "x": chance.choice(({}, {"sensitive": True})),
            "y": chance.choice(({}, PAIR)),
            "n": {**HIDDEN, "default": DEFAULT},
        },
        "steps": [
            {"id": "one", "type": "set", "set": {"v": inner.computed()}},
            {"id": "z", "type": "end", "output": inner.built("v", "v")},
        ],
    }
    data = {"name": "flows", "language": 2, "inputs": INPUTS, "programs": {"p": called}, "steps": steps}
    if chance.random() < ECHOING:
        inputs = longer(GIVEN)
        secrets = (*(text for text in texts_of(inputs) if text.endswith(LONGER)), DEFAULT)
        return DrawnCase(
            Program.from_dict({**data, "tools": OPEN}), seed, manner=ECHOES, inputs=inputs, secrets=secrets
        )
    return DrawnCase(Program.from_dict({**data, "tools": TOOLS}), seed, manner=MANNER, inputs=GIVEN)


def longer(value: Any) -> Any:
    """Return inputs with sensitive values that are looked for in outputs."""
    if isinstance(value, dict):
        return {name: longer(item) for name, item in value.items()}
    if isinstance(value, list):
        return [longer(item) for item in value]
    return f"{value}{LONGER}" if value.startswith("qzv") else value


def texts_of(value: Any) -> Iterator[str]:
    """Yield the texts of a value."""
    if isinstance(value, str):
        yield value
    else:
        for item in value.values() if isinstance(value, dict) else value:
            yield from texts_of(item)
