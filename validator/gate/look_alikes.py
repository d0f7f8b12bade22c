"""Files of other workflow systems: what they are, and what to do with them."""

from __future__ import annotations

import re
from typing import Any, Final

_HELP: Final = "Stepward checks its own programs only: write the workflow down as `steps`, or leave the file out"
_LANGGRAPH: Final = re.compile(r"^\s*(?:from|import)\s+langgraph\b|\bStateGraph\s*\(", re.MULTILINE)


def resemblance(data: Any, python: str) -> tuple[str, str] | None:
    """Return what a file looks like and what to do, from its data or its Python source; None for anything else."""
    system = "LangGraph" if _LANGGRAPH.search(python) else _system(data) if isinstance(data, dict) else ""
    return (f"it looks like a workflow of {system}", _HELP) if system else None


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
