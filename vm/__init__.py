"""The ground floor: what a workflow program is, and what it does.

Everything that is imported from here is public; the modules below are not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stepward.vm.errors import (
        DocumentError,
        EvaluationError,
        ExpressionError,
        PolicyError,
        Problem,
        ProgramError,
        StepwardError,
        UndefinedReferenceError,
    )
    from stepward.vm.language.flow import Flow, Transition
    from stepward.vm.language.meaning import Meaning
    from stepward.vm.language.policy import Policy
    from stepward.vm.language.program import Program
    from stepward.vm.reading.source import Place, Span

_HOMES = {
    "DocumentError": "errors",
    "EvaluationError": "errors",
    "ExpressionError": "errors",
    "PolicyError": "errors",
    "Problem": "errors",
    "ProgramError": "errors",
    "StepwardError": "errors",
    "UndefinedReferenceError": "errors",
    "Flow": "language.flow",
    "Transition": "language.flow",
    "Meaning": "language.meaning",
    "Policy": "language.policy",
    "Program": "language.program",
    "Place": "reading.source",
    "Span": "reading.source",
}

__all__ = [
    "DocumentError",
    "EvaluationError",
    "ExpressionError",
    "Flow",
    "Meaning",
    "Place",
    "Policy",
    "PolicyError",
    "Problem",
    "Program",
    "ProgramError",
    "Span",
    "StepwardError",
    "Transition",
    "UndefinedReferenceError",
]


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is asked for: `Program` costs pydantic, the errors cost nothing."""
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
