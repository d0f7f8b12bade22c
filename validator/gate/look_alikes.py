"""Files that look like programs: those of other workflow systems, and programs whose `steps` is misspelt."""

from __future__ import annotations

import re
from typing import Any, Final

_HELP: Final = "Stepward checks its own programs only: write the workflow down as `steps`, or leave the file out"
_LANGGRAPH: Final = re.compile(r"^\s*(?:from|import)\s+langgraph\b|\bStateGraph\s*\(", re.MULTILINE)


def resemblance(data: Any, python: str) -> tuple[str, str] | None:
    """Return what a file looks like and what to do, from its data or its Python source; None for anything else."""
    system = "LangGraph" if _LANGGRAPH.search(python) else _system(data) if isinstance(data, dict) else ""
    return (f"it looks like a workflow of {system}", _HELP) if system else None


def misspells_steps(data: Any) -> bool:
    """Return whether a mapping is a program with a mistake: it has a name, tools or guardrails, and nearly `steps`."""
    if not isinstance(data, dict) or "steps" in data or "name" not in data or not {"tools", "guardrails"} & data.keys():
        return False
    return any(isinstance(key, str) and _has_steps(value) and _is_nearly_steps(key) for key, value in data.items())


def _has_steps(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(one, dict) and {"id", "type"} <= one.keys() for one in value)


def _is_nearly_steps(key: str) -> bool:
    from difflib import SequenceMatcher

    return len(key) < 10 and SequenceMatcher(None, key.lower(), "steps").ratio() > 0.75


def _system(data: dict[Any, Any]) -> str:
    if "StartAt" in data and isinstance(data.get("States"), dict):
        return "Step Functions"
    if isinstance(data.get("graphs"), dict) and "dependencies" in data:
        return "LangGraph"
    workflow = data.get("workflow")
    if "app" in data and isinstance(workflow, dict) and "graph" in workflow:
        return "Dify"
    if isinstance(data.get("nodes"), list) and isinstance(data.get("connections"), dict):
        return "n8n"
    if isinstance(data.get("jobs"), dict) and ("on" in data or True in data):
        return "GitHub Actions"
    return ""
