"""Random programs and policies with every feature of the language, to find differences of machine and reference.

Most expressions are well-typed, some are not, and the programs are not checked: failures in a run are part of the test.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any, Final, NamedTuple

from stepward.sabotage.drawn.built import with_built
from stepward.sabotage.drawn.caches import spend
from stepward.sabotage.drawn.computing import with_compute
from stepward.sabotage.drawn.errors import settle_arms, with_errors
from stepward.sabotage.drawn.fields import with_fields
from stepward.sabotage.drawn.orders import with_order
from stepward.sabotage.drawn.second import with_language_2
from stepward.sabotage.drawn.stock import FALLBACKS, INPUTS, NUMBER, OK, OKS, STRING, TOOLS, VARIABLES
from stepward.sabotage.drawn.traps import trap
from stepward.sabotage.drawn.values import ONE_LIMIT, POOL, drawn_type


class Theme(NamedTuple):
    """The features of random programs. `kinds` has step kinds, weighted by repetition; the other fields are
    probabilities.

    `types`: a declared type is random. `rules`, `policies`, `later` policies, `waivers`, `budgets`: the program has
    such. `repeats`: a step is retried or visited again. `models`, `waits`: a call asks a model, or a tool that
    suspends. `limits`: a call has a time-out. `traps`: the program begins with a rare case of a guard. `calm`: a step
    reads nothing that may be undefined. `alike`: names begin like others. `errors`: the program has errors by name.
    `ordered`: a parallel step has an order. `computes`: some steps compute.
    """

    kinds: tuple[str, ...] = (*["call"] * 4, *["condition"] * 2, *["set"] * 2, *["parallel"] * 2, "end")
    most_steps: int = 8
    types: float = 0.0
    rules: float = 0.5
    policies: float = 0.25
    budgets: float = 0.25
    repeats: float = 0.0
    later: float = 0.25
    waivers: float = 0.3
    models: float = 0.3
    waits: float = 0.0
    limits: float = 0.35
    traps: float = 0.2
    calm: float = 0.0
    alike: float = 0.5
    errors: float = 0.25
    ordered: float = 0.0
    computes: float = 0.15


WIDE: Final = Theme()

LIMITED: Final = 0.6
"""The share of programs in which all random types are one type with one limit."""


class Wide(NamedTuple):
    """A program, its policies, and those of machines that continue it later."""

    program: dict[str, Any]
    policies: list[dict[str, Any]]
    later: list[dict[str, Any]]


def wide_program(seed: str, theme: Theme = WIDE) -> Wide:
    """Return the program of a seed and its policies."""
    found = _Maker(Random(seed), theme).program()
    program = with_language_2(found.program, Random(f"{seed}/language 2"), 0.2)
    program = with_built(program, Random(f"{seed}/built"), 0.2)
    program = with_fields(program, Random(f"{seed}/fields"), 0.2)
    program = with_compute(program, Random(f"{seed}/compute"), theme.computes)
    program = with_errors(program, Random(f"{seed}/errors"), theme.errors)
    return found._replace(program=with_order(program, Random(f"{seed}/order"), theme.ordered))


class _Maker:
    def __init__(self, chance: Random, theme: Theme) -> None:
        self.chance = chance
        self.theme = theme
        self.begins_alike = chance.random() < theme.alike
        """Whether the name of each step, rule and policy begins like that of another one."""
        self.limited = chance.choice(ONE_LIMIT) if chance.random() < LIMITED * theme.types else None
        self.ids = [self.named("s", number) for number in range(chance.randint(2, theme.most_steps))]
        self.has_inputs = chance.random() < 0.9
        self.inputs = {name: self.typed(spec) for name, spec in INPUTS.items() if chance.random() < 0.5}
        self.tools = {name: self.tool(facts) for name, facts in TOOLS.items()}
        self.parts: list[str] = []
        self.called: list[str] = list(TOOLS)
        self.variables: tuple[str, ...] = VARIABLES
        """The variables that steps may assign."""
        self.subs = {name: [f"{name}_{number}" for number in range(chance.randint(1, 4))] for name in self.ids}

    def odds(self, share: float) -> bool:
        return self.chance.random() < share

    def named(self, kind: str, number: int) -> str:
        """Return the name of one of several things of a kind."""
        return kind + "1" * number if self.begins_alike else f"{kind}{number}"

    def pick(self, *choices: Any) -> Any:
        """Return one of several things."""
        return self.chance.choice(choices)

    def typed(self, spec: dict[str, Any]) -> dict[str, Any]:
        """Return a type, or a random one instead."""
        return (self.limited or drawn_type(self.chance)) if self.odds(self.theme.types) else spec

    def tool(self, facts: dict[str, Any]) -> dict[str, Any]:
        """Return the facts of a tool, of which one may be changed and the types may be random."""
        found = dict(facts)
        if self.odds(0.2):
            found |= self.pick({"idempotent": True}, {"idempotent": False}, {"effect": "write"}, {"suspends": True})
        if not self.theme.types:
            return found
        if "args" in found:
            found["args"] = {name: self.typed(spec) for name, spec in found["args"].items()}
        found["returns"] = self.typed(found.get("returns", {}))
        return found

    # -- texts ---------------------------------------------------------------------------------------------------------

    def reference(self) -> str:
        step = self.chance.choice(self.ids)
        sub = self.chance.choice(self.subs[step])
        outputs = [
            f"${step}.output",
            f"${step}.output.total",
            f"${step}.error",
            f"${sub}.output",
            f"${step}.output.{sub}",
        ]
        if self.inputs and self.has_inputs and self.odds(self.theme.calm):
            return f"${self.chance.choice(list(self.inputs))}"
        names = [*(f"${name}" for name in (*self.inputs, *VARIABLES, *VARIABLES)), "$o.a", "$o.b", "$v.total", *outputs]
        return str(self.chance.choice(names))

    def number(self, depth: int = 0) -> str:
        total = f"${self.ids[0]}.output.total"
        simple = ["1", "0.5", "$x", "$o.a", "$v", "2e3", "$q", "len($s)", "len($l)", "$w", total]
        if depth > 1 or self.odds(0.6):
            return str(self.chance.choice(simple))
        left, right = self.number(depth + 1), self.number(depth + 1)
        sums = (f"{left} + {right}", f"{left} - {right} * 3", f"-({left})", f"({left} + {right}) * {right}")
        return self.chance.choice(sums)

    def condition(self, depth: int = 0) -> str:
        if depth < 2 and self.odds(0.35):
            left, right = self.condition(depth + 1), self.condition(depth + 1)
            conditions = (f"{left} and {right}", f"{left} or {right}", f"not ({left})", f"defined($v) and {left}")
            return self.chance.choice(conditions)
        text, reference = self.pick("$s", "$w", "'ok'", "$h"), self.reference()
        simple: tuple[str, ...] = (
            f"{self.number()} {self.pick('<', '<=', '>', '>=', '==', '!=')} {self.number()}",
            f"{text} {self.pick('contains', 'starts_with', 'ends_with', '==')} '{self.pick('o', 'ok', 'k', '')}'",
            f"defined({reference})",
            f"not defined({reference})",
            f"{reference} {self.pick('==', '!=')} {self.pick('null', '1', OK, 'true')}",
            f"{self.pick('$x', '$s', '$v')} {self.pick('in', 'not in')} {self.pick('[1, 2]', '$l', OKS)}",
            f"$l contains {self.number(2)}",
            self.pick("$f", "true", "false", "1 == 1", "$v", "$w"),
        )
        return self.chance.choice(simple)

    def template(self) -> Any:
        first, second = self.reference(), self.reference()
        return self.pick(
            first,
            f"is {first} and {second} $$x $5",
            f"$$${first[1:]} {first}. ${{x}} $.x {second}$",
            "it costs $$x, $$s",
            [first, 1],
            {"k": second, "m": [None, "$$"]},
            {"$s": first, first: "$$"},
        )

    # -- steps ---------------------------------------------------------------------------------------------------------

    def failing(self, *, top: bool) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        how = (
            "retry" if self.odds(self.theme.repeats) else self.pick("fail", "skip", "retry", "retry", "route", "route")
        )
        if how in ("skip", "retry"):
            fields["on_error"] = how
        if how != "skip" and top and self.odds(0.5):
            fields["error_step"] = self.chance.choice(self.ids)
        if self.odds(0.4):
            fields["max_retries"] = self.chance.randint(1, 4)
        if self.odds(0.5):
            fields["output_key"] = self.chance.choice(self.variables)
        return fields

    def call(self, name: str, *, top: bool) -> dict[str, Any]:
        step = {"id": name, **self.failing(top=top)}
        if self.odds(self.theme.limits):
            step["timeout_seconds"] = 2
        if self.odds(self.theme.models):
            prompts = ("say", "say $s", "$v", f"say {self.reference()} to {self.reference()}")
            step |= {"type": "llm", "prompt": "say" if self.odds(self.theme.calm) else self.pick(*prompts)}
            if self.odds(0.2):
                step["system"] = self.pick("be $s", "be kind", "$x")
            shape = self.pick(
                {},
                {"allowed_outputs": ["yes", "no"]},
                {"returns": self.typed(NUMBER)},
                {"returns": self.tools["get_total"]["returns"]},
            )
            step |= shape
            fallback: Any = (
                "yes"
                if not shape or "allowed_outputs" in shape
                else 7
                if shape["returns"].get("type") == "number"
                else {"total": 1}
            )
        else:
            slow = ("sign", "push", "push_all")
            tool = self.pick(*(slow if self.odds(self.theme.waits) else (*TOOLS, "pay", "mail", "mail")))
            step |= {"type": "tool", "tool": tool}
            fallback = FALLBACKS.get(tool, 7)
            args = {"n": self.argument("$x", 1, "$v", "$w")} if tool == "get_total" else {}
            if tool == "pay":
                args = {"amount": self.argument("$x", 5, 50, 50.5, "$v", "$o.a")} | (
                    {"to": self.template()} if self.odds(0.3) else {}
                )
            elif tool not in ("get_total",) and self.odds(0.4 * (1 - self.theme.calm)):
                args = {"y": self.template(), "z": self.template()}
            if args or self.odds(0.1):
                step["args"] = args
        if "timeout_seconds" in step and self.odds(0.7) and fallback is not None:
            step |= {"on_timeout": "fallback", "fallback": fallback}
        return step

    def argument(self, *usual: Any) -> Any:
        """Return a usual argument, or any value if types are random."""
        if self.odds(self.theme.calm):
            return 5
        return self.pick("$u", "$u", *POOL) if self.odds(self.theme.types) else self.pick(*usual)

    def step(self, name: str) -> dict[str, Any]:
        kind = self.chance.choice(self.theme.kinds)
        if kind == "for_each":
            return self.each(name)
        if kind == "fork":
            return self.fork(name)
        if kind == "end":
            return {"id": name, "type": "end", "outcome": self.pick("success", "failure"), "output": self.template()}
        if kind == "condition":
            step = self.branching(name)
        elif kind == "set":
            step = self.assigning(name)
        elif kind == "parallel":
            parts = [self.call(sub, top=False) for sub in self.subs[name]]
            step = {"id": name, "type": "parallel", "parallel_steps": parts, **self.failing(top=True)}
            if self.odds(0.4):
                step["max_concurrency"] = self.chance.randint(1, 2)
        else:
            step = self.call(name, top=True)
        if kind != "condition":
            step |= self.going()
        if self.odds(0.35):
            step["max_visits"] = self.chance.randint(1, 3)
        return step

    def going(self) -> dict[str, Any]:
        route = "next" if self.odds(self.theme.repeats) else self.pick("fall", "fall", "next", "next", "terminal")
        if route == "next":
            return {"next_step": self.chance.choice(self.ids)}
        return {"is_terminal": True, "outcome": self.pick("success", "failure")} if route == "terminal" else {}

    def each(self, name: str) -> dict[str, Any]:
        """Return a for_each step, in a program that has them."""
        raise NotImplementedError

    def fork(self, name: str) -> dict[str, Any]:
        """Return a parallel step with branches, in a program that has them."""
        raise NotImplementedError

    def assigning(self, name: str) -> dict[str, Any]:
        plain = self.pick(
            3, [1, 2], {"total": 1.5}, None, ["$x", "'a'", [f"${self.ids[0]}.output"]], {"total": "$x + 1"}
        )
        value = self.pick(self.number(), self.condition(), self.reference(), "'ok'", plain)
        if self.odds(self.theme.types):
            value = self.pick(*(one for one in POOL if not isinstance(one, str)))
        step: dict[str, Any] = {"id": name, "type": "set", "set": {self.chance.choice(self.variables): value}}
        if self.odds(0.3):
            step["set"][self.chance.choice(self.variables)] = self.reference()
        return step

    def branching(self, name: str) -> dict[str, Any]:
        step: dict[str, Any] = {"id": name, "type": "condition"}
        if self.odds(0.6):
            step["condition"] = self.condition()
            step["then"] = self.chance.choice(self.ids)
        else:
            step["cases"] = [
                {"when": self.condition(), "then": self.chance.choice(self.ids), "name": f"c{number}"}
                for number in range(self.chance.randint(1, 3))
            ]
            if self.odds(0.2):  # it speaks to the checker; in a run the first case that holds wins
                step["exclusive"] = True
        if self.odds(0.8):
            step["otherwise"] = self.chance.choice(self.ids)
        return step

    # -- rules ---------------------------------------------------------------------------------------------------------

    def selector(self) -> dict[str, Any]:
        name = self.chance.choice(self.ids)
        selectors: list[dict[str, Any]] = [
            {"tool": self.chance.choice(self.called)},
            {"step": name},
            {"step": self.chance.choice([*self.parts, *self.subs[name]])},
            {"effect": "write"},
        ]
        return self.chance.choice(selectors)

    def guard(self, steps: list[dict[str, Any]]) -> dict[str, Any]:
        conditions = [step for step in steps if step["type"] == "condition"]
        if conditions and self.odds(0.7):
            step = self.chance.choice(conditions)
            return {
                "step": step["id"],
                "branch": self.pick(*([1, "c0", "c1", 2] if "cases" in step else ["then"]), "otherwise"),
            }
        name = self.chance.choice([*self.ids, *self.parts])
        return self.chance.choice([{"step": name}, {"step": name}, {"tool": self.chance.choice(self.called)}])

    def requirement(self, steps: list[dict[str, Any]], depth: int = 0) -> dict[str, Any]:
        if depth > 1 or self.odds(0.6):
            return self.guard(steps)
        return {self.pick("all_of", "any_of"): [self.requirement(steps, depth + 1) for _ in range(2)]}

    def rule(self, name: str, steps: list[dict[str, Any]]) -> dict[str, Any]:
        rule: dict[str, Any] = {"name": name}
        kind = self.pick("requires", "requires", "at_most_once", "followed_by", "followed_by", "exclusive", "never")
        if kind == "requires":
            rule |= {"protects": self.selector(), "requires": self.requirement(steps), "fresh": self.odds(0.8)}
            if len(steps) > 1 and self.odds(0.4):  # of a step and one right behind it
                number = self.chance.randrange(len(steps) - 1)
                before, after = steps[number : number + 2]
                part = self.chance.choice([before, *before.get("parallel_steps", ())])
                rule |= {"protects": {"step": after["id"]}, "requires": {"step": part["id"]}}
        elif kind == "at_most_once":
            rule["at_most_once"] = self.selector()
        elif kind == "followed_by":
            rule["followed_by"] = {"first": self.selector(), "then": self.selector()}
            if self.odds(0.6):
                rule["ends"] = self.pick("any", "success")
        elif kind == "exclusive":
            rule["exclusive"] = [self.selector(), self.selector()]
        else:
            whens = ("$args.amount > 10", "$v == 1", "defined($v)", "$x > 50", "$args.to == 'me'", "defined($args)")
            rule |= {"never": self.selector()} | ({"when": self.pick(*whens)} if self.odds(0.9) else {})
        return rule

    def policy(self, name: str, steps: list[dict[str, Any]], *, is_later: bool = False) -> dict[str, Any]:
        policy: dict[str, Any] = {"policy": name}
        if self.odds(0.3):
            policy["four_eyes"] = [tool for tool in TOOLS if self.odds(0.9)]
        if self.odds(0.7 if is_later else 0.4):
            tools: list[Any] = [tool for tool in TOOLS if self.odds(0.6 if is_later else 0.8)]
            policy["allow"] = [
                {"tool": tool, "when": self.pick("$args.amount < 20", "not defined($args.y)", "$x > 1")}
                if self.odds(0.3)
                else tool
                for tool in tools
            ]
        if self.odds(0.5):
            policy["guardrails"] = [self.rule(name, steps) for name in ("kept", "kept too")[: self.pick(1, 1, 2)]]
        if self.odds(0.5):
            policy["tools"] = {tool: self.facts() for tool in TOOLS if self.odds(0.4)}
        if self.odds(self.theme.waivers):
            parts = {"guardrails": self.pick("kept", "kept", "kept too"), "allow": "allow", "four_eyes": "four_eyes"}
            codes = ["SW401", "SW402", "SW403", "SW404", "SW405", "SW406"]
            there = [name for part, name in parts.items() if part in policy]
            rules = [*parts.values(), *codes] if self.odds(0.5) or not there else there
            policy["waivers"] = [
                {
                    "program": self.pick("wide", "wide", "wide", "other"),
                    "rule": rule,
                    "reason": "r",
                    "expiry": self.pick("2099-01-01", "2026-01-01", "2026-01-01", "2025-12-31"),
                }
                for rule in self.chance.sample(rules, min(self.pick(1, 1, 2), len(rules)))
            ]
        if self.odds(0.2):
            policy["applies_to"] = [self.pick("wide", "w*", "other")]
        return policy

    def facts(self) -> dict[str, Any]:
        """Return the facts of a tool in a policy."""
        facts: dict[str, Any] = {"effect": self.pick("none", "read", "write")}
        facts |= {"idempotent": self.odds(0.4), "suspends": self.odds(0.3)}
        if self.odds(0.3):
            facts["returns"] = self.pick({"type": ["number", "null"]}, STRING, {"type": "string", "maxLength": 2}, {})
        if self.odds(0.2):
            facts["args"] = {"y": self.pick({}, STRING, {"type": "number", "default": 1}), "z": {"default": "d"}}
        return {key: fact for key, fact in facts.items() if self.odds(0.6)}

    def policies(self, steps: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Return the policies of a run, and later ones: a new one, and new versions of the others."""
        names = [self.named("p", number) for number in range(3)]
        self.chance.shuffle(names)
        found = [self.policy(name, steps) for name in names[1:] if self.odds(self.theme.policies)]
        later = [self.policy(names[0], steps, is_later=True)] if self.odds(self.theme.later) else []
        for old in found:
            if not self.odds(self.theme.later):
                continue
            new = self.policy(old["policy"], steps, is_later=True)
            same = {name: part for name, part in old.items() if name == "applies_to" or self.odds(0.5)}
            new.pop("applies_to", None)
            later.append(new | same if self.odds(0.8) else dict(reversed(old.items())))
        return found, later

    def program(self) -> Wide:
        steps = [self.step(name) for name in self.ids]
        everywhere = list(all_steps(steps))
        self.parts = [part["id"] for step in everywhere for part in step.get("parallel_steps", ())]
        self.parts += [step["id"] for step in everywhere if step["id"] not in self.ids]
        found_tools = {part.get("tool") for step in everywhere for part in (step, *step.get("parallel_steps", ()))}
        found_tools -= {None}
        self.called = sorted(found_tools) or list(TOOLS)
        rules = [self.rule(self.named("r", number), steps) for number in range(self.chance.randint(1, 3))]
        if self.odds(self.theme.traps):
            begins, rule = trap(self.chance, self.ids)
            rules[self.chance.randrange(len(rules))] = rule
            steps[: len(begins)] = begins
        elif not self.odds(self.theme.rules):
            rules = []
        settle_arms(steps)
        data: dict[str, Any] = {"name": "wide", "steps": steps}
        if self.has_inputs:
            data["inputs"] = self.inputs
        if self.odds(0.9):
            data["tools"] = {name: facts for name, facts in self.tools.items() if name in found_tools or self.odds(0.1)}
        if rules:
            data["guardrails"] = rules
        data["max_steps"] = self.pick(5, 12, 30, 40, 40)
        if self.odds(self.theme.budgets):
            data["max_stalled_steps"] = self.chance.randint(1, 6)
        if self.odds(self.theme.budgets):
            data["max_tokens"] = self.pick(1, 1, 2, 2, 3, 5)
        found = (data, *self.policies(steps))
        # Half of the programs have nothing sensitive. A repeated sensitive value is sealed again, which is a change.
        is_plain = self.odds(0.5) or "max_stalled_steps" in data
        spend(data, self.chance, self.theme.budgets)
        return Wide(*(_without_sensitive(found) if is_plain else found))


Maker = _Maker
"""Draws the parts of a program; programs with bodies are drawn by a class below it."""


def _without_sensitive(data: Any) -> Any:
    """Return data without the marks of sensitive values."""
    if isinstance(data, dict):
        return {key: _without_sensitive(item) for key, item in data.items() if key != "sensitive"}
    return type(data)(map(_without_sensitive, data)) if isinstance(data, list | tuple) else data


def all_steps(steps: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the steps of a list, and those of the bodies in it."""
    for step in steps:
        yield step
        yield from all_steps([*step.get("steps", ()), *([step["do"]] if "do" in step else ())])
        for branch in step.get("branches", {}).values():
            yield from all_steps(branch["steps"])
