"""Cached reports as plain data, and back: a cached report gives the same output in every format as the check did.

Fields that no output format shows are left out: the suggestions that fixes are made from, the proofs that certificates
are written from, and the name of the file, which the run knows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from decimal import Decimal
from enum import Enum
from importlib import import_module
from typing import Any, Final

from stepward.validator.findings import Report
from stepward.vm.reading.document import Document
from stepward.vm.values import FrozenMap

Data = dict[str, Any]

_HOMES: Final = {
    "validator.analysis.bounds": ("Most", "ProgramBounds", "ToolBounds", "ShortestPath"),
    "validator.findings": (
        *("Edit", "Evidence", "Finding", "Fix", "Label", "Move", "PolicyTag", "Property", "Severity", "Verdict"),
    ),
    "vm.reading.source": ("Place", "Span"),
}
"""The classes whose values are stored field by field, by the module to import when one of them is read again."""

_HOME_OF: Final = {name: home for home, names in _HOMES.items() for name in names}

_LEFT_OUT: Final = frozenset({"file", "correction", "certificate", "certify"})
"""The fields that are not stored."""


def report_to_data(report: Report, policies: Sequence[Document], *, with_bounds: bool) -> Data:
    """Return a report as JSON data; labels point into its own file or into one of the documents of `policies`."""
    # Output formats show the witness of a finding, not of the property behind it.
    properties = [one._replace(evidence=replace(one.evidence, witness=None)) for one in report.properties]
    parts = {
        "findings": report.findings,
        "waived": report.waived,
        "properties": properties,
        "bounds": report.bounds if with_bounds else None,
    }
    data = {name: _data(value, policies) for name, value in parts.items()}
    return data | {
        "program": report.program,
        "matched": sorted(report.matched_policy_rules),
        "called": sorted(report.called_tools),
        "declared": sorted(report.declared_tools),
    }


def report_from_data(data: Data, file: str, policy: Callable[[int], Document]) -> Report:
    """Return the report that `report_to_data` was given, for a file of this name.

    `policy` returns the document of a policy by its index, for labels that point into it.
    """
    reader = _Reader(file, policy)
    bounds = data["bounds"]
    return Report(
        data["program"],
        file,
        reader.value(data["findings"]),
        reader.value(data["properties"]),
        frozenset((policy, rule) for policy, rule in data["matched"]),
        None if bounds is None else lambda: reader.value(bounds),
        reader.value(data["waived"]),
        called_tools=frozenset(data["called"]),
        declared_tools=frozenset(data["declared"]),
    )


def _data(value: Any, policies: Sequence[Document]) -> Any:
    """Return a value of a report as JSON data: an object names its class under `is`, and a tuple is a list."""
    name = type(value).__name__
    if name in _HOME_OF:
        return {"is": name, **{one: _data(getattr(value, one), policies) for one in _fields(value)}}
    if isinstance(value, list | tuple):
        return [_data(item, policies) for item in value]
    if isinstance(value, Mapping):
        return {"is": "object", "items": [[key, _data(item, policies)] for key, item in value.items()]}
    if isinstance(value, Decimal):
        return {"is": "number", "text": str(value)}
    if isinstance(value, Document):
        (at,) = (number for number, policy in enumerate(policies) if policy is value)
        return {"is": "policy", "at": at}
    if name == "Witness":
        return {"is": "witness", "text": value.to_json()}
    return value


def _fields(value: Any) -> list[str]:
    """Return the names of the fields of a value that are stored, as its constructor takes them."""
    if isinstance(value, Enum):
        return ["value"]
    names = value._fields if hasattr(value, "_fields") else [field.name for field in fields(value)]
    return [name for name in names if name not in _LEFT_OUT]


class _Reader:
    """Makes values again from the data that `_data` returned."""

    def __init__(self, file: str, policy: Callable[[int], Document]) -> None:
        self._file = file
        self._policy = policy

    def value(self, data: Any) -> Any:
        if isinstance(data, list):
            return tuple(map(self.value, data))
        return self._object(**data) if isinstance(data, dict) else data

    def _object(self, **data: Any) -> Any:
        match data.pop("is"):
            case "object":
                return FrozenMap((key, self.value(item)) for key, item in data["items"])
            case "number":
                return Decimal(data["text"])
            case "policy":
                return self._policy(data["at"])
            case "witness":
                from stepward.validator.engine.witnesses.witness import Witness

                return Witness.from_json(data["text"])
            case name:
                class_ = getattr(import_module(f"stepward.{_HOME_OF[name]}"), name)
                named = {"file": self._file} if name in ("Finding", "Property") else {}
                return class_(**{key: self.value(item) for key, item in data.items()}, **named)
