"""Every attack, in the order in which they are played and reported."""

from __future__ import annotations

from typing import Final

from stepward.sabotage.attack import Attack
from stepward.sabotage.attacks import (
    audits,
    budgets,
    callers,
    contracts,
    crashes,
    deliveries,
    detours,
    disks,
    echoes,
    entries,
    files,
    forgeries,
    forms,
    functions,
    hashes,
    injection,
    interleavings,
    kills,
    load,
    openings,
    people,
    permissions,
    recoveries,
    replays,
    secrecy,
    tables,
    terms,
    timelines,
    times,
    transitions,
)

ATTACKS: Final[tuple[type[Attack], ...]] = (
    *injection.ATTACKS,
    *functions.ATTACKS,
    *entries.ATTACKS,
    *permissions.ATTACKS,
    *people.ATTACKS,
    *terms.ATTACKS,
    *secrecy.ATTACKS,
    *echoes.ATTACKS,
    *replays.ATTACKS,
    *hashes.ATTACKS,
    *forgeries.ATTACKS,
    *audits.ATTACKS,
    *openings.ATTACKS,
    *tables.ATTACKS,
    *transitions.ATTACKS,
    *deliveries.ATTACKS,
    *detours.ATTACKS,
    *crashes.ATTACKS,
    *disks.ATTACKS,
    *files.ATTACKS,
    *kills.ATTACKS,
    *recoveries.ATTACKS,
    *contracts.ATTACKS,
    *times.ATTACKS,
    *timelines.ATTACKS,
    *callers.ATTACKS,
    *forms.ATTACKS,
    *interleavings.ATTACKS,
    *load.ATTACKS,
    *budgets.ATTACKS,
)

ATTACK_BY_NAME: Final[dict[str, type[Attack]]] = {attack.name: attack for attack in ATTACKS}
