"""Specimens: small programs that a campaign attacks beside the user's, so that every attack applies somewhere.

The user's program may lack waits, time-outs, loops or secrets. Together the specimens have all of them. They are files
in `specimens/`, each with its policy beside it if it has one.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from stepward.sabotage.target import Target
from stepward.vm.language.policy import Policy
from stepward.vm.language.program import Program
from stepward.vm.reading.files import read_file

FOLDER: Final = Path(__file__).with_name("specimens")

SPECIMENS: Final = (
    "approval",
    "loop",
    "forbidden",
    "waves",
    "rounds",
    "claim",
    "sums",
    "items",
    "branches",
    "at once",
    "chain",
    "dunning",
    "escalation",
)
"""The names of the specimens, in the order in which they are attacked."""


@cache
def specimen(name: str) -> Mapping[str, Any]:
    """Return a specimen as data."""
    return _read(_file(name))


@cache
def specimen_target(name: str) -> Target:
    """Return a specimen, under its policy, as a target."""
    policy = _file(name).with_suffix(".policy.yaml")
    policies = [Policy.from_dict(_read(policy))] if policy.exists() else []
    return Target(Program.from_dict(dict(specimen(name))), policies)


def _file(name: str) -> Path:
    return FOLDER / f"{name.replace(' ', '-')}.yaml"


def _read(file: Path) -> dict[str, Any]:
    (document,) = read_file(file)
    assert isinstance(document.data, dict), "it is a mapping"
    return document.data
