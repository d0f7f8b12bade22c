"""Hash corruption: the journal is changed by somebody who can write the store, and has no key."""

from __future__ import annotations

from stepward.sabotage.attack import Attack

ATTACKS: tuple[type[Attack], ...] = ()
