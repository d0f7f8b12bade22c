"""The sandboxes of a studio: a run is copied, disturbed there, and what came of it is kept for all who look."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from xml.etree.ElementTree import Element

from stepward.sabotage.invariants import Outcome
from stepward.validator.review.elements import add_all, coded, element
from stepward.validator.review.moments import moments_of
from stepward.validator.review.sections import stepper
from stepward.validator.studio.acting import ActionRefused
from stepward.validator.studio.copies import copy_of
from stepward.validator.studio.disturbances import DISTURBANCES, Shown, Unfit

if TYPE_CHECKING:
    from stepward.vm.journal.store import Journal
    from stepward.vm.machine.history import History

MOST_KEPT: Final = 20
"""Results that are kept."""

MEANING: Final = {
    Outcome.BLOCKED: "the machine refused it",
    Outcome.DETECTED: "the machine, or a verification, told of it",
    Outcome.ABSORBED: "the run went as without it",
    Outcome.BREACHED: "the promise is broken",
}


class Result(NamedTuple):
    """One result: its number, its row in the list, its part of the page, and the version at which it came."""

    number: int
    row: list[Any]
    part: Element
    version: int


class Sandboxes:
    """The results of disturbances, the newest ones. The journal is only read: a sandbox has a store of its own.

    `picture` returns the diagram of a run's program.
    """

    def __init__(self, journal: Journal, picture: Callable[[History], Element]) -> None:
        self.version = 0
        self._journal = journal
        self._picture = picture
        self._kept: deque[Result] = deque(maxlen=MOST_KEPT)
        self._count = 0
        self._lock = threading.Lock()

    def disturb(self, found: History, what: str, step: str) -> str:
        """Copy a run, disturb the copy at a step, and return what came of it, in a word.

        Raises ActionRefused for what can't be done to this run, and NotCopied.
        """
        if what not in DISTURBANCES:
            raise ActionRefused(f"there is no disturbance `{what}`")
        words, disturb = DISTURBANCES[what][:2]
        with self._lock:  # one at a time: each takes a whole core
            copy = copy_of(self._journal, found)
            if step and step not in copy.performed:
                raise ActionRefused(f"the run has no record of `{step}` yet")
            try:
                shown = disturb(copy, step)
            except Unfit as error:
                raise ActionRefused(str(error)) from None
            self._count += 1
            part = _part(self._count, words, shown, found)
            if shown.found is not None:
                part.append(self._picture(found))
            promise = shown.held.value
            row = [self._count, found.run, words, shown.step, shown.outcome.value, promise]
            self._kept.append(Result(self._count, row, part, self.version + 1))
            self.version += 1
            return shown.outcome.value

    def since(self, version: int) -> dict[str, Any]:
        """Return the results that a reader of a version lacks: number, run, disturbance, step, outcome and promise."""
        return {"sandboxes": [one.row for one in list(self._kept) if one.version > version]}

    def part(self, number: int) -> Element:
        """Return a result as a part of the page; raises ActionRefused for one that is not kept any more."""
        found = next((one.part for one in list(self._kept) if one.number == number), None)
        if found is None:
            raise ActionRefused(f"the sandbox {number} is not kept any more")
        return found


def _part(number: int, words: str, shown: Shown, copied: History) -> Element:
    program = copied.plan.program
    title = f"Sandbox {number}: {words} at {shown.step}, in a copy of {copied.run}"
    place = (
        "This happened in the memory of the studio, with a store of its own and tools that repeat what was recorded. "
        "The journal was only read, and no tool was called."
    )
    story = [element("li", *coded(line)) for line in shown.story]
    article = element(
        "article",
        element("h3", title),
        _verdict(shown),
        element("p", place, class_="place"),
        add_all(element("ol", class_="story"), story),
        class_="run sandbox",
        data_sandbox=number,
        data_outcome=shown.outcome.value,
    )
    if shown.found is None:
        article.append(element("p", "The changed records can't be read back, so that there are none to show."))
        return article
    article.append(stepper(moments_of(shown.found, program), "The records of the copy", shown.step))
    return article


def _verdict(shown: Shown) -> Element:
    """Return the outcome and the promise that was at stake, in words and with a sign."""
    outcome = f"{shown.outcome.value}: {MEANING[shown.outcome]}."
    if not shown.broken:
        good = element("b", "✓ held: ", class_="good")
        return element("p", element("b", outcome), " Promise: ", good, f"{shown.held.value}.", class_="promise")
    how = [element("li", *coded(one.what)) for one in shown.broken]
    bad = element("b", "✗ broken: ", class_="bad")
    head = element("p", element("b", outcome), " Promise: ", bad, f"{shown.held.value}.")
    return element("div", head, add_all(element("ul"), how), class_="promise")
