"""Horn clauses: invariants of loops, found by Z3's Spacer and checked again by an ordinary solver.

`search` proves iff predicates for the starts of loops were found for which every rule (clauses.py) holds: the first
holds at the entry, each goes over to the next, and none leads to BAD. Spacer is not believed: each rule is checked
under the found definitions, and one that does not check makes the verdict unknown. That no predicates exist is unknown,
too: unrolled.py looks for the path.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import z3

from stepward.validator.engine.clock import Clock, OutOfTime
from stepward.validator.engine.smt import spacer
from stepward.validator.engine.smt.answers import SPENT, Answer, Proof, Script, unknown
from stepward.validator.engine.smt.asking import asked
from stepward.validator.engine.smt.clauses import Clauses, Rule
from stepward.validator.engine.smt.terms import TooLarge
from stepward.validator.engine.systems.system import System
from stepward.validator.engine.values.domains import Domains
from stepward.validator.findings import Verdict

LAYER: Final = "horn clauses"


def search(system: System, domains: Domains, *, units: int, clock: Clock) -> Answer:
    """Look for invariants that keep every path from BAD; `units` bounds Spacer's work and that of the checks."""
    try:
        return _searched(Clauses(system, domains, clock), units, clock)
    except TooLarge:
        return unknown(LAYER, "a comparison of two texts has too many cases")
    except OutOfTime as error:
        return unknown(LAYER, str(error), units)


def _searched(clauses: Clauses, units: int, clock: Clock) -> Answer:
    said = _spacer(clauses.text(), units, clock)
    if said["result"] != "sat":
        return unknown(LAYER, said["reason"] or "no invariants exist that would prove it", units)
    if any("(exists" in body or "(forall" in body for body in said["bodies"].values()):
        return unknown(LAYER, "the invariants that were found have quantifiers", units)
    bodies = {**said["bodies"], **{f"at_{head}": body for head, body in clauses.known.items()}}
    definitions = [_definition(clauses, head, bodies) for head in clauses.heads]
    scripts = tuple(Script(_shows(rule), rule.check(definitions)) for rule in clauses.rules)
    for one in scripts:
        if not _is_unsatisfiable(one.text, units, clock):
            return unknown(LAYER, f"an invariant did not check again: {one.shows}", units)
    proof = Proof(lambda: scripts, tuple(zip(clauses.heads, definitions, strict=True)))
    return Answer(Verdict.PROVED, LAYER, proof=proof, units=units)


def _shows(rule: Rule) -> str:
    source = "the entry" if rule.source is None else f"the invariant of node {rule.source}"
    if rule.target is None:
        return f"safety: {source} leads to no violation"
    word = "initiation" if rule.source is None else "consecution"
    return f"{word}: {source} leads to the invariant of node {rule.target}"


def _definition(clauses: Clauses, head: int, bodies: dict[str, str]) -> str:
    """Return a predicate as a definition; one that Spacer left out is never reached, which the checks show."""
    arguments = " ".join(f"(arg_{number} {sort})" for number, sort in enumerate(clauses.sorts(head)))
    return f"(define-fun at_{head} ({arguments}) Bool {bodies.get(f'at_{head}', 'false')})"


def _spacer(text: str, units: int, clock: Clock) -> dict[str, Any]:
    """Ask Spacer in a process of its own, which is killed when the clock runs out: it does not keep to every limit."""
    # Without -P the script's folder would be searched first, and its `numbers` found in place of Python's.
    command = [sys.executable, "-P", str(Path(spacer.__file__)), str(units)]
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=clock.left(), check=True)
        said = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        clock.look()
        raise
    except (subprocess.CalledProcessError, ValueError):
        return {"result": "unknown", "reason": "the solver's process broke off"}
    assert isinstance(said, dict)
    if said["result"] == "unknown":
        said["reason"] = SPENT
    return said


def _is_unsatisfiable(text: str, units: int, clock: Clock) -> bool:
    """Return whether a fresh ordinary solver finds a script to be unsatisfiable."""
    solver = z3.Solver(ctx=z3.Context())
    solver.set("random_seed", 0)
    solver.from_string(text)
    return bool(asked(solver, (), units, clock) == z3.unsat)
