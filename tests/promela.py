"""Small programs in Promela, for SPIN: a third party to say whether a guardrail can be broken.

Written from the language's text alone. It shares no code with the checker and none with `brute_force.py`, but for the
parser of expressions. A program and one of its guardrails become one process: a label for each step, a variable for
each reference that something reads, a choice for whatever inputs, replies, outputs and failures may be, and a monitor
that jumps to `broken`. Only programs that the checker calls legal and well-typed are translated: no value is compared
with one of another type.

What happens to a write that is in doubt is left out. It may turn out done or not done, which are the success and the
failure that are here too, at no less cost; or the run is cancelled before anything has succeeded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from textwrap import indent
from typing import Any, Final

from small_language import parsed

Block = list[str]
"""Statements, one after the other."""
Value = tuple[str, str]
"""Two Promela expressions: whether there is a value, and the value where there is one."""

HEAD: Final = """\
#define UNDEFINED (-2147483647)
#define OPAQUE 1000000
#define PENDING 0
#define SUCCESS 1
#define FALLBACK 2
#define FAILED 3
#define SKIPPED 4
#define UNSTARTED 5
c_decl {
static char is_told[10000];
static void told(int number) { if (!is_told[number]) { is_told[number] = 1; printf("broken %d\\n", number); } }
}
"""
LARGEST: Final = 200
"""What fits into a byte, with room for a little more."""
REFERENCE: Final = re.compile(r"\$([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)")
TRUE: Final = "true"
REFUSED: Final = {"max_tokens", "max_stalled_steps", "system", "depends_on"}
"""Fields of programs and of steps that are not translated."""


class NotTranslatedError(Exception):
    """The program or the rule has something that is not translated."""


def model(pairs: Iterable[str]) -> str:
    """Return a whole model; SPIN searches its processes one by one, and prints the numbers of those that break."""
    texts = list(pairs)
    runs = "\n".join(f":: run pair{number}()" for number in range(len(texts)))
    return "\n".join([HEAD, *texts, f"init {{\nif\n{runs}\nfi\n}}", ""])


def process(program: dict[str, Any], rule: dict[str, Any], number: int) -> str:
    """Return the process of a program and one of its guardrails."""
    return _Process(program, rule).text(number)


# -- writing Promela ---------------------------------------------------------------------------------------------------


def joined(block: Block) -> str:
    return ";\n".join(block or ["skip"])


def either(*options: Block) -> str:
    """Return a choice: whatever does not block may be taken."""
    return "if\n" + "\n".join(":: " + indent(joined(option), "   ").lstrip() for option in options) + "\nfi"


def when(test: str, then: Block, otherwise: Block | None = None) -> str:
    return either([f"({test})", *then], ["else", *(otherwise or ["skip"])])


def both(left: str, right: str) -> str:
    return right if left == TRUE else left if right == TRUE else f"({left} && {right})"


# -- names and values --------------------------------------------------------------------------------------------------


class _Names:
    """The references that something reads: each has a variable of its own."""

    def __init__(self, program: dict[str, Any], rule: dict[str, Any]) -> None:
        self.calls = {part["id"] for part in _parts(program) if part["type"] in ("llm", "tool", "parallel")}
        self.codes: dict[str, int] = {}
        self.slots: dict[str, str] = {}
        self.opaque: set[str] = set()
        """References that may hold a value of which nothing is known."""
        for text in _all_references(program, rule):
            if text.split(".")[0] != "args":
                self.slots.setdefault(text, f"x{len(self.slots)}")

    def root(self, text: str) -> str:
        """Return the variable that a reference is, or is a field of."""
        first, *more = text.split(".")
        is_output = first in self.calls and more[:1] in (["output"], ["error"])
        return ".".join([first, *more[:1]]) if is_output else first

    def code(self, value: Any) -> int:
        if isinstance(value, str):
            return self.codes.setdefault(value, len(self.codes) + 1)
        if isinstance(value, bool | int) and abs(value) < 10_000:
            return int(value)
        raise NotTranslatedError(f"the value {value!r}")

    def bind(self, variables: Iterable[str], values: dict[str, str] | None) -> Block:
        """Assign a value, by path below the variable, or make the variables undefined."""
        block, wanted = [], set(variables)
        for text, slot in self.slots.items():
            root = self.root(text)
            if root in wanted:
                held = (values or {}).get(text.removeprefix(root), "UNDEFINED")
                block.append(f"{slot} = {held}")
                if held == "OPAQUE":
                    self.opaque.add(text)
        return block

    def choose(self, variables: Iterable[str], values: list[dict[str, str]]) -> Block:
        """Assign one of several values, whichever; those that differ in nothing that is read are one."""
        bound = list({tuple(self.bind(variables, value)): None for value in values})
        return list(bound[0]) if len(bound) == 1 else [either(*(list(block) for block in bound))]

    def values(self, spec: dict[str, Any] | None) -> list[dict[str, str]]:
        """Return every value of a type, by path."""
        spec = spec or {}
        if "enum" in spec:
            return [self.constant(value) for value in spec["enum"]]
        if spec.get("type") == "boolean":
            return [{"": "0"}, {"": "1"}]
        if spec.get("type") == "integer" and {"minimum", "maximum"} <= spec.keys():
            return [{"": str(value)} for value in range(spec["minimum"], spec["maximum"] + 1)]
        found = [{"": "OPAQUE"}]
        for name, inner in spec.get("properties", {}).items():
            held = [{f".{name}{path}": code for path, code in value.items()} for value in self.values(inner)]
            absent: list[dict[str, str]] = [] if name in spec.get("required", ()) else [{}]
            found = [value | field for value in found for field in held + absent]
        return found

    def constant(self, value: Any) -> dict[str, str]:
        if isinstance(value, dict):
            fields = [(name, self.constant(inner)) for name, inner in value.items()]
            return {"": "OPAQUE"} | {f".{name}{path}": code for name, held in fields for path, code in held.items()}
        return {"": "OPAQUE"} if isinstance(value, list) else {"": str(self.code(value))}


def _parts(program: dict[str, Any]) -> list[dict[str, Any]]:
    return [part for step in program["steps"] for part in (step, *step.get("parallel_steps", ()))]


def _cases(step: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the cases of a condition; the two-way form has one that is called `then`."""
    return step["cases"] if "cases" in step else [{"when": step["condition"], "then": step.get("then"), "name": "then"}]


def _in_tree(tree: Any) -> Iterator[str]:
    if isinstance(tree, tuple) and tree[:1] in (("reference",), ("defined",)):
        yield tree[1]
    elif isinstance(tree, tuple) and tree[:1] != ("constant",):
        for inner in tree:
            yield from _in_tree(inner)


def _in_data(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if "$$" in value:
            raise NotTranslatedError("a dollar sign that stands for itself")
        yield from REFERENCE.findall(value)
    elif isinstance(value, list | dict):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _in_data(inner)


def _read_by(step: dict[str, Any]) -> Iterator[str]:
    """Yield what a step reads in expressions."""
    texts = [case["when"] for case in _cases(step)] if step["type"] == "condition" else []
    texts += [value for value in step.get("set", {}).values() if isinstance(value, str)]
    for text in texts:
        yield from _in_tree(parsed(text))


def _all_references(program: dict[str, Any], rule: dict[str, Any]) -> Iterator[str]:
    for part in _parts(program):
        yield from _read_by(part)
        yield from _in_data([part.get("prompt"), part.get("args"), part.get("output")])
    if "when" in rule:
        yield from _in_tree(parsed(rule["when"]))


# -- expressions -------------------------------------------------------------------------------------------------------


class _Expressions:
    """Expressions in Promela; within `when`, `$args.x` is an argument of the call that starts."""

    def __init__(self, names: _Names, arguments: dict[str, str] | None = None) -> None:
        self.names, self.arguments = names, arguments or {}

    def of(self, text: str) -> Value:
        return self.tree(parsed(text))

    def tree(self, tree: Any) -> Value:
        kind = tree[0]
        if kind == "constant":
            return TRUE, str(self.names.code(tree[1]))
        if kind == "reference":
            if tree[1] in self.names.opaque:
                raise NotTranslatedError(f"${tree[1]} is asked for, and has no known type")
            return self.read(tree[1])
        if kind == "defined":
            return TRUE, self.read(tree[1])[0]
        if kind == "not":
            exists, value = self.tree(tree[1])
            return exists, f"(!{value})"
        if kind in ("and", "or"):
            return self.chain(kind, tree[1])
        return self.operation(tree[1], tree[2], tree[3])

    def read(self, text: str) -> Value:
        """A reference: an argument is there if the call has it."""
        first, _, rest = text.partition(".")
        if first == "args":
            value = self.arguments.get(rest)
            if value is None:
                return "false", "0"
            if value == "OPAQUE":
                raise NotTranslatedError(f"the argument ${text}")
            return TRUE, value
        slot = self.names.slots[text]
        return f"({slot} != UNDEFINED)", slot

    def chain(self, kind: str, parts: Iterable[Any]) -> Value:
        """From the left, stopping when decided: what stands behind need not have a value then."""
        exists, value = "", ""
        for more, right in map(self.tree, parts):
            if not value:
                exists, value = more, right
                continue
            going = value if kind == "and" else f"(!{value})"
            exists = both(exists, TRUE if more == TRUE else f"((!{going}) || {more})")
            value = f"({value} {'&&' if kind == 'and' else '||'} {right})"
        return exists, value

    def operation(self, sign: str, left: Any, right: Any) -> Value:
        exists, value = self.tree(left)
        if sign in ("in", "not in"):
            if right[0] != "constant" or not isinstance(right[1], tuple):
                raise NotTranslatedError("`in` with an array that is no literal")
            found = " || ".join(f"({value} == {self.names.code(item)})" for item in right[1])
            return exists, f"({found})" if sign == "in" else f"(!({found}))"
        more, other = self.tree(right)
        return both(exists, more), f"({value} {sign} {other})"


# -- guardrails --------------------------------------------------------------------------------------------------------


class _Monitor:
    """What a guardrail remembers, and what it makes of what happens: statements that may jump to `broken`."""

    remembers: tuple[str, ...] = ()
    ends: str = "none"
    """Which endings are judged, besides the start of steps."""

    def __init__(self, program: dict[str, Any], rule: dict[str, Any], names: _Names) -> None:
        self.program, self.rule, self.names = program, rule, names

    def starts(self, part: str, arguments: dict[str, str]) -> Block:
        """A step or sub-step starts, and the state is the one before it."""
        return []

    def repeats(self, part: str) -> Block:
        """It is performed once more, by a retry."""
        return []

    def assigned(self, variables: set[str]) -> Block:
        return []

    def succeeded(self, part: str, branch: Iterable[Any] = ()) -> Block:
        return []

    def ended(self, status: str) -> Block:
        return []

    def selected(self, selector: dict[str, Any]) -> set[str]:
        """Return the ids of the steps and sub-steps that a selector means."""
        tools = self.program.get("tools", {})
        if "step" in selector:
            return {part["id"] for part in _parts(self.program) if part["id"] == selector["step"]}
        calls = [part for part in _parts(self.program) if part["type"] == "tool"]
        if "tool" in selector:
            return {part["id"] for part in calls if part["tool"] == selector["tool"]}
        if selector != {"effect": "write"}:
            raise NotTranslatedError(f"the selector {selector}")
        return {part["id"] for part in calls if tools.get(part["tool"], {}).get("effect", "write") == "write"}


class _Requires(_Monitor):
    """For each guard, whether it came and is not stale."""

    def __init__(self, program: dict[str, Any], rule: dict[str, Any], names: _Names) -> None:
        super().__init__(program, rule, names)
        self.guards: list[dict[str, Any]] = []
        self.test = self._test(rule["requires"])
        self.remembers = tuple(f"came{number}" for number in range(len(self.guards)))

    def _test(self, requirement: dict[str, Any]) -> str:
        for name, sign in (("all_of", " && "), ("any_of", " || ")):
            if name in requirement:
                return "(" + sign.join(self._test(part) for part in requirement[name]) + ")"
        self.guards.append(requirement)
        return f"came{len(self.guards) - 1}"

    def starts(self, part: str, arguments: dict[str, str]) -> Block:
        return [when(f"!{self.test}", ["goto broken"])] if part in self.selected(self.rule["protects"]) else []

    def assigned(self, variables: set[str]) -> Block:
        if not self.rule.get("fresh", True):
            return []
        stale = [number for number, guard in enumerate(self.guards) if variables & self._variables(guard)]
        return [f"came{number} = 0" for number in stale]

    def _variables(self, guard: dict[str, Any]) -> set[str]:
        """Return the variables that make a guard stale: those that its condition reads, if it names a branch."""
        steps = [step for step in self.program["steps"] if "branch" in guard and step["id"] == guard["step"]]
        return {self.names.root(text) for step in steps for text in _read_by(step)}

    def succeeded(self, part: str, branch: Iterable[Any] = ()) -> Block:
        return [
            f"came{number} = 1"
            for number, guard in enumerate(self.guards)
            if part in self.selected({name: value for name, value in guard.items() if name != "branch"})
            and ("branch" not in guard or guard["branch"] in branch)
        ]


class _Never(_Monitor):
    def starts(self, part: str, arguments: dict[str, str]) -> Block:
        if part not in self.selected(self.rule["never"]):
            return []
        if "when" not in self.rule:
            return ["goto broken"]
        exists, value = _Expressions(self.names, arguments).of(self.rule["when"])
        return [when(f"!{exists} || {value}", ["goto broken"])]


class _Once(_Monitor):
    remembers = ("performed",)

    def starts(self, part: str, arguments: dict[str, str]) -> Block:
        is_counted = part in self.selected(self.rule["at_most_once"])
        return [when("performed", ["goto broken"]), "performed = 1"] if is_counted else []

    def repeats(self, part: str) -> Block:
        return self.starts(part, {})


class _Followed(_Monitor):
    remembers = ("owed",)

    def __init__(self, program: dict[str, Any], rule: dict[str, Any], names: _Names) -> None:
        super().__init__(program, rule, names)
        self.then = self.selected(rule["followed_by"]["then"])
        self.first = self.selected(rule["followed_by"]["first"]) - self.then
        self.ends = rule.get("ends", "declared and broken")

    def starts(self, part: str, arguments: dict[str, str]) -> Block:
        return ["owed = 0"] if part in self.then else []

    def succeeded(self, part: str, branch: Iterable[Any] = ()) -> Block:
        return ["owed = 1"] if part in self.first else []

    def ended(self, status: str) -> Block:
        if self.ends == "success":
            is_judged = status == "SUCCESS"
        else:
            is_judged = self.ends == "any" or status in ("SUCCESS", "FAILED", "STALLED")
        return [when("owed", ["goto broken"])] if is_judged else []


class _Exclusive(_Monitor):
    remembers = ("side0", "side1")

    def starts(self, part: str, arguments: dict[str, str]) -> Block:
        sides = [number for number, selector in enumerate(self.rule["exclusive"]) if part in self.selected(selector)]
        block = [f"side{number} = 1" for number in sides]
        return [*block, when("side0 && side1", ["goto broken"])] if sides else []


MONITORS: Final[dict[str, type[_Monitor]]] = {
    "requires": _Requires,
    "never": _Never,
    "at_most_once": _Once,
    "followed_by": _Followed,
    "exclusive": _Exclusive,
}


# -- calls -------------------------------------------------------------------------------------------------------------


class _Call:
    """An llm or tool step, or a sub-step; its fate is the variable of its place among its siblings."""

    def __init__(self, part: dict[str, Any], place: int, program: dict[str, Any], names: _Names) -> None:
        self.part, self.id, self.names, self.fate = part, part["id"], names, f"fate{place}"
        tool = program.get("tools", {}).get(part.get("tool"), {})
        writes = part["type"] == "tool" and tool.get("effect", "write") == "write"
        self.skips = part.get("on_error") == "skip"
        self.attempts = part.get("max_retries", 3) if part.get("on_error") == "retry" else 1
        self.is_idempotent = part["type"] == "tool" and tool.get("idempotent", False)
        # A write that timed out is in doubt, or repeated under its key until its attempts are used up.
        self.timeouts = part.get("max_retries", 3) if writes else self.attempts
        self.can_fall_back = part.get("on_timeout") == "fallback" and (self.is_idempotent or not writes)
        self.most = max(self.attempts, self.timeouts if self.can_fall_back else 1)
        self.returns = tool.get("returns") if part["type"] == "tool" else part.get("returns")
        if "allowed_outputs" in part:
            self.returns = {"enum": part["allowed_outputs"]}
        if any(set(spec) - {"type"} for spec in (tool.get("args") or {}).values()):
            raise NotTranslatedError("an argument of a narrower type")

    def arguments(self) -> dict[str, str]:
        """Return what `$args` holds once the call starts."""
        found = {}
        for name, value in self.part.get("args", {}).items():
            whole = REFERENCE.fullmatch(value) if isinstance(value, str) else None
            is_constant = isinstance(value, bool | int) or (isinstance(value, str) and "$" not in value)
            if whole:
                found[name] = "OPAQUE" if whole[1] in self.names.opaque else self.names.slots[whole[1]]
            else:
                found[name] = str(self.names.code(value)) if is_constant else "OPAQUE"
        return found

    def can_start(self) -> str:
        """Return the test that everything the call reads is there."""
        test = TRUE
        for text in dict.fromkeys(_in_data([self.part.get("prompt"), self.part.get("args")])):
            test = both(test, f"({self.names.slots[text]} != UNDEFINED)")
        return test

    def attempt(self) -> str:
        """One attempt: it may succeed, fail or time out; while it is to be tried again it stays pending."""
        lost = "SKIPPED" if self.skips else "FAILED"
        options = [[f"{self.fate} = SUCCESS"], self._again(self.attempts, lost)]
        if self.can_fall_back:
            options.append(self._again(self.timeouts, "FALLBACK"))
        return when(f"{self.fate} == PENDING", [either(*options)])

    def _again(self, attempts: int, at_last: str) -> Block:
        last = f"{self.fate} = {at_last}"
        return [last] if attempts == 1 else ["skip", when(f"tries + 1 >= {attempts}", [last])]

    def outputs(self) -> list[str]:
        return _outputs(self.part)

    def bind(self) -> Block:
        """Write down at the join what the call leaves behind."""
        chosen = self.names.choose(self.outputs(), self.names.values(self.returns))
        lost = self.names.bind(self.outputs(), None)
        block = [when(f"{self.fate} == SUCCESS", chosen, lost)] if lost else []
        if lost and self.can_fall_back:
            fallback = self.names.bind(self.outputs(), self.names.constant(self.part["fallback"]))
            block.append(when(f"{self.fate} == FALLBACK", fallback))
        is_good = f"{self.fate} == SUCCESS || {self.fate} == FALLBACK"
        return block + self.names.bind([f"{self.id}.error"], {"": f"({is_good} -> UNDEFINED : OPAQUE)"})


def _outputs(part: dict[str, Any]) -> list[str]:
    return [f"{part['id']}.output", *([part["output_key"]] if "output_key" in part else [])]


def _lost(part: dict[str, Any], names: _Names) -> Block:
    """What a part leaves behind that failed."""
    return names.bind(_outputs(part), None) + names.bind([f"{part['id']}.error"], {"": "OPAQUE"})


# -- the process -------------------------------------------------------------------------------------------------------


class _Process:
    def __init__(self, program: dict[str, Any], rule: dict[str, Any]) -> None:
        _refuse(program)
        self.program, self.steps = program, program["steps"]
        self.position = {step["id"]: number for number, step in enumerate(self.steps)}
        self.names = _Names(program, rule)
        self.expressions = _Expressions(self.names)
        kind = next(name for name in MONITORS if name in rule)
        self.monitor = MONITORS[kind](program, rule, self.names)
        self.calls = {step["id"]: self._calls(step) for step in self.steps}
        self.bounded = [number for number, step in enumerate(self.steps) if "max_visits" in step]
        self._find_opaque()

    def _calls(self, step: dict[str, Any]) -> list[_Call]:
        parts = [step] if step["type"] in ("llm", "tool") else step.get("parallel_steps", [])
        return [_Call(part, place, self.program, self.names) for place, part in enumerate(parts)]

    def _find_opaque(self) -> None:
        """Bind everything once, idly: expressions must know which references they can't ask for."""
        for spec in self.program.get("inputs", {}).items():
            self.names.choose([spec[0]], self.names.values(spec[1]))
        for part in _parts(self.program):
            if part["type"] in ("llm", "tool", "parallel"):
                _lost(part, self.names)
            if part["type"] == "parallel":
                self.names.bind(_outputs(part), {"": "OPAQUE"})
                self._refuse_fields(part)
        for calls in self.calls.values():
            for call in calls:
                call.bind()
        for step in self.steps:
            for name, value in step.get("set", {}).items():
                if isinstance(value, list | dict):
                    self.names.bind([name], self.names.constant(value))

    def _refuse_fields(self, part: dict[str, Any]) -> None:
        if any(self.names.root(text) in _outputs(part) and self.names.root(text) != text for text in self.names.slots):
            raise NotTranslatedError("a field of a parallel step's output")

    def text(self, number: int) -> str:
        """Return the whole process."""
        most = max((len(calls) for calls in self.calls.values()), default=0)
        sets = max((len(step.get("set", ())) for step in self.steps), default=0)
        small = ["spent", "tries", "round", "again", *(f"visits{place}" for place in self.bounded)]
        small += [*(f"fate{place}" for place in range(most)), *self.monitor.remembers]
        comments = [f"/* {slot} is ${text} */" for text, slot in self.names.slots.items()]
        declared = [f"int {slot} = UNDEFINED" for slot in self.names.slots.values()]
        declared += [f"int new{place}" for place in range(sets)] + [f"byte {name}" for name in small]
        body = [*declared, *self._start()]
        for place, step in enumerate(self.steps):
            body += self._visit(place, step)
        body += [f"broken: c_code {{ told({number}); }}", "done: skip"]
        return "\n".join([f"proctype pair{number}() {{", *comments, indent(joined(body), "   "), "}"])

    def _start(self) -> Block:
        """Choose the inputs; one that has a default may have any other value as well."""
        block: Block = []
        for name, spec in self.program.get("inputs", {}).items():
            if any(self.names.root(text) == name for text in self.names.slots):
                block += self.names.choose([name], self.names.values(spec))
        return [*block, "goto step0"]

    # -- where control goes --------------------------------------------------------------------------------------------

    def _end(self, status: str) -> Block:
        return [*self.monitor.ended(status), "goto done"]

    def _to(self, target: str) -> Block:
        return [f"goto step{self.position[target]}"]

    def _successor(self, step: dict[str, Any]) -> Block:
        """`next_step`, `is_terminal`, an arm, falling through: in this order."""
        number = self.position[step["id"]]
        if "next_step" in step:
            return self._to(step["next_step"])
        if step.get("is_terminal") or step["id"] in self._arms() or number + 1 == len(self.steps):
            return self._end(_declared(step))
        return [f"goto step{number + 1}"]

    def _arms(self) -> set[str]:
        ways = [way for step in self.steps for way in (step, *step.get("cases", ()))]
        return {way[name] for way in ways for name in ("then", "otherwise", "error_step") if name in way}

    def _budget(self, cost: str) -> Block:
        if "max_steps" not in self.program:
            return []
        is_over = f"spent + {cost} > {self.program['max_steps']}"
        return [when(is_over, self._end("BUDGET_EXCEEDED")), f"spent = spent + {cost}"]

    def _visit(self, number: int, step: dict[str, Any]) -> Block:
        """One step: the empty statement is a state of its own, so that jumps of a step to itself are seen."""
        block = [f"step{number}: skip"]
        if self.monitor.ends == "any":
            block.append(either(["skip"], self._end("CANCELLED")))
        block += self._bound(number, step) if "max_visits" in step else []
        block += self._budget(str(1 + len(step.get("parallel_steps", ()))))
        if step["type"] == "condition":
            return block + self.monitor.starts(step["id"], {}) + self._decide(step)
        if step["type"] == "set":
            return block + self.monitor.starts(step["id"], {}) + self._assign(step)
        if step["type"] == "end":
            return block + self.monitor.starts(step["id"], {}) + self._finish(step)
        return block + self._perform(number, step)

    def _bound(self, number: int, step: dict[str, Any]) -> Block:
        """A visit too many does not start the step, and costs nothing; the second time the run stalls."""
        visits, most = f"visits{number}", step["max_visits"]
        excess = self._end("STALLED")
        if "error_step" in step:
            lost = [statement for part in self._performers(step) for statement in _lost(part, self.names)]
            once = [*lost, *self.monitor.assigned(self._assigned(step)), *self._to(step["error_step"])]
            excess = [when(f"{visits} > {most}", excess), f"{visits} = {visits} + 1", *once]
        return [when(f"{visits} >= {most}", excess), f"{visits} = {visits} + 1"]

    def _performers(self, step: dict[str, Any]) -> list[dict[str, Any]]:
        """Return a call, or a parallel step behind its sub-steps."""
        return [*step.get("parallel_steps", ()), step]

    def _assigned(self, step: dict[str, Any]) -> set[str]:
        parts = self._performers(step)
        return {name for part in parts for name in (*_outputs(part), f"{part['id']}.error")}

    # -- conditions, `set`, `end` --------------------------------------------------------------------------------------

    def _decide(self, step: dict[str, Any]) -> Block:
        """The first case that holds wins; one that has no value ends the run."""
        block: Block = []
        for number, case in enumerate(_cases(step), start=1):
            exists, value = self.expressions.of(case["when"])
            labels = {case.get("name"), number if "cases" in step else None} - {None}
            taken = when(value, self._branch(step, case.get("then"), labels))
            block += [taken] if exists == TRUE else [when(f"!{exists}", self._end("FAILED")), taken]
        return block + self._branch(step, step.get("otherwise"), {"otherwise"})

    def _branch(self, step: dict[str, Any], target: str | None, labels: set[Any]) -> Block:
        if target is None:
            return self._end("FAILED")
        return [*self.monitor.succeeded(step["id"], labels), *self._to(target)]

    def _assign(self, step: dict[str, Any]) -> Block:
        """All at once: everything is evaluated before anything is assigned."""
        block: Block = []
        after: Block = []
        for place, (name, value) in enumerate(step["set"].items()):
            held = self.names.constant(value) if not isinstance(value, str) else {}
            if isinstance(value, str):
                exists, new = self.expressions.of(value)
                block += [when(f"!{exists}", self._end("FAILED"))] if exists != TRUE else []
                held = {"": f"new{place}"}
                block.append(f"new{place} = {new}")
            after += [*self.names.bind([name], held), f"new{place} = 0"]
        after += [*self.monitor.assigned(set(step["set"])), *self.monitor.succeeded(step["id"])]
        return [*block, *after, *self._successor(step)]

    def _finish(self, step: dict[str, Any]) -> Block:
        block = [
            when(f"{self.names.slots[text]} == UNDEFINED", self._end("FAILED")) for text in _in_data(step.get("output"))
        ]
        return [*block, *self.monitor.succeeded(step["id"]), *self._end(_declared(step))]

    # -- calls ---------------------------------------------------------------------------------------------------------

    def _perform(self, number: int, step: dict[str, Any]) -> Block:
        """Start every call, attempt in waves what is pending, and join."""
        calls = self.calls[step["id"]]
        block = self.monitor.starts(step["id"], {}) if step["type"] == "parallel" else []
        for call in calls:
            unstarted = "SKIPPED" if call.skips else "UNSTARTED"
            started = [f"{call.fate} = PENDING", *self.monitor.starts(call.id, call.arguments())]
            test = call.can_start()
            block += started if test == TRUE else [when(test, started, [f"{call.fate} = {unstarted}"])]
        block.append(f"wave{number}: skip")
        block += [call.attempt() for call in calls]
        block += self._next_wave(number, calls)
        if step["type"] == "parallel" and step.get("on_error") == "retry" and step.get("max_retries", 3) > 1:
            block += self._next_round(number, step, calls)
        return block + self._join(step, calls)

    def _next_wave(self, number: int, calls: list[_Call]) -> Block:
        """What is tried again starts when every call of the wave has come back; each attempt costs one."""
        if all(call.most == 1 for call in calls):
            return []
        pending = " + ".join(f"({call.fate} == PENDING)" for call in calls)
        once_more = [*self._budgeted(calls, "again"), "again = 0", *self._repeated(calls)]
        wave = [f"again = {pending}", when("again > 0", [*once_more, "tries = tries + 1", f"goto wave{number}"])]
        return [*wave, "tries = 0"]

    def _repeated(self, calls: list[_Call]) -> Block:
        """Every attempt after the first is a new performance, but of an idempotent tool."""
        told = [(call, self.monitor.repeats(call.id)) for call in calls if not call.is_idempotent]
        return [when(f"{call.fate} == PENDING", block) for call, block in told if block]

    def _next_round(self, number: int, step: dict[str, Any], calls: list[_Call]) -> Block:
        """A retry of the parallel step costs one, and one for each sub-step that failed and is run again."""
        most = step.get("max_retries", 3)
        failed = " + ".join(f"({call.fate} == FAILED) + ({call.fate} == UNSTARTED)" for call in calls)
        pending = [when(f"{call.fate} == FAILED", [f"{call.fate} = PENDING"]) for call in calls]
        once_more = [*self._budgeted(calls, "(1 + again)"), "again = 0", *pending, *self._repeated(calls)]
        retried = [*once_more, "round = round + 1", f"goto wave{number}"]
        return [f"again = {failed}", when(f"again > 0 && round + 1 < {most}", retried), "again = 0", "round = 0"]

    def _budgeted(self, calls: list[_Call], cost: str) -> Block:
        """The budget between two waves: what has succeeded before it is used up has happened."""
        if "max_steps" not in self.program:
            return []
        is_over = f"spent + {cost} > {self.program['max_steps']}"
        return [when(is_over, [*self._succeeded(calls), *self._end("BUDGET_EXCEEDED")]), f"spent = spent + {cost}"]

    def _succeeded(self, calls: list[_Call]) -> Block:
        told = [(call, self.monitor.succeeded(call.id)) for call in calls]
        return [when(f"{call.fate} == SUCCESS", block) for call, block in told if block]

    def _join(self, step: dict[str, Any], calls: list[_Call]) -> Block:
        block = [statement for call in calls for statement in call.bind()]
        block += [*self.monitor.assigned(self._assigned(step)), *self._succeeded(calls)]
        forget = [f"{call.fate} = PENDING" for call in calls]
        is_failed = " || ".join(f"{call.fate} == FAILED || {call.fate} == UNSTARTED" for call in calls)
        good: Block = []
        bad: Block = []
        if step["type"] == "parallel":
            error = f"{step['id']}.error"
            good = self.names.bind(_outputs(step), {"": "OPAQUE"}) + self.names.bind([error], None)
            good += self.monitor.succeeded(step["id"])
            bad = _lost(step, self.names)
        good += [*forget, *self._successor(step)]
        bad += [*forget, *self._when_failed(step)]
        return [*block, when(is_failed, bad, good)]

    def _when_failed(self, step: dict[str, Any]) -> Block:
        if step.get("on_error") == "skip":
            return self._successor(step)
        return self._to(step["error_step"]) if "error_step" in step else self._end("FAILED")


def _declared(step: dict[str, Any]) -> str:
    return "FAILED" if step.get("outcome") == "failure" else "SUCCESS"


def _refuse(program: dict[str, Any]) -> None:
    """Refuse what is not translated, rather than translate it in part."""
    unknown = {name for part in (program, *_parts(program)) for name in REFUSED & part.keys()}
    if unknown or "inputs" not in program:
        raise NotTranslatedError(f"fields: {sorted(unknown) or 'no inputs'}")
    parts = _parts(program)
    bounds = [part.get(name, 0) for part in (program, *parts) for name in ("max_steps", "max_visits", "max_retries")]
    if max(bounds) > LARGEST:
        raise NotTranslatedError("a bound that does not fit into a byte")
