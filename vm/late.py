"""Public names that a package imports only when they are asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def late(
    package: dict[str, Any], within: str, homes: dict[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package, given its globals.

    `homes` has the module of each public name, below `within`. A user of the errors does not pay for pydantic, which
    `Program` needs. Completion shows the names before they are imported.
    """

    def get(name: str) -> Any:
        from importlib import import_module

        if name not in homes:
            raise AttributeError(f"module {package['__name__']!r} has no attribute {name!r}")
        return getattr(import_module(within + homes[name]), name)

    return get, lambda: sorted({*package, *homes})
