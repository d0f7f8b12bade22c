"""Certificates: the proof of a property, as one JSON object that `stepward recheck` checks without the engine.

A certificate contains the program and the policies, so that checking it needs no other file (specs/certificates.md).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from stepward.vm.language.policy import Policy
from stepward.vm.language.program import Program
from stepward.vm.values import to_json
from stepward.vm.writing import put

VERSION: Final = 1


class NoCertificate(Exception):  # noqa: N818 - no error: the proof stands
    """A proof has no certificate; the message says why."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """A property and the parts of its proof, as plain data. `policies` are those that apply, without their waivers."""

    name: str
    rule: str
    program: Program
    policies: tuple[Policy, ...]
    parts: tuple[dict[str, Any], ...]
    policy: str | None = None
    number: int | None = None
    step: str | None = None

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of the proof parts."""
        return tuple(dict.fromkeys(str(part["kind"]) for part in self.parts))

    @property
    def digest(self) -> str:
        """The digest of program and policies: SHA-256 of their JSON text in the certificate."""
        content = {"program": self.program.to_data(), "policies": [policy.to_data() for policy in self.policies]}
        return hashlib.sha256(to_json(content).encode()).hexdigest()

    def to_data(self) -> dict[str, Any]:
        """Return the certificate as plain data."""
        named = {
            "property": self.name,
            "rule": self.rule,
            "policy": self.policy,
            "number": self.number,
            "step": self.step,
        }
        return {
            "version": VERSION,
            "proves": {name: value for name, value in named.items() if value is not None},
            "parts": list(self.parts),
            "digest": self.digest,
            "program": self.program.to_data(),
            "policies": [policy.to_data() for policy in self.policies],
        }

    def to_json(self) -> str:
        """Return the certificate as JSON text, with one line for each row of a table."""
        return _json(self.to_data())

    def save(self, path: str | Path) -> None:
        """Write the certificate to a file; raises OSError where that is not possible.

        A symbolic link of that name is replaced, not followed.
        """
        put(Path(path), self.to_json().encode())


def _json(data: dict[str, Any]) -> str:
    """Return the JSON text of a certificate: indented for people, long lists with one entry a line."""
    parts = ",\n".join(_part(part) for part in data["parts"])
    rest = {name: value for name, value in data.items() if name != "parts"}
    return to_json(rest, indent=2).removesuffix("\n}") + f',\n  "parts": [\n{parts}\n  ]\n}}\n'


def _part(part: dict[str, Any]) -> str:
    fields = []
    for name, value in part.items():
        if isinstance(value, list) and value:
            entries = ",\n".join(f"        {to_json(entry)}" for entry in value)
            fields.append(f'      "{name}": [\n{entries}\n      ]')
        else:
            fields.append(f'      "{name}": {to_json(value)}')
    return "    {\n" + ",\n".join(fields) + "\n    }"
