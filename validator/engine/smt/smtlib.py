"""Formulas as SMT-LIB 2 text for any solver, with one variable or fact a line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import z3

from stepward.validator.engine.smt.versions import Versions


def script(terms: Versions, facts: Iterable[Any]) -> str:
    """Return a script that asks whether facts about the terms' variables are satisfiable together."""
    declared = [f"(declare-fun {variable.sexpr()} () {variable.sort().sexpr()})" for variable in terms.variables]
    asserted = [f"(assert {fact.sexpr() if z3.is_expr(fact) else str(fact).lower()})" for fact in facts]
    logic = f"(set-logic {'QF_LIRA' if terms.is_linear else 'QF_NIRA'})"
    return "\n".join([logic, *declared, *asserted, "(check-sat)", ""])
