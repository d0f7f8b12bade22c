"""Fingerprints: a text for each finding that stays the same while the finding does, and that no other has."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable

from stepward.validator.findings import Finding


def fingerprints(findings: Iterable[Finding]) -> list[str]:
    """Return for each finding, in order, a digest in hexadecimal of what it is about, whatever line it stands on.

    Findings that are about the same are told apart by how many of them came before.
    """
    seen: Counter[tuple[str, str, str, str]] = Counter()
    found = []
    for finding in findings:
        about = finding.fingerprint()
        found.append(digest([*about, seen[about]]))
        seen[about] += 1
    return found


def digest(parts: list[str | int]) -> str:
    """Return a digest in hexadecimal of what something is about."""
    from hashlib import sha256

    return sha256(json.dumps(parts).encode()).hexdigest()
