"""Which single checks of the attacks go off in a canary: `python tests/support/silent_checks.py [ATTACK ...]`.

A check is a line of `sabotage/attacks` that makes a Breach: `hold`, or `Breach` itself. One that no canary makes go
off is no defect by itself, but nobody has seen it work. A helper, no tests stand here.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from canaries import Canary, canaries
from stepward.sabotage import attacks
from stepward.sabotage.invariants import Breach

ATTACKS = Path(attacks.__file__).parent
Check = tuple[str, str]
"""The file of a check, and its place there: the qualified name of its function, and its number in it."""


@cache
def checks() -> dict[Check, range]:
    """Return the checks of all attacks, with the lines on which each stands."""
    found: dict[Check, range] = {}
    for path in sorted(ATTACKS.glob("*.py")):
        for name, calls in _functions(ast.parse(path.read_text()), ""):
            for number, call in enumerate(calls, start=1):
                found[path.name, f"{name} {number}"] = range(call.lineno, (call.end_lineno or call.lineno) + 1)
    return found


def _functions(node: ast.AST, name: str) -> Iterator[tuple[str, list[ast.Call]]]:
    """Yield each function and class with the checks that stand in it and in no inner one, in their order."""
    calls: list[ast.Call] = []
    open_: list[ast.AST] = [*ast.iter_child_nodes(node)]
    while open_:
        one = open_.pop(0)
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from _functions(one, f"{name}.{one.name}".lstrip("."))
            continue
        if isinstance(one, ast.Call) and _name_of(one.func) in ("hold", "Breach"):
            calls.append(one)
        open_ = [*ast.iter_child_nodes(one), *open_]
    yield name, calls


def _name_of(called: ast.expr) -> str:
    return called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""


def fired(played: Iterable[Canary]) -> set[Check]:
    """Return the checks that go off while canaries are played."""
    by_line = {(name, line): (name, place) for (name, place), lines in checks().items() for line in lines}
    found: set[Check] = set()
    make = Breach.__init__

    def made(self: Breach, *args: object) -> None:
        make(self, *args)  # type: ignore[arg-type]
        frame = sys._getframe(1)
        while frame is not None:
            path = Path(frame.f_code.co_filename)
            if path.parent == ATTACKS:
                found.add(by_line.get((path.name, frame.f_lineno), (path.name, "?")))
                return
            frame = frame.f_back  # type: ignore[assignment]

    for canary in played:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Breach, "__init__", made)
            canary.patch(patch)
            canary.campaign()
    return found & checks().keys()


def main(wanted: Collection[str]) -> None:
    """Print every check that no canary makes go off, of all attacks or of some."""
    gone_off = fired(canary for canary in canaries() if not wanted or canary.attack in wanted)
    silent = {check: lines for check, lines in checks().items() if check not in gone_off}
    for (name, place), lines in silent.items():
        print(f"{name}:{lines.start}: {place}")
    print(f"{len(gone_off)} of {len(gone_off) + len(silent)} checks go off in a canary")


if __name__ == "__main__":
    main(sys.argv[1:])
