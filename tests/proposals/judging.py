"""Judges programs that a model has mended: does the gate accept them, and do they do what they are for?

Usage: python tests/proposals/judging.py FOLDER, where FOLDER has a file `NAME.mended.yaml` for each program.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from stepward.testing import Bench
from stepward.validator import ProgramValidator, Severity
from stepward.vm import ModelReply, ModelRequest, Program, StepwardError, Suspend

PROGRAMS: Final = Path(__file__).parent / "programs"
ORDER: Final = "ORD-000001"

CASES: Final[tuple[tuple[str, int, list[bool], list[str]], ...]] = (
    ("a small order", 30, [], ["pay_back", "send_mail"]),
    ("a large order that a person approves", 70, [True], ["ask_person", "pay_back", "send_mail"]),
    ("a large order that a person refuses", 70, [False] * 12, ["ask_person"]),
)
"""What happens: the words, the total of the order, the answers of the person, and the tools that are called."""


class Writer:
    """A model that writes a letter."""

    def complete(self, request: ModelRequest) -> ModelReply:
        """Return the same text for each request."""
        return ModelReply("We pay back your order.", tokens=1)


def complaints(path: Path) -> Iterator[str]:
    """Yield what is wrong with a mended program; nothing if it is done."""
    try:
        program = Program.from_yaml(path.read_text(encoding="utf-8"))
    except StepwardError as error:
        yield f"the gate refuses it: {error}"
        return
    report = ProgramValidator(program).validate()
    errors = [finding for finding in report.findings if finding.severity is Severity.ERROR]
    yield from (f"the gate refuses it: {finding.code} {finding.message}" for finding in errors)
    if not errors:
        yield from (line for case in CASES for line in _differences(program, *case))


def _differences(program: Program, words: str, total: int, answers: list[bool], calls: list[str]) -> Iterator[str]:
    order: dict[str, Any] = {"total": total, "mail": "ada@example.com", "paid": True}
    tools = {"get_order": order, "ask_person": Suspend(), "pay_back": "P-1", "send_mail": "M-1"}
    bench = Bench(program, tools, Writer())
    run = bench.run({"order": ORDER})
    for is_approved in answers:
        if run.status == "SUSPENDED":
            run = bench.resume(run, {"approved": is_approved})
    called = list(dict.fromkeys(call.tool for call in bench.tools.calls if call.tool != "get_order"))
    if called != calls:
        yield f"{words}: it calls {called}, and not {calls}"
    is_refused = answers[:1] == [False]
    if (run.status == "SUCCESS") == is_refused:
        yield f"{words}: the run ends {run.status}"


def main() -> int:
    """Print what is wrong with each program of the folder; 0 if at least 28 of 30 are mended."""
    folder, names = Path(sys.argv[1]), sorted(path.stem for path in PROGRAMS.glob("*.yaml"))
    mended = 0
    for name in names:
        path = folder / f"{name}.mended.yaml"
        wrong = list(complaints(path)) if path.exists() else ["there is no mended program"]
        mended += not wrong
        print(f"{name}: {'; '.join(wrong) or 'mended'}")
    print(f"{mended} of {len(names)} are mended")
    return 0 if mended * 30 >= len(names) * 28 else 1


if __name__ == "__main__":
    raise SystemExit(main())
