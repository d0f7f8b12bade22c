"""A process of its own for Z3's Spacer, which does not always keep to its limits: it can be killed.

Run as a script with a limit in Z3's units; it reads Horn clauses as SMT-LIB 2 text, and writes one JSON object:
`result` (sat, unsat or unknown), `reason`, `units`, and for sat in `bodies` what each predicate is, over arguments that
are called `arg_0`, `arg_1`, ... It imports nothing of the project, so that it starts as fast as Z3 does.
"""

from __future__ import annotations

import json
import sys
from typing import Any

MAX_MEMORY = 600
"""Megabytes."""


def solved(text: str, units: int) -> dict[str, Any]:
    """Return what Spacer says of Horn clauses."""
    import z3

    for name in ("smt.random_seed", "sat.random_seed", "fp.spacer.random_seed"):
        z3.set_param(name, 0)
    for name in ("fp.xform.inline_eager", "fp.xform.inline_linear"):
        z3.set_param(name, False)  # what was inlined would come back as a predicate with quantifiers
    z3.set_param("memory_max_size", MAX_MEMORY)
    z3.set_param("rlimit", units)
    solver = z3.SolverFor("HORN")
    try:
        solver.from_string(text)
        result = str(solver.check())
        answer = {"result": result, "reason": solver.reason_unknown() if result == "unknown" else ""}
        if result == "sat":
            model = solver.model()
            answer["bodies"] = {str(one): _body(z3, model, one) for one in model.decls()}
    except z3.Z3Exception as error:
        answer = {"result": "unknown", "reason": str(error)}
    return answer


def _body(z3: Any, model: Any, predicate: Any) -> str:
    """Return what a predicate is, as text."""
    if not predicate.arity():
        return str(model[predicate].sexpr())
    interpretation = model[predicate]
    if interpretation.num_entries():
        raise z3.Z3Exception("a predicate is given by cases")
    arguments = [z3.Const(f"arg_{number}", predicate.domain(number)) for number in range(predicate.arity())]
    return str(z3.substitute_vars(interpretation.else_value(), *arguments).sexpr())


if __name__ == "__main__":
    json.dump(solved(sys.stdin.read(), int(sys.argv[1])), sys.stdout)
