"""The other side: llm-nano-vm's validator, where it is installed (`pip install 'stepward[peers]'`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

NOT_INSTALLED: Final = "not installed"


def peer_check(data: dict[str, Any], size: int) -> Callable[[], object] | str:
    """Return the peer's whole check of a program, or why there is no time of it.

    Its programs have no `inputs` and no `tools`; it passes over such fields without looking at them.
    """
    try:
        from nano_vm.models import Program
        from nano_vm.validator import ProgramValidator
    except ImportError:
        return NOT_INSTALLED

    def work() -> object:
        program = Program.from_dict(data)
        report = ProgramValidator(program).validate()
        assert len(program.steps) == size
        assert report.is_valid()
        return report

    try:
        work()
    except RecursionError:
        return "RecursionError"
    return work
