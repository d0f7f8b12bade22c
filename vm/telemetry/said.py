"""The values in a record, for those who asked for them; sensitive values are not in records, and not in spans."""

from __future__ import annotations

import json
from typing import Any, Final

from stepward.vm.journal.records import Record
from stepward.vm.machine.views import shown
from stepward.vm.telemetry import names

_FIELDS: Final = {
    "inputs": names.INPUTS,
    "output": names.OUTPUT,
    "request": names.REQUEST,
    "values": names.VALUES,
    "why": names.WHY,
}


def said_by(record: Record, type: str, intent: Record | None = None) -> dict[str, str | int | float | bool]:
    """Return the values of a record as attributes, each a JSON text; `[sensitive]` stands for sensitive ones.

    `type` is that of the step for an attempt, else empty; `intent` has the arguments of a call that writes.
    """
    found: dict[str, str | int | float | bool] = {
        name: _json(record.body[field]) for field, name in _FIELDS.items() if field in record.body
    }
    if type == "tool" and names.OUTPUT in found:
        found[names.TOOL_RESULT] = found.pop(names.OUTPUT)
    if intent is not None and intent.body["tool"]:
        found[names.TOOL_ARGUMENTS] = _json(intent.body["args"])
    if "by" in record.note:
        found[names.BY] = record.note["by"]
    return found


def _json(value: Any) -> str:
    return json.dumps(shown(value), ensure_ascii=False)
