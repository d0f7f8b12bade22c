"""For teams that build programs in code: one line in a pytest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stepward.validator.validator import ProgramValidator
from stepward.vm.errors import ProgramError
from stepward.vm.language.policy import Policy
from stepward.vm.language.program import Program


def assert_valid(
    program: Program | dict[str, Any], policies: Sequence[Policy] = (), *, allow_warnings: bool = True
) -> None:
    """Fail the test, with every finding in the message, unless the program passes the gate.

    `program` may be plain data. Raises AssertionError; warnings count only with `allow_warnings=False`.
    """
    __tracebackhide__ = True
    try:
        checked = program if isinstance(program, Program) else Program.from_dict(program)
    except ProgramError as error:
        raise AssertionError(f"not a program:\n{error}") from None
    report = ProgramValidator(checked, policies).validate()
    found = report.errors if allow_warnings else report.findings
    if found:
        lines = [f"  {one.code} {one.place.text()}: {one.message}\n       help: {one.help}" for one in found]
        raise AssertionError(f"program `{report.program}` does not pass:\n" + "\n".join(lines))
