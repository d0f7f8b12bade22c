"""Load: too much, too long, too often, and at the edge of what is allowed."""

from __future__ import annotations

from stepward.sabotage.attack import Attack

ATTACKS: tuple[type[Attack], ...] = ()
