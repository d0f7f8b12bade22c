"""What the studio shows of one run: its records, what it waits for, what it cost, and whether it can be trusted."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeVar
from xml.etree.ElementTree import Element

from stepward.validator.report.text import counted
from stepward.validator.review.elements import add_all, coded, element
from stepward.validator.review.runs import run_view
from stepward.validator.review.sections import run_article
from stepward.validator.studio.forms import disturb_form, waits_of
from stepward.vm.journal.verify import verify
from stepward.vm.machine.events import RUNNING
from stepward.vm.machine.history import History, load
from stepward.vm.machine.refusals import NoSuchRun
from stepward.vm.machine.replay import cached_plans, replayer
from stepward.vm.machine.run import Run
from stepward.vm.machine.runs import is_id, run_of
from stepward.vm.machine.views import traced
from stepward.vm.values import to_json

if TYPE_CHECKING:
    from stepward.validator.studio.disturbances import Disturbance
    from stepward.vm.journal.store import Journal
    from stepward.vm.journal.verdict import Verdict
    from stepward.vm.language.program import Program

T = TypeVar("T")

MOST_KEPT: Final = 16
"""Runs and verdicts that are kept for the next reader."""

MOST_PICTURES: Final = 64
"""Diagrams that are kept."""

MOST_RECORDS: Final = 2_000
"""The newest records of a run that are shown."""


class ViewCache:
    """The last values of a function, by key: several browsers that look at one thing cost as much as one."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[object, object] = OrderedDict()

    def get(self, key: object, make: Callable[[], T]) -> T:
        """Return the value of a key, which is made if it is not kept."""
        if key not in self._values:
            self._values[key] = make()
            while len(self._values) > self._most:
                self._values.popitem(last=False)
        self._values.move_to_end(key)
        value: T = self._values[key]  # type: ignore[assignment]
        return value


class Views:
    """The runs of a journal as parts of the page; no part has a sensitive value, and none has a resume token.

    `disturbances` are those that can be tried on a copy of a run, by name.
    """

    def __init__(self, journal: Journal, disturbances: Mapping[str, Disturbance] = MappingProxyType({})) -> None:
        self._journal = journal
        self._disturbances = disturbances
        self._plans = cached_plans(journal)
        self._histories = ViewCache(MOST_KEPT)
        self._verdicts = ViewCache(MOST_KEPT)
        self._pictures = ViewCache(MOST_PICTURES)

    def history(self, run: str) -> History:
        """Return the records of a run; raises NoSuchRun, and JournalError for damage."""
        head = self._journal.head(run) if is_id(run) else None
        if head is None:
            raise NoSuchRun(f"there is no run `{run}`")

        def read() -> History:
            found = load(self._journal, run, self._plans)
            if found is None:
                raise NoSuchRun(f"there is no run `{run}`")
            return found

        return self._histories.get((run, head.seq, head.digest), read)

    def run(self, run: str, first: int = 0) -> Element:
        """Return a run with its records from number `first` on; raises as `history` does."""
        found = self.history(run)
        row = self._journal.row(run)
        article = article_of(found, first)
        if self._disturbances:
            article.insert(3, disturb_form(found, self._disturbances))
        if row is not None and row.status == RUNNING:
            article.set("data-leased", str(row.expires))
        if found.state.is_over:
            article.append(verdict_part(self._verified(found)))
        return article

    def _verified(self, found: History) -> Verdict:
        run, journal = found.run, self._journal
        return self._verdicts.get(
            (run, found.last.seq, found.last.digest),
            lambda: verify(journal, run, replay=replayer(journal, run, plans=self._plans)),
        )

    def picture(self, run: str) -> Element:
        """Return the diagram of a run's program; raises as `history` does, and DiagramError."""
        return self.picture_of(self.history(run))

    def picture_of(self, found: History) -> Element:
        """Return the diagram of the program of a run that was read; raises DiagramError."""
        return self._pictures.get(found.plan.digest, lambda: picture_of(found.plan.program))


def picture_of(program: Program) -> Element:
    """Return the diagram of a program without findings; raises DiagramError if there is no program to draw it."""
    from stepward.validator.context import Context
    from stepward.validator.diagram.drawing import draw
    from stepward.validator.diagram.marks import Marks
    from stepward.validator.review.picture import drawn

    facts = Context(program, ()).facts
    label = f"diagram of {program.name}"
    picture = drawn(draw(facts, Marks())._replace(notes=()))
    return element("div", picture, class_="diagram", tabindex=0, role="region", aria_label=label)


def article_of(found: History, first: int = 0) -> Element:
    """Return a run as the report shows it, with where it is now, and what it waits for.

    `data-first` is the number of the first record that is here: those before it are left out.
    """
    run = run_of(found)
    view = run_view(run, found)
    first = max(first, len(view.moments) - MOST_RECORDS)
    article = run_article(view._replace(moments=view.moments[first:]), 0, ())
    facts = {
        "first": str(first),
        "records": str(len(view.moments)),
        "status": run.status,
        "picture": found.plan.digest,
        "step": "" if run.is_over else run.step,
    }
    for name, value in facts.items():
        article.set(f"data-{name}", value)
    article.insert(1, add_all(element("div", class_="standing"), _standing(run, found)))
    article.insert(2, add_all(element("div", class_="waits"), waits_of(run, found)))
    return article


def _standing(run: Run, found: History) -> Iterator[Element]:
    """Yield how a run stands: where it is, its error, its output, and the guardrails that it broke."""
    spent = [counted(run.steps, "step"), counted(run.tokens, "token")]
    where = "Ended at " if run.is_over else "Is now at "
    yield element("p", where, element("code", run.step), f", after {', '.join(spent)}.")
    if run.error and run.is_over:
        yield element("p", element("b", "Error: "), *coded(run.error), class_="bad")
    for rule, how in run.broken:
        yield element("p", element("b", f"Broken: guardrail {rule}: "), how, class_="bad")
    if found.state.output is not None:
        yield element("p", element("b", "Output: "), to_json(traced(found.state.output)))


# -- verification ------------------------------------------------------------------------------------------------------


def verdict_part(verdict: Verdict) -> Element:
    """Return what a verification of a run has found."""
    records = counted(verdict.records, "record")
    if verdict.is_intact:
        text = f"{records}, 0 to {verdict.records - 1}: the chain is unbroken, and the machine would have written each"
        return element("p", element("b", "✓ Verified: ", class_="good"), f"{text} as it is.", class_="verdict")
    faults = [element("li", *coded(f"{fault.what}. "), element("i", *coded(fault.help))) for fault in verdict.faults]
    head = element("b", f"✗ {counted(len(verdict.faults), 'fault')} in {records}", class_="bad")
    return element("div", head, add_all(element("ul"), faults), class_="verdict")
