"""A run as it is copied into a sandbox: its program, its inputs, the answers that it got, and its records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from stepward.sabotage.playing.answers import CallAnswer
from stepward.sabotage.stores.forging import StoreSnapshot
from stepward.vm.errors import StepwardError
from stepward.vm.journal.canonical import ErasedError, opened
from stepward.vm.journal.chain import read_together
from stepward.vm.language.steps.catching import TIMEOUT
from stepward.vm.machine.authority import Envelope
from stepward.vm.machine.chains import chain_before, reader
from stepward.vm.machine.events import Event
from stepward.vm.machine.replay import cached_plans
from stepward.vm.machine.state import Limits

if TYPE_CHECKING:
    from stepward.vm.journal.store import Journal
    from stepward.vm.machine.history import History
    from stepward.vm.machine.plan import CallPlan

MOST_RECORDS: Final = 5_000
"""Records that can be copied: those of a run, and of the runs that it continues."""

LOST: Final = "the connection was lost"
"""What a tool says that does not know whether its effect happened, where no record has its words."""

Place = tuple[str, int, tuple[Any, ...]]
"""A step, its visit, and the frame of the items that it is performed for."""


class NotCopied(StepwardError):  # noqa: N818 - reads better where it is raised than with a suffix
    """A run can't be copied; the message says why."""


class Recorded(NamedTuple):
    """An answer of a tool or a model, and what it cost."""

    answer: CallAnswer
    tokens: int = 0
    cost: Decimal = Decimal(0)
    model: str = ""


class Delivered(NamedTuple):
    """What somebody delivered to a step: an answer to its question, or the outcome of a write in doubt."""

    verdict: str
    value: Any
    by: str | None


class Earlier(NamedTuple):
    """A run that comes before the one that was copied: a sandbox has its records, and never changes them."""

    run: str
    status: str
    snapshot: StoreSnapshot


@dataclass(frozen=True)
class Copy:
    """A run that was copied; it has no way back to the journal that it is from.

    `answers` are those of each place in the order of attempts, `deliveries` those of each step in their order.
    `earlier` are the runs that it continues, oldest first.
    """

    found: History
    inputs: Mapping[str, Any]
    answers: Mapping[Place, tuple[Recorded, ...]]
    deliveries: Mapping[str, tuple[Delivered, ...]]
    snapshot: StoreSnapshot
    limits: Limits
    by: str | None
    envelope: Envelope | None
    earlier: tuple[Earlier, ...] = ()

    @property
    def calls(self) -> dict[str, CallPlan]:
        """The calls of the program, by id."""
        return calls_of(self.found)

    @property
    def performed(self) -> tuple[str, ...]:
        """The steps and sub-steps in the records, in the order of their first one."""
        return performed_in(self.found)

    @property
    def linked(self) -> Mapping[str, Any]:
        """What the first record says of the run that this one continues, and of the turn that it is; empty for none."""
        body = self.found.events[0].body
        return {name: body[name] for name in ("continues", "turn") if name in body}


def calls_of(found: History) -> dict[str, CallPlan]:
    """Return the calls of a run's program, by id."""
    return {call.id: call for step in found.plan.steps for call in step.calls}


def performed_in(found: History) -> tuple[str, ...]:
    """Return the steps and sub-steps in the records of a run, in the order of their first one."""
    return tuple(dict.fromkeys(str(event.body["step"]) for event in found.events if "step" in event.body))


def copy_of(journal: Journal, found: History) -> Copy:
    """Return a copy of a run; raises NotCopied for one that can't be played again, JournalError for damage."""
    before = _runs_before(journal, found)
    if sum(len(one.records) for one in (*before, found)) > MOST_RECORDS:
        and_others = ", with those that it continues," if before else ""
        raise NotCopied(
            f"run `{found.run}`{and_others} has more than the {MOST_RECORDS:,} records that a sandbox takes"
        )
    first = found.events[0]
    try:
        inputs = opened(first.body["inputs"])
        answers: dict[Place, list[Recorded]] = {}
        deliveries: dict[str, list[Delivered]] = {}
        for event in found.events:
            if event.kind == "attempt":
                answers.setdefault(place_of(event), []).append(_recorded(event))
            elif event.kind in ("resumed", "reconciled"):
                found_out = _delivered(event)
                deliveries.setdefault(event.body["step"], []).append(found_out)
                if event.kind == "reconciled" and found_out.verdict == "done":
                    _settle(answers.setdefault(place_of(event), []))
    except ErasedError:
        raise NotCopied(f"values of run `{found.run}` were erased: it can't be played again") from None
    envelope = first.note.get("envelope")
    return Copy(
        found,
        inputs,
        {place: tuple(several) for place, several in answers.items()},
        {step: tuple(several) for step, several in deliveries.items()},
        _snapshot(journal, found),
        Limits(*first.note["limits"]),
        first.note.get("by"),
        None if envelope is None else Envelope(**envelope),
        tuple(Earlier(one.run, one.state.status, _snapshot(journal, one)) for one in before),
    )


def _runs_before(journal: Journal, found: History) -> list[History]:
    """Return the runs that a run continues, oldest first: a verification reads them."""
    return chain_before(found, reader(journal, cached_plans(journal)))


def place_of(event: Event) -> Place:
    """Return the place of an event of a call."""
    body = event.body
    return str(body["step"]), int(body["visit"]), _frame(body.get("frame", ()))


def _frame(frame: Any) -> tuple[Any, ...]:
    return tuple(_frame(one) if isinstance(one, list | tuple) else one for one in frame)


def _recorded(event: Event) -> Recorded:
    note = event.note
    try:
        cost = Decimal(str(note.get("cost", 0)))
    except InvalidOperation:
        cost = Decimal(0)
    return Recorded(_answer(event), int(note.get("tokens", 0)), cost, str(note.get("model", "")))


def _answer(event: Event) -> CallAnswer:
    body = event.body
    match body["kind"]:
        case "success":
            return CallAnswer("returns", opened(body["output"]))
        case "suspended":
            return CallAnswer("suspends", opened(body["request"]))
        case "fallback":
            return CallAnswer("late")
    name, error = str(body.get("error_name", "")), str(body.get("error", ""))
    if name == TIMEOUT or " took longer than " in error:
        return CallAnswer("late")
    if body["kind"] == "doubt" or body.get("unknown"):
        return CallAnswer("unknown", error)
    return CallAnswer("fails", (name, error))


def _settle(answers: list[Recorded]) -> None:
    """Let the last answer of a place, which nobody knew, be one to an effect that happened: somebody has found out."""
    last = answers.pop() if answers and answers[-1].answer.kind == "unknown" else Recorded(CallAnswer("unknown", LOST))
    answers.append(last._replace(answer=CallAnswer("unknown-done", last.answer.value)))


def _delivered(event: Event) -> Delivered:
    verdict = str(event.note.get("verdict", "done"))
    return Delivered(verdict, opened(event.body.get("output")), event.note.get("by"))


def _snapshot(journal: Journal, found: History) -> StoreSnapshot:
    head, entries = read_together(journal, found.run)
    documents = {digest: text for digest in _digests(found) if (text := journal.document(digest)) is not None}
    return StoreSnapshot(entries[: len(found.records)], head, documents, dict(found.secrets))


def _digests(found: History) -> Iterator[str]:
    yield from found.plan.digests
    for record in found.records:
        if record.kind in ("governed", "moved"):
            yield from record.body["policies"]
        if record.kind == "moved":
            yield record.body["program"]
