"""The command `stepward`."""

from __future__ import annotations

from stepward.validator.cli.group import main

__all__ = ["main"]
