"""Baselines: findings that existed when the gate was introduced, matched by their content and not by their line."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any, Final, NamedTuple

from stepward.validator.files import why_not
from stepward.validator.findings import Finding
from stepward.validator.gate.settings import ConfigurationError
from stepward.vm.writing import put

VERSION: Final = 1


class Entry(NamedTuple):
    """What a finding is about; `file` is relative to the folder of the baseline."""

    file: str
    code: str
    step: str
    message: str

    def to_data(self, count: int) -> dict[str, Any]:
        """Return the entry, and how often it counts, as plain data."""
        return {**self._asdict(), "count": count}


@dataclass(frozen=True)
class Baseline:
    """The entries of a baseline file that no finding has matched yet (`left`); `path` is the file."""

    path: FilePath
    left: Counter[Entry]

    @classmethod
    def load(cls, path: FilePath) -> Baseline:
        """Return the baseline in a file; raises ConfigurationError for a file that is not a baseline."""
        try:
            data = json.loads(path.read_bytes())
            if data["version"] != VERSION:
                raise ConfigurationError(
                    f"the baseline `{path}` has the version `{data['version']}`; this Stepward reads {VERSION}",
                    "write it again with `--write-baseline`",
                )
            left = Counter({_entry(item): _count(item["count"]) for item in data["findings"]})
        except OSError as error:
            help = "correct the path, or make one with `--write-baseline`"
            raise ConfigurationError(f"the baseline `{path}` can't be read: {why_not(error)}", help) from None
        except (ValueError, KeyError, TypeError, RecursionError):
            help = "write it again with `--write-baseline`"
            raise ConfigurationError(f"`{path}` is not a baseline", help) from None
        return cls(path, left)

    def hides(self, finding: Finding) -> bool:
        """Return whether an entry for the finding remains, and remove this entry."""
        entry = entry_of(finding, self.path.parent)
        if not self.left[entry]:
            return False
        self.left[entry] -= 1
        return True

    def stale(self, is_known: Callable[[FilePath], bool]) -> list[dict[str, Any]]:
        """Return the remaining entries of files that were checked completely, which `is_known` says."""
        return [
            entry.to_data(count)
            for entry, count in sorted(self.left.items())
            if count and is_known(self.path.parent / entry.file)
        ]


def write_baseline(path: FilePath, findings: Iterable[Finding]) -> None:
    """Write a baseline of the findings; raises ConfigurationError when the file can't be written."""
    counts = Counter(entry_of(finding, path.parent) for finding in findings)
    data = {"version": VERSION, "findings": [entry.to_data(count) for entry, count in sorted(counts.items())]}
    try:
        put(path, (json.dumps(data, indent=2) + "\n").encode())
    except OSError as error:
        raise ConfigurationError(
            f"the baseline `{path}` can't be written: {why_not(error)}", "correct the path"
        ) from None


def entry_of(finding: Finding, folder: FilePath) -> Entry:
    """Return the entry for a finding, with its file relative to a folder."""
    file, *rest = finding.fingerprint()
    return Entry(os.path.relpath(file, folder).replace(os.sep, "/"), *rest)


def _entry(item: dict[str, Any]) -> Entry:
    entry = Entry(*(item[name] for name in Entry._fields))
    if not all(isinstance(part, str) for part in entry):
        raise TypeError("the parts of an entry are texts")
    return entry


def _count(count: Any) -> int:
    if not isinstance(count, int) or count < 1:
        raise ValueError("a count is a positive integer")
    return count
