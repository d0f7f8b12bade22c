"""What each layer of the checker decides that no other does: `python benchmarks/ablation.py`.

Three sets of programs are checked with all layers, and again with each layer switched off: those of `specs/programs`,
the natural ones of `tests/data/natural`, and random ones. A verdict is lost when it is known with all layers and
unknown without one; a finding is lost when it is no longer made. A layer that is switched off says nothing, and others
go on. README.md beside this file says how to read the figures.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from datetime import date
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple
from unittest.mock import patch

from check import table

from stepward.validator import ProgramValidator, Report, Verdict
from stepward.validator.analysis.facts import ProgramFacts
from stepward.validator.engine import dead, reach
from stepward.validator.engine.cases import Cases
from stepward.validator.engine.smt.answers import Undecided
from stepward.validator.engine.smt.solver import Solved
from stepward.validator.engine.values.cuts import TooMany
from stepward.validator.gate.discovery import Candidate, read_candidate
from stepward.vm import Policy, Program, ProgramError

ROOT = Path(__file__).parents[1]
TODAY = date(2026, 11, 22)

Switch = Callable[[ExitStack], None]


class One(NamedTuple):
    """A program of a set, and the policies that it is checked under."""

    program: Program
    policies: list[Policy]


class Found(NamedTuple):
    """What a check says: the verdict on each property, the findings, and what the check took, in seconds of CPU."""

    verdicts: dict[tuple[str, ...], Verdict]
    layers: Counter[str]
    findings: Counter[tuple[str, str]]
    seconds: float


# -- the layers --------------------------------------------------------------------------------------------------------


def _gives_up(*asked: Any, **more: Any) -> Any:  # noqa: ARG001
    raise TooMany


def _knows_nothing(*asked: Any, **more: Any) -> Any:  # noqa: ARG001
    raise Undecided("this layer is switched off")


def _says(value: Any) -> Callable[..., Any]:
    return lambda *asked, **more: value  # noqa: ARG005


def _off(owner: Any, name: str, new: Any) -> Switch:
    return lambda stack: stack.enter_context(patch.object(owner, name, new))  # type: ignore[func-returns-value]


def _solver_for_cases(stack: ExitStack) -> None:
    for name in ("is_covered", "is_exclusive"):
        stack.enter_context(patch.object(Solved, name, _knows_nothing))


LAYERS: dict[str, Switch] = {
    "constants": _off(ProgramFacts, "decided_branch", _says(None)),
    "cases, finite": _off(Cases, "finite", None),
    "cases, calculated": _off(Cases, "calculated", None),
    "cases, solver": _solver_for_cases,
    "infeasible branches": _off(dead.InfeasibleBranches, "_by_tables", {}),
    "finite abstraction": _off(reach, "Table", _gives_up),
    "explicit search": _off(reach, "Search", _gives_up),
    "block formula": _off(reach._Search, "_formula", _says(None)),
}
"""All but the search of program and monitor (`graph`), which the others stand on."""


# -- the programs ------------------------------------------------------------------------------------------------------


def of_the_page() -> Iterator[One]:
    """Yield the good and the bad programs, each with the policies that are its own."""
    shared = [Policy.load(path) for path in sorted((ROOT / "specs/policies").glob("*.yaml"))]
    for path in sorted((ROOT / "specs/programs").rglob("*")):
        is_one = path.parent.name == "good" or path.parent.parent.name == "bad"
        if not is_one or path.suffix not in (".yaml", ".json", ".py") or path.name.endswith(".policy.yaml"):
            continue
        own = path.with_suffix(".policy.yaml")
        policies = shared if path.parent.name == "good" else [Policy.load(own)] if own.exists() else []
        try:
            for document in read_candidate(Candidate(path, is_named=True)).documents:
                yield One(Program.from_document(document), policies)
        except ProgramError:
            continue  # it is no program, and says so


def natural() -> Iterator[One]:
    """Yield the programs of kinds that teams write."""
    folder = ROOT / "tests/data/natural"
    policies = [Policy.load(path) for path in sorted((folder / "policies").glob("*.yaml"))]
    yield from (One(Program.load(path), policies) for path in sorted(folder.glob("*.yaml")))


def random(count: int) -> Iterator[One]:
    """Yield that many programs: small ones, and every second one seasoned, with the policies of its own."""
    sys.path.append(str(ROOT / "tests/support"))
    from seasoned_programs import seasoned_program
    from small_programs import small_program

    for seed in range(count):
        if seed % 2:
            one = seasoned_program(seed)
            yield One(Program.from_dict(one.program), [Policy.from_dict(data) for data in one.policies])
        else:
            yield One(Program.from_dict(small_program(seed)), [])


# -- the measuring -----------------------------------------------------------------------------------------------------


def looked_at(programs: Sequence[One], off: str | None = None) -> Found:
    """Check programs with one layer switched off, or with all."""
    verdicts: dict[tuple[str, ...], Verdict] = {}
    layers: Counter[str] = Counter()
    findings: Counter[tuple[str, str]] = Counter()
    before = process_time()
    with ExitStack() as stack:
        if off is not None:
            LAYERS[off](stack)
        for number, (program, policies) in enumerate(programs):
            report = ProgramValidator(program, policies, today=TODAY).validate()
            for name, verdict, layer in _properties(report):
                verdicts[str(number), *name] = verdict
                layers[layer] += 1
            findings.update((f"{number}/{one.step}", one.code) for one in report.findings)
    return Found(verdicts, layers, findings, process_time() - before)


def _properties(report: Report) -> Iterable[tuple[tuple[str, ...], Verdict, str]]:
    again: Counter[tuple[str, ...]] = Counter()
    for prop in report.properties:
        name = (prop.name, prop.rule, str(prop.policy), str(prop.step))
        again[name] += 1
        yield (*name, str(again[name])), prop.verdict, prop.evidence.layer


def without_each(title: str, programs: Sequence[One]) -> None:
    """Print, for each layer, what it decides first, what is lost without it, and what the check then takes."""
    looked_at(programs[:20])  # imports
    whole = looked_at(programs)
    rows = []
    for layer in LAYERS:
        less = looked_at(programs, layer)
        known = [name for name, verdict in whole.verdicts.items() if verdict is not Verdict.UNKNOWN]
        lost = Counter(whole.verdicts[name].value for name in known if less.verdicts.get(name) is Verdict.UNKNOWN)
        gone = whole.findings - less.findings
        first = sum(count for name, count in whole.layers.items() if name == layer or name == _AS_SAID.get(layer))
        by_code = sorted(Counter(code for _, code in gone.elements()).items())
        rows.append(
            [
                layer,
                str(first) if first else "",
                str(lost["proved"]),
                str(lost["violated"]),
                ", ".join(f"{count} {code}" for code, count in by_code) or "none",
                f"{less.seconds - whole.seconds:+.1f}",
            ]
        )
    unknown = sum(verdict is Verdict.UNKNOWN for verdict in whole.verdicts.values())
    said = f"{len(programs):,} programs, {len(whole.verdicts):,} properties, {unknown} of them left open"
    graph = whole.layers["graph"]
    table(
        f"{title}: {said}; {graph:,} by the graph alone, {whole.seconds:.1f} s of CPU",
        ["layer", "decides first", "proofs lost", "violations lost", "findings lost", "CPU without it"],
        rows,
    )


_AS_SAID = {"cases, finite": "cases", "cases, solver": "smt"}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print every table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=2_000, help="random programs")
    options = parser.parse_args(arguments)
    without_each("specs/programs", list(of_the_page()))
    without_each("natural programs", list(natural()))
    without_each("random programs", list(random(options.programs)))


if __name__ == "__main__":
    main()
