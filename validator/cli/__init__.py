"""The command `stepward`."""

from __future__ import annotations

try:
    from stepward.validator.cli.group import main
except KeyboardInterrupt:  # Ctrl-C while the command is loaded: there is nothing to say, and nothing to end
    raise SystemExit(130) from None

__all__ = ["main"]
