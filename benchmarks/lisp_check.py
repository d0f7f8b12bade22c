"""What the check of a Lisp program costs beside that of the equal YAML: `python benchmarks/lisp_check.py`.

CPU time of both in one process, taken in turns: reading, compiling and all rules, for a program of 20 lines of Lisp.
README.md beside this file says what the figures mean.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

from check import table
from clock import multiple, spread, take_turns

from stepward.validator import ProgramValidator
from stepward.vm import Policy, Program

PLAN = """\
(defn line-total [line]
  (* (:price line) (:count line)))
(let [orders (tool/fetch_orders {:customer data/customer})
      open (->> orders
                (filter #(= (:status %) "open"))
                (sort-by :created))
      amounts (map #(sum-by line-total (:lines %)) open)
      total (reduce + 0 amounts)
      oldest (first open)]
  (cond
    (> total 1000)
    (fail "too much")
    (> total 100)
    (let [answer (tool/ask_manager {:amount total :oldest (:id oldest)})]
      (if (= answer "yes")
        (tool/refund {:amount total :note (str "asked: " data/customer)})
        (tool/tell {:text (str "refused: " (count open) " orders")})))
    :else
    (tool/refund {:amount total :note "small"})))
"""
POLICY = {
    "policy": "money",
    "tools": {
        "fetch_orders": {
            "effect": "read",
            "args": {"customer": {"type": "string"}},
            "returns": {"type": "array", "items": {"type": "object"}},
        },
        "ask_manager": {"effect": "none", "suspends": True, "returns": {"type": "string", "enum": ["yes", "no"]}},
        "refund": {"effect": "write", "idempotent": True, "args": {"amount": {"type": "number"}, "note": {}}},
        "tell": {"effect": "write", "idempotent": True, "args": {"text": {"type": "string"}}},
    },
    "guardrails": [
        {"name": "never-large", "never": {"tool": "refund"}, "when": "$args.amount > 1000"},
        {"name": "once", "at_most_once": {"tool": "refund"}},
    ],
}


def check(program: Program) -> None:
    """Check a program; all of it has to be proved."""
    report = ProgramValidator(program, [Policy.from_dict(POLICY)]).validate()
    assert {one.verdict for one in report.properties} == {"proved"}, report.findings


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=21, help="turns of each")
    rounds = parser.parse_args(arguments).rounds
    yaml = Program.from_lisp(PLAN, "plan.clj").to_yaml()
    works: list[Callable[[], object]] = [
        lambda: check(Program.from_yaml(yaml)),
        lambda: check(Program.from_lisp(PLAN, "plan.clj")),
        lambda: Program.from_yaml(yaml),
        lambda: Program.from_lisp(PLAN, "plan.clj"),
    ]
    whole, ours, reading, compiling = take_turns(works, rounds)
    rows = [
        [name, f"{multiple(times, of):.2f} ± {spread(times, of):.0%}"]
        for name, times, of in (("reading and check", ours, whole), ("reading alone", compiling, reading))
    ]
    table("20 lines of Lisp: CPU as a multiple of the equal YAML", ["", "Lisp"], rows)


if __name__ == "__main__":
    main()
