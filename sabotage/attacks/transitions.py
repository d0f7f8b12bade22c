"""Skipped transitions: the journal, or the program, says that a step was passed that was not."""

from __future__ import annotations

from stepward.sabotage.attack import Attack

ATTACKS: tuple[type[Attack], ...] = ()
