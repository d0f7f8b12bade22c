"""What the tools of all subjects use."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

Data = dict[str, Any]


def id_of(prefix: str, *parts: object) -> str:
    """Return an id that depends on nothing but what it names."""
    return f"{prefix}-{sha256(repr(parts).encode()).hexdigest()[:8]}"
