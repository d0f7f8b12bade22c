"""A provider that has every tool: the base of tools that attacks make up."""

from __future__ import annotations


class EveryTool:
    """Has a tool of every name. What calls it says what the tools do."""

    def has(self, name: str) -> bool:
        """Return True for every name."""
        return bool(name)
