"""Random Lisp programs with effects, and what both ways do with recorded results of tools; no tests stand here."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from random import Random
from typing import Any, Final, NamedTuple

from stepward.vm import ExecutionVM, Policy, Program, RunRefused, ToolContext
from stepward.vm.language.types import TypeSpec
from stepward.vm.lisp.analysis import Analyst, definitions
from stepward.vm.lisp.boundary import to_data, to_lisp
from stepward.vm.lisp.callables import Native
from stepward.vm.lisp.compiling.document import read_lisp
from stepward.vm.lisp.context import Context
from stepward.vm.lisp.faults import Fault
from stepward.vm.lisp.functions.higher_order import Returned
from stepward.vm.lisp.functions.table import natives
from stepward.vm.lisp.limits import Limits
from stepward.vm.lisp.reader import read
from stepward.vm.lisp.special import SPECIAL
from stepward.vm.machine.data import completed
from stepward.vm.values import freeze

NUMBER: Final = {"type": "number"}
TEXT: Final = {"type": "string"}
ORDER: Final = {
    "type": "object",
    "properties": {"amount": NUMBER, "status": TEXT},
    "required": ["amount"],
}
TOOLS: Final[dict[str, dict[str, Any]]] = {
    "rate": {"effect": "read", "args": {"of": NUMBER}, "returns": NUMBER},
    "orders": {"effect": "read", "returns": {"type": "array", "items": ORDER}},
    "find": {"effect": "read", "args": {"id": {}}, "returns": ORDER},
    "ask": {"effect": "write", "args": {"what": TEXT}, "returns": {"type": "string", "enum": ["yes", "no"]}},
    "is_open": {"effect": "read", "returns": {"type": "boolean"}},
    "pay": {"effect": "write", "args": {"amount": NUMBER, "note": {}}, "returns": TEXT},
}
POLICY: Final = {"policy": "tools", "tools": TOOLS}


class Done(NamedTuple):
    """What a program came to: whether it has a value, the value, and the calls of tools in order."""

    is_fine: bool
    value: Any
    calls: list[tuple[str, Any]]


# -- results of tools --------------------------------------------------------------------------------------------------


class Recorded:
    """The results of tools, by the number of the call: the same for the same seed."""

    def __init__(self, seed: str) -> None:
        self.seed = seed
        self.calls: list[tuple[str, Any]] = []

    def __call__(self, tool: str, args: Any) -> Any:
        self.calls.append((tool, freeze(args)))
        chance = Random(f"{self.seed}/{len(self.calls)}")
        if chance.random() < 0.03:
            raise RuntimeError("the tool fails")
        match tool:
            case "rate":
                return chance.choice((0, 1, 2.5, 7, -3))
            case "orders":
                return [self._order(chance) for _ in range(chance.randint(0, 3))]
            case "find":
                return self._order(chance)
            case "ask":
                return chance.choice(("yes", "no"))
            case "is_open":
                return chance.random() < 0.5
            case _:
                return f"paid {len(self.calls)}"

    @staticmethod
    def _order(chance: Random) -> dict[str, Any]:
        found: dict[str, Any] = {"amount": chance.choice((0, 5, 12.5, 100))}
        return found | ({"status": chance.choice(("open", "paid"))} if chance.random() < 0.7 else {})


# -- both ways ---------------------------------------------------------------------------------------------------------


def evaluated(text: str, data: dict[str, Any], recorded: Recorded) -> Done:
    """Evaluate a program, its tools being functions."""
    ctx = Context(Limits(seconds=math.inf), natives())

    def tool(name: str) -> Callable[..., Any]:
        def run(ctx: Context, given: Any = None) -> Any:
            args, specs = {} if given is None else to_data(ctx, given), TOOLS[name].get("args")
            if specs is not None:
                args, why = completed(args, {key: TypeSpec.model_validate(spec) for key, spec in specs.items()})
                if why is not None:
                    raise Fault("type_error", why)
            try:
                return to_lisp(ctx, freeze(recorded(name, args)))
            except RuntimeError as error:
                raise Fault("failed", str(error)) from None

        return run

    functions = natives() | {f"tool/{name}": Native(ctx.meter, f"tool/{name}", tool(name), 0, 1) for name in TOOLS}
    try:
        for name, value in data.items():
            ctx.data[name] = to_lisp(ctx, freeze(value))
        forms = read(text)
        program = Analyst(functions, SPECIAL, definitions(forms)).program(forms)
        try:
            result = ctx.run(program.body.steps(ctx, [None] * program.size))
        except Returned as returned:
            result = returned.value
        return Done(True, to_data(ctx, result), recorded.calls)
    except Fault:
        return Done(False, None, recorded.calls)


def compiled(text: str, data: dict[str, Any], recorded: Recorded) -> Done | None:
    """Compile a program and run it on the machine; None where it refuses the inputs."""

    class Tools:
        def has(self, name: str) -> bool:
            return name in TOOLS

        async def call(self, name: str, args: Any, context: ToolContext) -> Any:
            return recorded(name, args)

    program = Program.from_document(read_lisp("plan.clj", text))
    machine = ExecutionVM(Tools(), policy=Policy.from_dict(POLICY), checker=None)
    try:
        run = machine.run_sync(program, {name: data[name] for name in program.inputs or {}})
    except RunRefused:
        return None
    return Done(run.status == "SUCCESS", run.output if run.status == "SUCCESS" else None, recorded.calls)


# -- programs ----------------------------------------------------------------------------------------------------------


def data_of(seed: str) -> dict[str, Any]:
    """Return inputs."""
    chance = Random(f"{seed}/data")
    return {
        "n": chance.choice((0, 1, 3, 50.5)),
        "s": chance.choice(("", "open", "a b")),
        "o": chance.choice(({"amount": 3}, {"amount": None, "status": "open"}, {})),
        "l": chance.choice(([], [1, 2, 3], [5])),
    }


def lisp_program(seed: str) -> str:
    """Return the program of a seed."""
    return _Maker(Random(seed)).program()


class _Maker:
    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.names: dict[str, list[str]] = {"num": [], "text": [], "bool": [], "order": [], "any": []}
        self.count = self.loops = 0
        self.functions: list[str] = []

    def pick(self, *choices: Any) -> Any:
        return self.chance.choice(choices)

    def odds(self, share: float) -> bool:
        return self.chance.random() < share

    def program(self) -> str:
        tops = []
        if self.odds(0.3):
            tops.append("(defn twice [x] (* 2 x))")
            self.functions.append("twice")
        if self.odds(0.3):
            tops.append('(defn settle [amount why] (if (> amount 10) (tool/pay {:amount amount :note why}) "small"))')
            self.functions.append("settle")
        if self.odds(0.3):
            tops.append(f"(def base {self.num(1)})")
            self.names["num"].append("base")
        tops += [self.form(2) for _ in range(self.chance.randint(0, 1))]
        return "\n".join([*tops, self.form(4)])

    # -- expressions ---------------------------------------------------------------------------------------------------

    def num(self, depth: int) -> str:
        simple = ["0", "1", "2.5", "-3", "data/n", "(count data/l)", *self.names["num"] * 3]
        if depth <= 0 or self.odds(0.3):
            return str(self.pick(*simple))
        return self.pick(
            lambda: f"({self.pick('+', '-', '*')} {self.num(depth - 1)} {self.num(depth - 1)})",
            lambda: f"(tool/rate {{:of {self.num(depth - 1)}}})",
            lambda: f"(:amount {self.order(depth - 1)})",
            lambda: "(sum-by :amount (tool/orders))",
            lambda: "(->> (tool/orders {}) (map :amount) (filter #(> % 4)) count)",
            lambda: f"(inc {self.num(depth - 1)})",
            lambda: f"(if {self.test(depth - 1)} {self.num(depth - 1)} {self.num(depth - 1)})",
            lambda: f"(reduce + {self.num(depth - 1)} data/l)",
            lambda: f"(or (:amount data/o) {self.num(depth - 1)})",
            lambda: f"(twice {self.num(depth - 1)})" if "twice" in self.functions else "7",
        )()

    def order(self, depth: int) -> str:
        simple = ["data/o", *self.names["order"] * 3]
        return str(self.pick(*simple)) if self.odds(0.5) else f"(tool/find {{:id {self.any(depth)}}})"

    def text(self, depth: int) -> str:
        simple = ['"open"', '"a$b"', '""', "data/s", *self.names["text"] * 2]
        if depth <= 0 or self.odds(0.4):
            return str(self.pick(*simple))
        return self.pick(
            lambda: f"(str {self.num(depth - 1)} {self.text(depth - 1)})",
            lambda: f"(tool/ask {{:what {self.text(depth - 1)}}})",
            lambda: f'(get {self.order(depth - 1)} :status "none")',
            lambda: f"(upper-case {self.text(depth - 1)})",
        )()

    def test(self, depth: int) -> str:
        if depth <= 0 or self.odds(0.2):
            simple = ["true", "false", "nil", "data/n", "(:status data/o)", "(empty? data/l)", *self.names["bool"]]
            return str(self.pick(*simple))
        return self.pick(
            lambda: f"({self.pick('<', '<=', '>', '>=')} {self.num(depth - 1)} {self.num(depth - 1)})",
            lambda: f"({self.pick('=', 'not=')} {self.num(depth - 1)} {self.num(depth - 1)})",
            lambda: f"({self.pick('=', 'not=')} {self.text(depth - 1)} {self.text(depth - 1)})",
            lambda: f'(= (tool/ask {{:what {self.text(0)}}}) "yes")',
            lambda: f'(= "open" (:status {self.order(depth - 1)}))',
            lambda: f"({self.pick('and', 'or')} {self.test(depth - 1)} {self.test(depth - 1)})",
            lambda: f"(not {self.test(depth - 1)})",
            lambda: f"({self.pick('nil?', 'some?')} {self.any(depth - 1)})",
            lambda: "(tool/is_open)",
            lambda: self.any(depth - 1),
        )()

    def any(self, depth: int) -> str:
        return self.pick(
            lambda: self.num(depth),
            lambda: self.text(depth),
            lambda: str(self.pick("nil", "true", "[1 2]", "{:a 1}", "data/o", *self.names["any"])),
            lambda: f"(:status {self.order(depth)})",
            lambda: f"{{:x {self.num(depth)} :y {self.text(depth)}}}",
            lambda: f"[{self.num(depth)} {self.text(depth)}]",
        )()

    # -- forms ---------------------------------------------------------------------------------------------------------

    def form(self, depth: int) -> str:
        if depth <= 0:
            return self.any(1)
        return self.pick(
            lambda: self.let(depth),
            lambda: self.let(depth),
            lambda: f"(if {self.test(2)} {self.form(depth - 1)} {self.form(depth - 1)})",
            lambda: f"(when {self.test(2)} {self.form(depth - 1)} {self.form(depth - 1)})",
            lambda: self.cond(depth),
            lambda: f"(do {self.form(depth - 1)} {self.form(depth - 1)})",
            lambda: f"(tool/pay {{:amount {self.num(2)} :note {self.any(1)}}})",
            lambda: f'(case (tool/ask {{:what "go"}}) "yes" {self.form(depth - 1)} "no" {self.form(depth - 1)})',
            lambda: f"(case {self.num(1)} (1 2) {self.form(depth - 1)} {self.form(depth - 1)})",
            lambda: self.loop(depth),
            lambda: f"(when-not {self.test(2)} (return {self.any(1)}))" if not self.loops else "nil",
            lambda: f"(if {self.test(1)} (fail {self.any(1)}) {self.form(depth - 1)})",
            lambda: f"(settle {self.num(1)} {self.text(1)})" if "settle" in self.functions else self.form(depth - 1),
            lambda: f"(-> {self.num(1)} inc (max {self.num(1)}))",
            lambda: self.any(2),
        )()

    def loop(self, depth: int) -> str:
        self.count += 1
        name, kept = f"x{self.count}", {kind: list(names) for kind, names in self.names.items()}
        kind = self.pick("num", "order")
        items = {
            "num": self.pick("(take 3 data/l)", "[1 2]", "(map inc (take 2 data/l))", f"[{self.num(1)} 7]"),
            "order": self.pick("(take 2 (tool/orders))", "(filter :status (take 3 (tool/orders)))"),
        }[kind]
        self.names[kind].append(name)
        self.loops += 1
        body = self.form(depth - 1)
        self.loops -= 1
        self.names = kept
        kind = self.pick("for", "doseq", "mapv", "run!")
        return (
            f"({kind} [{name} {items}] {body})"
            if kind in ("for", "doseq")
            else f"({kind} (fn [{name}] {body}) {items})"
        )

    def cond(self, depth: int) -> str:
        clauses = " ".join(f"{self.test(2)} {self.form(depth - 1)}" for _ in range(2))
        return f"(cond {clauses} :else {self.form(0)})"

    def let(self, depth: int) -> str:
        self.count += 1
        name, kept = f"v{self.count}", {kind: list(names) for kind, names in self.names.items()}
        kind = self.pick("num", "num", "text", "order", "any", "bool", "parts", "some")
        if kind == "parts":
            head = f"[{{:keys [amount status] :or {{status 1}}}} {self.order(1)}]"
            self.names["any"] += ["amount", "status"]
        elif kind == "some":
            value = self.any(1)
            self.names["any"].append(name)
            text = f"(if-let [{name} {value}] {self.form(depth - 1)} "
            self.names = kept
            return f"{text}{self.form(depth - 1)})"
        else:
            make = {"num": self.num, "text": self.text, "order": self.order, "any": self.any, "bool": self.test}[kind]
            head = f"[{name} {make(2)}]"
            self.names[kind].append(name)
        body = self.form(depth - 1)
        self.names = kept
        return f"(let {head} {body})"


def is_alike(one: Any, other: Any) -> bool:
    """Return whether two values of the language are the same."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | Decimal) and isinstance(other, int | Decimal):
        return one == other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_alike(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(is_alike, one, other))
    return bool(one == other)
