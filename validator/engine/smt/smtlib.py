"""Formulas as SMT-LIB 2 text that any solver reads, one variable or fact a line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import z3

from stepward.validator.engine.smt.versions import Versions


def declared(variables: Iterable[Any]) -> list[str]:
    """Return the declarations of variables."""
    return [f"(declare-fun {variable.sexpr()} () {variable.sort().sexpr()})" for variable in variables]


def script(terms: Versions, facts: Iterable[Any], definitions: Iterable[str] = (), last: Iterable[str] = ()) -> str:
    """Return a script that asks whether facts about the terms' variables hold together; `last` are more, as texts."""
    asserted = [fact.sexpr() if z3.is_expr(fact) else str(fact).lower() for fact in facts]
    return "\n".join(
        [
            f"(set-logic {'QF_LIRA' if terms.is_linear else 'QF_NIRA'})",
            *declared(terms.variables),
            *definitions,
            *(f"(assert {text})" for text in (*asserted, *last)),
            "(check-sat)",
            "",
        ]
    )
