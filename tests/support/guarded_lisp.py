"""Random Lisp programs in which a call stands behind tests of a value that may be nil; no tests stand here."""

from __future__ import annotations

from random import Random
from typing import Any, Final

from lisp_programs import TOOLS, Recorded, evaluated
from stepward.validator import ProgramValidator, Verdict
from stepward.vm import Policy, Program

LARGEST: Final = 5
RULES: Final = {
    "policy": "small",
    "tools": TOOLS,
    "guardrails": [
        {"name": "small", "never": {"tool": "pay"}, "when": f"$args.amount != null and $args.amount > {LARGEST}"}
    ],
}
SOURCES: Final = (
    "(first (map :amount (tool/orders)))",
    "(:amount (first (tool/orders)))",
    "(:amount data/o)",
    "(first data/l)",
    "(get data/o :amount)",
    "(tool/rate {:of 1})",
)
PAY: Final = "(tool/pay {:amount x :note 1})"


def guarded_program(seed: int) -> str:
    """Return a program that binds `x`, and pays it behind tests of it."""
    return _Maker(Random(f"guarded {seed}")).program()


class _Maker:
    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.has_functions = False

    def program(self) -> str:
        test = self.test(2).replace("x", "y").replace("limit", "most")
        self.has_functions = True
        return f"(defn fine? [y most] {test})\n(def limit {LARGEST})\n{self.main()}"

    def main(self) -> str:
        source, pick = self.chance.choice(SOURCES), self.chance.random()
        if pick < 0.2:
            return f"({self.chance.choice(('if-let', 'if-some', 'when-let', 'when-some'))} [x {source}] {self.form(1)})"
        if pick < 0.35:
            return f"(doseq [x (take 2 (map :amount (tool/orders)))] {self.form(2)})"
        if pick < 0.65:
            names = f"x {source} ok {self.test(2)}"
            names += f" sure {self.chance.choice(('ok', '(not ok)', '(and x ok)', '(or (nil? x) ok)'))}"
            return f"(let [{names}] {self.form(2)})"
        return f"(let [x {source}] {self.form(3)})"

    def form(self, depth: int) -> str:
        if depth <= 0:
            return self.chance.choice((PAY, PAY, "nil"))
        test, inner, other = self.test(2), self.form(depth - 1), self.form(0)
        return self.chance.choice(
            (
                f"(when {test} {PAY})",
                f"(when-not {test} {PAY})",
                f"(if {test} {inner} {other})",
                f"(if-not {test} {other} {inner})",
                f"(cond {test} {other} {self.test(1)} {inner} :else nil)",
                f"(and {test} {PAY})",
                f"(or {test} {PAY})",
                f"(do (when {test} (tool/is_open)) {inner})",
            )
        )

    def test(self, depth: int) -> str:
        functions = ("(fine? x 5)",) * 2 * self.has_functions
        atoms = (
            *functions,
            "x",
            "(nil? x)",
            "(some? x)",
            f"(<= x {LARGEST})",
            f"(> x {LARGEST})",
            "(<= x limit)",
            "(< 0 x 5)",
        )
        if depth <= 0 or self.chance.random() < 0.2:
            return self.chance.choice(atoms)
        one, other = self.test(depth - 1), self.test(depth - 1)
        return self.chance.choice(
            (f"(and {one} {other})", f"(and x {one})", f"(or {one} {other})", f"(or (nil? x) {one})", f"(not {one})")
        )


def pays_too_much(text: str, runs: int) -> bool:
    """Return whether an evaluation of the program pays more than the rule allows, with results of chance."""
    for number in range(runs):
        seed = f"{number}"
        calls = evaluated(text, _data_of(Random(seed)), Recorded(seed)).calls
        if any(name == "pay" and _is_too_much(args["amount"]) for name, args in calls):
            return True
    return False


def _data_of(chance: Random) -> dict[str, Any]:
    amounts = [{"amount": one} for one in (None, 0, 3, 5, 7, 100)]
    return {"o": chance.choice([{}, *amounts]), "l": chance.choice([[], [0], [3], [5], [7], [100], [None]])}


def _is_too_much(amount: Any) -> bool:
    return bool(amount > LARGEST)


def is_proved(text: str) -> bool:
    """Return whether the gate proves that no run pays too much; it raises for findings of other kinds."""
    report = ProgramValidator(Program.from_lisp(text), [Policy.from_dict(RULES)]).validate()
    refused = [one.message for one in report.findings if one.code in ("SW901", "SW902")]
    assert not refused, (text, refused)
    return all(one.verdict is Verdict.PROVED for one in report.properties if one.rule == "small")
