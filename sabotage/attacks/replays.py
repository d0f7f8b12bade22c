"""Replay: what was good once is delivered again, elsewhere, or by somebody else."""

from __future__ import annotations

from stepward.sabotage.attack import Attack

ATTACKS: tuple[type[Attack], ...] = ()
