"""The list of all attacks, in the order of play and report."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import isabstract
from types import ModuleType
from typing import Final

from stepward.sabotage.attack import Attack
from stepward.sabotage.attacks import (
    at_once,
    audits,
    branches,
    breakers,
    budgets,
    caches,
    callers,
    continuations,
    contracts,
    copies,
    crashes,
    delays,
    deliveries,
    detours,
    disks,
    drawn,
    drivers,
    echoes,
    edges,
    endings,
    entries,
    erasures,
    fields,
    files,
    forgeries,
    forms,
    functions,
    hashes,
    injection,
    interleavings,
    items,
    keeping,
    keys,
    kills,
    load,
    moves,
    openings,
    operations,
    people,
    permissions,
    pruned,
    readers,
    receipts,
    recoveries,
    replays,
    retention,
    secrecy,
    sizes,
    tables,
    terms,
    timelines,
    timeouts,
    times,
    tokens,
    transitions,
    waits,
    waivers,
    workers,
)

_FILES: Final = (
    drawn,
    injection,
    functions,
    edges,
    entries,
    permissions,
    people,
    terms,
    waivers,
    secrecy,
    echoes,
    tokens,
    replays,
    copies,
    continuations,
    moves,
    operations,
    erasures,
    hashes,
    forgeries,
    audits,
    receipts,
    pruned,
    keys,
    keeping,
    retention,
    openings,
    tables,
    transitions,
    items,
    branches,
    endings,
    fields,
    delays,
    deliveries,
    detours,
    crashes,
    disks,
    files,
    kills,
    recoveries,
    contracts,
    at_once,
    times,
    drivers,
    workers,
    timelines,
    waits,
    timeouts,
    callers,
    readers,
    forms,
    interleavings,
    load,
    sizes,
    budgets,
    breakers,
    caches,
)


def attacks_in(module: ModuleType) -> Iterator[type[Attack]]:
    """Yield the attacks that a file defines, in the order of its text. What is private or abstract is a base."""
    for name, found in vars(module).items():
        is_own = isinstance(found, type) and found.__module__ == module.__name__ and not name.startswith("_")
        if is_own and issubclass(found, Attack) and not isabstract(found):
            yield found


ATTACKS: Final[tuple[type[Attack], ...]] = tuple(attack for module in _FILES for attack in attacks_in(module))

ATTACK_BY_NAME: Final[dict[str, type[Attack]]] = {attack.name: attack for attack in ATTACKS}
