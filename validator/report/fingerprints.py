"""Fingerprints: a unique text for each finding, which does not change while the finding exists."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable

from stepward.validator.findings import Finding


def fingerprints(findings: Iterable[Finding]) -> list[str]:
    """Return a hexadecimal digest for each finding, in order, which does not depend on its line.

    Findings with the same content are distinguished by their number.
    """
    seen: Counter[tuple[str, str, str, str]] = Counter()
    found = []
    for finding in findings:
        about = finding.fingerprint()
        found.append(digest([*about, seen[about]]))
        seen[about] += 1
    return found


def digest(parts: list[str | int]) -> str:
    """Return a hexadecimal digest of some texts and numbers."""
    from hashlib import sha256

    return sha256(json.dumps(parts).encode()).hexdigest()
