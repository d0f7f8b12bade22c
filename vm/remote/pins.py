"""Pins: digests of what a server says of its tools, as the operator has seen it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path as FilePath
from typing import Any, Final, NamedTuple

from stepward.vm.arguments import PATH, require
from stepward.vm.errors import StepwardError

VERSION: Final = 1

MOST: Final = 4 << 20
"""Bytes of the largest file of pins."""


class PinsRefused(StepwardError):  # noqa: N818 - reads better where it is caught than with a suffix
    """A file has no pins that can be used."""


class Listed(NamedTuple):
    """A tool in the list of a server: what the server says of it. `hints` are its annotations, which decide nothing."""

    name: str
    description: str | None
    input_schema: Mapping[str, Any]
    output_schema: Any
    hints: Mapping[str, Any]


class Pin(NamedTuple):
    """The digests (SHA-256, in hexadecimal) of what a server says of one tool."""

    description: str
    input_schema: str
    output_schema: str

    @classmethod
    def of(cls, tool: Listed) -> Pin:
        """Return the digests of a tool."""
        return cls(_digest(tool.description), _digest(tool.input_schema), _digest(tool.output_schema))

    def changes(self, present: Pin) -> list[str]:
        """Return the parts that differ, in words: `description`, `input schema`, `output schema`."""
        return [part.replace("_", " ") for part in self._fields if getattr(self, part) != getattr(present, part)]


def _digest(part: Any) -> str:
    return sha256(json.dumps(part, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


@dataclass(frozen=True)
class Pins:
    """The pinned tools of one server, by name. A tool without a pin can't be called."""

    tools: Mapping[str, Pin] = field(default_factory=dict)

    def __hash__(self) -> int:
        return hash(tuple(sorted(self.tools.items())))

    @classmethod
    def of(cls, tools: Iterable[Listed]) -> Pins:
        """Return the pins of tools as they are listed now."""
        return cls({tool.name: Pin.of(tool) for tool in sorted(tools)})

    @classmethod
    def load(cls, path: str | FilePath) -> Pins:
        """Return the pins in a file; raises PinsRefused for a file without any, OSError if it can't be read."""
        require(PATH, path=path)
        with FilePath(path).open("rb") as file:
            content = file.read(MOST + 1)
        try:
            found = _read(json.loads(content)) if len(content) <= MOST else None
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
            found = None
        if found is None:
            raise PinsRefused(f"`{path}` is no file of pins of this version")
        return cls(found)

    def text(self) -> str:
        """Return the text of a file with the pins."""
        tools = {name: pin._asdict() for name, pin in sorted(self.tools.items())}
        return json.dumps({"version": VERSION, "tools": tools}, indent=2) + "\n"


def _read(data: Any) -> dict[str, Pin] | None:
    """Return the pins in the data of a file, or None if it has another form; may raise for that, too."""
    if set(data) != {"version", "tools"} or data["version"] != VERSION:
        return None
    tools = {name: Pin(**parts) for name, parts in data["tools"].items()}
    return tools if all(type(part) is str for pin in tools.values() for part in pin) else None


NO_PINS: Final = Pins()
