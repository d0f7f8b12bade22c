"""Time: clocks jump, answers are late, and two machines believe that a run is theirs."""

from __future__ import annotations

from stepward.sabotage.attack import Attack

ATTACKS: tuple[type[Attack], ...] = ()
