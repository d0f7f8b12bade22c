"""The interface of what watches a machine without having a part in its runs."""

from __future__ import annotations

from typing import Final, Protocol

from stepward.vm.arguments import able
from stepward.vm.journal.store import Journal
from stepward.vm.machine.admission import Checker

OBSERVER: Final = able("an observer, such as a `Telemetry`", "watch", "checks")


class Observer(Protocol):
    """Learns what a machine stores and what its checker finds. It must not raise, and must not make anybody wait."""

    def watch(self, journal: Journal) -> Journal:
        """Return a store for the machine that does as `journal` does."""
        ...

    def checks(self, checker: Checker) -> Checker:
        """Return a checker for the machine that finds what `checker` finds."""
        ...
