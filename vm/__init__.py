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
        NoCheckerWarning,
        PolicyError,
        Problem,
        ProgramError,
        StepwardError,
        UndefinedReferenceError,
    )
    from stepward.vm.journal.memory import MemoryJournal
    from stepward.vm.journal.signing import SigningKey
    from stepward.vm.journal.sqlite import SQLiteJournal
    from stepward.vm.language.flow import Flow
    from stepward.vm.language.meaning import Meaning
    from stepward.vm.language.policy import Policy
    from stepward.vm.language.program import Program
    from stepward.vm.machine.execution import ExecutionVM
    from stepward.vm.machine.litellm import LiteLLMModel
    from stepward.vm.machine.models import ModelReply, ModelRequest, ScriptedModel
    from stepward.vm.machine.refusals import DeliveryRefused, NoSuchRun, RunBusy, RunRefused
    from stepward.vm.machine.run import Run
    from stepward.vm.machine.state import Limits
    from stepward.vm.machine.tools import InDoubt, Suspend, ToolContext
    from stepward.vm.reading.source import Place, Span

_HOMES = {
    "DocumentError": "errors",
    "EvaluationError": "errors",
    "ExpressionError": "errors",
    "NoCheckerWarning": "errors",
    "PolicyError": "errors",
    "Problem": "errors",
    "ProgramError": "errors",
    "StepwardError": "errors",
    "UndefinedReferenceError": "errors",
    "MemoryJournal": "journal.memory",
    "SigningKey": "journal.signing",
    "SQLiteJournal": "journal.sqlite",
    "Flow": "language.flow",
    "Transition": "language.flow",
    "Meaning": "language.meaning",
    "Policy": "language.policy",
    "Program": "language.program",
    "DeliveryRefused": "machine.refusals",
    "ExecutionVM": "machine.execution",
    "NoSuchRun": "machine.refusals",
    "RunBusy": "machine.refusals",
    "RunRefused": "machine.refusals",
    "LiteLLMModel": "machine.litellm",
    "ModelReply": "machine.models",
    "ModelRequest": "machine.models",
    "ScriptedModel": "machine.models",
    "Run": "machine.run",
    "Limits": "machine.state",
    "InDoubt": "machine.tools",
    "Suspend": "machine.tools",
    "ToolContext": "machine.tools",
    "Place": "reading.source",
    "Span": "reading.source",
}

__all__ = [
    "DeliveryRefused",
    "DocumentError",
    "EvaluationError",
    "ExecutionVM",
    "ExpressionError",
    "Flow",
    "InDoubt",
    "Limits",
    "LiteLLMModel",
    "Meaning",
    "MemoryJournal",
    "ModelReply",
    "ModelRequest",
    "NoCheckerWarning",
    "NoSuchRun",
    "Place",
    "Policy",
    "PolicyError",
    "Problem",
    "Program",
    "ProgramError",
    "Run",
    "RunBusy",
    "RunRefused",
    "SQLiteJournal",
    "ScriptedModel",
    "SigningKey",
    "Span",
    "StepwardError",
    "Suspend",
    "ToolContext",
    "Transition",
    "UndefinedReferenceError",
]


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is asked for: `Program` costs pydantic, the errors cost nothing."""
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
