"""Small programs with what `small_programs` never makes, and the policies that they run under.

Patterns, a variable with two sources of different types, texts that may be null or must be empty, lists, conditions
over constants, optional fields behind constants, budgets of tokens and of money, parallel steps that run few at once,
and policies: facts, an allow list, guardrails and waivers. Every run can still be enumerated: `domain` has a value for
each way in which what is asked can come out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from built_forms import built, by_paths
from small_language import (
    ITEM_QUESTIONS,
    LIST_QUESTIONS,
    MEMBER_QUESTIONS,
    ROW_QUESTIONS,
    TEXT_ITEM_QUESTIONS,
    TEXT_QUESTIONS,
    domain,
)
from small_programs import small_program
from stepward.sabotage.drawn.second import with_language_2
from stepward.vm.language.types import TypeSpec, fits
from stepward.vm.values import freeze

TEXTS: Final[list[dict[str, Any]]] = [
    {"type": "string", "maxLength": 0},
    {"type": "string", "maxLength": 1},
    {"type": "string", "maxLength": 40},
    {"type": "string", "pattern": "^a", "maxLength": 40},
    {"type": "string", "pattern": "b"},
    {"type": "string", "enum": ["", "a", "ab"]},
    {"type": "string", "enum": ["a", "ab", "x"], "pattern": "^a"},
]
NULLABLE: Final[list[dict[str, Any]]] = [
    {"type": ["string", "null"], "maxLength": 1},
    {"type": ["string", "null"], "maxLength": 40},
    {"type": ["null", "string"], "pattern": "b"},
    {"type": ["string", "null"], "enum": ["a", None]},
    {"type": "string", "enum": ["a", "b"]},
]
LISTS: Final[list[dict[str, Any]]] = [
    {"type": "array", "items": {"type": "string"}},
    {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
    {"type": "array", "items": {"type": "string", "maxLength": 1}},
]
COUNTS: Final[list[dict[str, Any]]] = [
    {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 1}},
    {"type": "array", "items": {"type": "boolean"}},
    *LISTS,
]
ROWS: Final[list[dict[str, Any]]] = [
    {"type": "array", "items": {"type": "object", "properties": {"fine": {"type": "boolean"}}, "required": ["fine"]}},
    {"type": "array", "items": {"type": "object", "properties": {"fine": {"type": "boolean"}}}},
]
OBJECTS: Final[list[dict[str, Any]]] = [
    {"type": "object", "properties": {"fine": {"type": "boolean"}}},
    {"type": "object", "properties": {"fine": {"type": "boolean"}, "n": {"type": "integer", "enum": [0, 1]}}},
    {"type": "object", "properties": {"fine": {"type": "boolean"}}, "additionalProperties": False},
]
NUMBERS: Final[list[dict[str, Any]]] = [
    {"type": "number", "enum": [0, 1]},
    {"type": "integer", "minimum": 0, "maximum": 2},
    {"type": "integer", "minimum": 1, "maximum": 1},
]
NUMBER_QUESTIONS: Final = ("$x > 0", "$x + 1 == 2", "-$x < 0", "$x * 2 >= 2", "$x - 1 == 0", "-($x - 1) > 0")
CONSTANTS: Final = (
    "1 == 2", "2 > 1", "'a' == 'b'", "not (1 > 2)", "1 + 1 == 2", "'abc' contains 'b'", "len('ab') == 2", "-2 > 1",
    "'a' in ['a', 'b']", "false", "true", "'ab' starts_with 'a'", "'ab' ends_with 'a'", "null == null", "2 * 3 == 6",
    "1 - 1 == 0", "1 >= 1", "'abc' not contains 'b'", "1 != 1", "lower('A') == 'a'", "matches('ab', '^b')",
    "join(['a', 'b'], '-') == 'a-b'",
)  # fmt: skip
GUARDED: Final = tuple(f"$x != null and ({one})" for one in TEXT_QUESTIONS) + tuple(
    f"$x == null or ({one})" for one in TEXT_QUESTIONS
)
FIELDS: Final = (
    "1 == 2 and $x.fine", "1 == 1 or $x.fine", "not defined($x.fine)", "defined($x.fine) and $x.fine",
    "not (2 > 1 and defined($x.fine)) or not $x.fine",
)  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """What a variable may hold: types of tools, values of `set`, and what may be asked of it."""

    types: list[dict[str, Any]]
    values: list[Any]
    questions: tuple[str, ...]


KINDS: Final = {
    "text": Kind(TEXTS, ["''", "'a'", "'ab'"], TEXT_QUESTIONS),
    "nullable": Kind(NULLABLE, ["'a'", "'b'"], GUARDED),
    "null": Kind(NULLABLE[:4], [None, "null"], ("$x == null", "$x != null")),
    "list": Kind(LISTS, [[], ["a"], "[]", "['b', 'a']"], (*LIST_QUESTIONS, *MEMBER_QUESTIONS)),
    "counted": Kind(COUNTS, [[], "[]", [1]], LIST_QUESTIONS),
    "number": Kind(NUMBERS, [1, "0", "1 - 2"], NUMBER_QUESTIONS),
    "object": Kind(OBJECTS, [{}, {"fine": True}], FIELDS),
}
COMPUTED: Final[dict[str, list[str]]] = {
    "text": ['"a"', '(str "a" "b")', '(subs "ab" 1)', '(apply str (reverse "ba"))', '""', "(inc nil)"],
    "nullable": ['"a"', "nil", "(first [])", '(get {"k" "b"} "k")', "(nth [] 1)"],
    "null": ["nil", '"a"', "(when false 1)", '(last ["b"])'],
    "list": ['["a"]', "[]", '(conj ["a"] "b")', '(filter nil? ["a"])', '(map str ["a" "b"])'],
    "counted": ["[]", "(vec (range 2))", "[1]", '["a"]', "(take 1 (range 5))"],
    "number": ["1", "(+ 1 1)", "(count [7])", "(- 1 1)", "(/ 1 0)", "(reduce + [0 1])"],
    "object": ["{}", '{"fine" true}', "(assoc {} :fine false)", '(dissoc {"fine" true} "fine")'],
}
"""Expressions that a `compute` step may have, by what is asked of their values; some have none."""
ITEMS: Final = {
    "list": Kind(LISTS, KINDS["list"].values, (*ITEM_QUESTIONS, *TEXT_ITEM_QUESTIONS)),
    "counted": Kind(COUNTS, KINDS["counted"].values, ITEM_QUESTIONS),
    "object": Kind(ROWS, [[], [{"fine": True}], [{"fine": False}, {"fine": True}]], ROW_QUESTIONS),
}
"""What is asked by an index, in place of some questions."""


@dataclass(frozen=True)
class Seasoned:
    """A program, its policies, and both as one program: that is what is enumerated."""

    program: dict[str, Any]
    policies: list[dict[str, Any]]
    whole: dict[str, Any]


def seasoned_program(seed: int) -> Seasoned:
    """Return the program of a seed."""
    return _Cook(small_program(seed), Random(f"{seed}/seasoned"), seed).served()


_OF_LANGUAGE_2: Final = re.compile(r"\b(?:lower|upper|trim|join|matches)\(|['\]] \+ |\+ ['\[]|\w\[\d|\[[^\]\"]*\$")
"""A function of language 2, a `+` beside a text or a list, an index, or a list with a reference."""


class _Cook:
    def __init__(self, data: dict[str, Any], chance: Random, seed: int) -> None:
        self.data, self.chance = deepcopy(data), chance
        self.later = Random(f"{seed}/items")
        self.computing = Random(f"{seed}/compute")
        self.built = Random(f"{seed}/built")
        self.paths = Random(f"{seed}/fields")
        """Chances of what came later: the programs of older seeds stay what they were."""
        self.data.setdefault("tools", {})
        self.policies: list[dict[str, Any]] = []

    def odds(self, share: float) -> bool:
        return self.chance.random() < share

    def served(self) -> Seasoned:
        for share, add in self._seasonings():
            if self.odds(share):
                add()
        typed = with_language_2({**self.data, "steps": []}, Random(f"{self.chance.random()}/types"), 0.3)
        self.data |= {key: value for key, value in typed.items() if key != "steps"} | {"tools": self._with_room(typed)}
        if _OF_LANGUAGE_2.search(json.dumps(self.data)) or any(step["id"] == "m0" for step in self.data["steps"]):
            self.data["language"] = 2
        return Seasoned(*self._divided(), whole=self.data)

    def _with_room(self, typed: dict[str, Any]) -> dict[str, Any]:
        """Return tools with new types, or with the old type where the fallback of a call is none of the new one."""
        tools = dict(typed["tools"])
        for call in (part for step in self.data["steps"] for part in step.get("parallel_steps", [step])):
            name = call.get("tool")
            if "fallback" in call and name in tools and "returns" in tools[name]:
                spec = TypeSpec.model_validate(tools[name]["returns"])
                tools[name] = tools[name] if fits(freeze(call["fallback"]), spec) else self.data["tools"][name]
        return tools

    def _seasonings(self) -> list[tuple[float, Callable[[], None]]]:
        return [
            (0.3, self._letters_by_pattern),
            (0.8, self._two_sources),
            (0.3, self._constants),
            (0.2, self._tokens),
            (0.5, self._few_at_once),
            (0.1, self._told_reasons),
            (0.15, self._defaults),
        ]

    # -- small things ----------------------------------------------------------------------------------------------

    def _letters_by_pattern(self) -> None:
        """Say of letters by a pattern which they are."""
        for specs in (self.data["inputs"], {name: tool.get("returns") for name, tool in self.data["tools"].items()}):
            for name, spec in specs.items():
                if spec and spec.get("enum") == ["a", "b", "c"]:
                    written = {"type": "string", "maxLength": 1, "pattern": self.chance.choice(["^[abc]", "[a-c]"])}
                    if name in self.data["tools"]:
                        self.data["tools"][name] = {**self.data["tools"][name], "returns": written}
                    else:
                        self.data["inputs"] = {**self.data["inputs"], name: written}

    def _constants(self) -> None:
        """Put a condition over constants before, or in place of, one that is there."""
        conditions = [step for step in self.data["steps"] if "condition" in step]
        if conditions:
            step, constant = self.chance.choice(conditions), self.chance.choice(CONSTANTS)
            old = f"({step['condition']})"
            step["condition"] = self.chance.choice(
                [constant, f"{constant} and {old}", f"{constant} or {old}", f"{old} and not ({constant})"]
            )

    def _tokens(self) -> None:
        self.data["max_tokens"] = self.chance.randint(1, 30)
        if self.data["max_tokens"] % 3 == 0:  # no further chance: the programs of older seeds stay what they were
            self.data["max_cost"] = self.data["max_tokens"] / 10

    def _few_at_once(self) -> None:
        for step in self.data["steps"]:
            if step["type"] == "parallel":
                step |= {"max_concurrency": self.chance.randint(1, 2), "output_key": "all"}
            for call in step.get("parallel_steps", [step]):
                if call["type"] == "llm":
                    call |= {"cache": True, "model": "small", "temperature": 0, "max_output_tokens": 50}
                    self.data["language"] = 2

    def _told_reasons(self) -> None:
        """Say what people say, and the machine does not read."""
        self.data |= {"description": "a program", "version": "1.0", "language": self.data.get("language", 1)}
        for step in self.data["steps"]:
            for part in (step, *step.get("parallel_steps", ())):
                if part["type"] == "llm":
                    part["system"] = "be kind"

    def _defaults(self) -> None:
        """Let an input be left out; what it is then it may be anyway."""
        name = self.chance.choice(list(self.data["inputs"]))
        spec = self.data["inputs"][name]
        self.data["inputs"] = {**self.data["inputs"], name: {**spec, "default": domain(spec)[0]}}

    # -- a variable with two sources -------------------------------------------------------------------------------

    def _two_sources(self) -> None:
        """Begin with steps that give a variable its value twice, and ask for it there, further down and in a rule."""
        word = self.chance.choice(list(KINDS))
        kind = ITEMS[word] if word in ITEMS and self.later.random() < 0.4 else KINDS[word]
        question = self.chance.choice(kind.questions).replace("$x", "$t")
        if self.odds(0.3):
            question = f"{self.chance.choice(CONSTANTS)} {self.chance.choice(['and', 'or'])} ({question})"
        steps = self.data["steps"]
        arms = {target for step in steps for target in _targets(step)}
        first = steps[0]
        says_where = {"next_step", "is_terminal", "condition", "cases"} & first.keys() or first["type"] == "end"
        if first["id"] not in arms and not says_where:
            first["next_step"] = steps[1]["id"]  # it becomes an arm, and would end the run
        begun = [self._source(kind, 0), self._source(kind, 1)]
        begun = [self._computed(word, kind, one) for one in begun]
        begun[0]["next_step"], begun[1]["next_step"] = "x1", "x2"
        made: list[dict[str, Any]] = []
        is_built = self.built.random() < 0.4
        if is_built or self.paths.random() < 0.2:
            of_kind, chance = (built, self.built) if is_built else (by_paths, self.paths)
            assigned, question = of_kind(question, chance, is_text=word == "text")
            made = [{"id": f"m{number}", "type": "set", "set": one} for number, one in enumerate(assigned)]
            for one, following in zip(made, [*(one["id"] for one in made[1:]), "x2"], strict=False):
                one["next_step"] = following
            if made:
                begun[1]["next_step"] = "m0"
        if begun[1]["type"] != "set" and self.odds(0.2):
            question = question.replace("$t", "$x1.output")
        begun += [*made, *self._asking(question, first["id"])]
        self.data["steps"] = [*begun, *steps]
        if "max_steps" in self.data:
            self.data["max_steps"] += 6 + len(made)
        self._ask_below(question, steps)
        self._rule(question, steps)

    def _source(self, kind: Kind, number: int) -> dict[str, Any]:
        """Return a step that gives the variable a value, or takes it away."""
        # What is asked for null may be null: the second source says so.
        asks_null = any("null" in question for question in kind.questions) and number == 1
        if not asks_null and self.odds(0.4 if number == 0 else 0.2):
            return {"id": f"x{number}", "type": "set", "set": {"t": self.chance.choice(kind.values)}}
        spec = self.chance.choice([one for one in kind.types if "null" in one["type"] or not asks_null])
        fields: dict[str, Any] = {"id": f"x{number}"}
        if self.odds(0.25):
            fields |= {"type": "llm", "prompt": "say", "returns": spec}
        else:
            name = f"get{number}"
            self.data["tools"] = {**self.data["tools"], name: {"effect": "read", "returns": spec}}
            fields |= {"type": "tool", "tool": name}
        how = self.chance.random()
        if how < 0.2:
            fields["on_error"] = "skip"
        elif how < 0.4:
            fields["error_step"] = "x2"
        elif how < 0.5 and (value := _member(spec)) is not None:
            fields |= {"timeout_seconds": 1, "on_timeout": "fallback", "fallback": value}
        return fields | {"output_key": "t"}

    def _computed(self, word: str, kind: Kind, source: dict[str, Any]) -> dict[str, Any]:
        """Return a step that computes the variable, now and then, in place of another source."""
        asks_null = any("null" in question for question in kind.questions) and source["id"] == "x1"
        types = [one for one in kind.types if "null" in one["type"] or not asks_null]
        if self.computing.random() >= 0.25 or not types:
            return source
        chance = self.computing
        made: dict[str, Any] = {"id": source["id"], "type": "compute", "lisp": chance.choice(COMPUTED[word])}
        if chance.random() < 0.5:
            given = chance.choice(list(self.data["inputs"]))
            made["args"] = {"given": f"${given}"}
            made["lisp"] = f"(if (some? data/given) {made['lisp']} {chance.choice(COMPUTED[word])})"
        made |= {"returns": chance.choice(types), "output_key": "t"}
        how = chance.random()
        if how < 0.2:
            made["on_error"] = "skip"
        elif how < 0.4:
            made["error_step"] = "x2"
        elif how < 0.55:
            made["catch"] = [{"errors": [chance.choice(["Unexpected", "BadOutput", "any"])], "then": "x2"}]
        self.data["language"] = 2
        return made

    def _asking(self, question: str, entry: str) -> list[dict[str, Any]]:
        """Return the steps that ask, and lead to the entry."""
        roll = self.chance.random()
        ask: dict[str, Any] = {"id": "x2", "type": "condition"}
        if roll < 0.25:
            return [ask | {"condition": question, "then": entry}]
        if roll < 0.4:
            more = self.chance.choice(CONSTANTS)
            cases = [{"when": question, "then": entry, "name": "asked"}, {"when": more, "then": entry}]
            self.chance.shuffle(cases)
            return [ask | {"cases": cases, "exclusive": self.odds(0.5)}]
        flags = [
            {"id": name, "type": "set", "set": {"told": value}, "next_step": entry}
            for name, value in (("x3", True), ("x4", False))
        ]
        return [ask | {"condition": question, "then": "x3", "otherwise": "x4"}, *flags]

    def _ask_below(self, question: str, steps: list[dict[str, Any]]) -> None:
        conditions = [step for step in steps if "condition" in step]
        if conditions and self.odds(0.6):
            step = self.chance.choice(conditions)
            step["condition"] = f"({step['condition']}) {self.chance.choice(['and', 'or'])} ({question})"

    def _rule(self, question: str, steps: list[dict[str, Any]]) -> None:
        asked = next(step for step in self.data["steps"] if step["id"] == "x2")
        start = self.chance.choice([step for step in steps if step["type"] != "end"] or steps)
        rule: dict[str, Any] = {"name": "seasoned"}
        if self.odds(0.6):
            rule |= {"never": {"step": start["id"]}, "when": self.chance.choice([question, f"not ({question})"])}
        else:
            branches = ["asked", 2] if "cases" in asked else ["then", "otherwise"][: 1 + ("otherwise" in asked)]
            guard = {
                "step": "x2",
                "branch": self.chance.choice([one for one in branches if one == 2 or _has(asked, one)]),
            }
            rule |= {"protects": {"step": start["id"]}, "requires": guard, "fresh": self.odds(0.8)}
        self.data["guardrails"] = [*self.data["guardrails"], rule]

    # -- policies --------------------------------------------------------------------------------------------------

    def _divided(self) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Return the program and policies that say together what the whole says."""
        program = deepcopy(self.data)
        if self.odds(0.5):
            return program, []
        policy: dict[str, Any] = {"policy": "house", "description": "what holds here"}
        if self.odds(0.7) and program["guardrails"]:
            moved = self.chance.randint(1, len(program["guardrails"]))
            policy["guardrails"], program["guardrails"] = program["guardrails"][:moved], program["guardrails"][moved:]
        self._know(program, policy)
        self._allow(policy)
        if self.odds(0.4) and program["guardrails"]:
            rule = {**program["guardrails"][0], "name": "waived"}
            policy["guardrails"] = [*policy.get("guardrails", []), rule]
            waiver = {"program": program["name"], "rule": "waived", "reason": "not here", "expiry": "2099-12-31"}
            policy["waivers"] = [waiver]
        policies = [policy]
        if self.odds(0.4):
            policy["applies_to"] = [self.chance.choice(["small", "s*"])]
            first = {"name": "elsewhere", "never": {"step": program["steps"][0]["id"]}}
            policies.append({"policy": "other", "applies_to": ["large"], "guardrails": [first]})
        return program, policies

    def _know(self, program: dict[str, Any], policy: dict[str, Any]) -> None:
        """Let the policy know of tools what the program says, or worse; a tool may also suspend."""
        if self.odds(0.3):
            policy["tools"] = program.pop("tools")
        elif program["tools"]:
            name = self.chance.choice(list(program["tools"]))
            known = {**program["tools"][name], "suspends": True}
            known |= {"effect": "write", "idempotent": False} if self.odds(0.3) else {}
            policy["tools"] = {name: known}
            program["tools"][name] |= {"suspends": False}
            self.data["tools"] = {**self.data["tools"], name: known}

    def _allow(self, policy: dict[str, Any]) -> None:
        """Allow all tools, but of one only calls with some arguments: that is a rule like any other."""
        tools = self.data["tools"]
        with_args = [name for name, tool in tools.items() if "args" in tool]
        if with_args and self.odds(0.3):
            name = self.chance.choice(with_args)
            when = self.chance.choice(["$args.x != 1", "$args.x < 2"] if name == "pay" else ["$args.x != 'a'"])
            policy["allow"] = [{"tool": one, "when": when} if one == name else one for one in tools]
            rule = {"name": "allow", "never": {"tool": name}, "when": f"not ({when})"}
            self.data["guardrails"] = [*self.data["guardrails"], rule]


def _targets(step: dict[str, Any]) -> list[str]:
    named = [step.get("then"), step.get("otherwise"), step.get("error_step")]
    return [target for target in (*named, *(case["then"] for case in step.get("cases", ()))) if target]


def _has(step: dict[str, Any], branch: Any) -> bool:
    return branch in step or any(case.get("name") == branch for case in step.get("cases", ()))


def _member(spec: dict[str, Any]) -> Any:
    """Return a value of a type that a fallback may be."""
    if spec["type"] in ("array", "object"):
        return [] if spec["type"] == "array" else {"fine": False}
    if spec.get("maxLength") == 0:
        return ""
    return "a" if "pattern" not in spec or spec["pattern"] == "^a" else None
