"""One tool under study: its cases are played in the sandbox, and a breach is played once more."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from enum import StrEnum
from functools import cached_property
from typing import Any, Final, NamedTuple

from stepward.sabotage.real.sandbox import CaseFailed, Sandbox
from stepward.sabotage.real.subjects import Args, Subject
from stepward.vm.values import freeze, to_json

Answer = Mapping[str, Any]
Deed = Mapping[str, Any]
Judge = Callable[[Sequence[Answer]], str | None]
"""Returns what the answers of a case break, or None."""

LOOK: Final[Deed] = {"do": "look"}

MAX_SHOWN: Final = 160


class ToolOutcome(StrEnum):
    """The outcome of a question.

    `not_observed`: the tool was called, but the sandbox can't observe the answer. `not_run`: no call reached the
    subject of the question. `unconfirmed`: it broke once, and not again in a fresh process.
    """

    HELD = "held"
    BREACHED = "breached"
    UNCONFIRMED = "unconfirmed"
    NOT_OBSERVED = "not_observed"
    NOT_RUN = "not_run"


class ToolVerdict(NamedTuple):
    """The answer to a question: the outcome, the reason, and the story of a breaching case."""

    outcome: ToolOutcome
    why: str
    story: tuple[str, ...] = ()


class PlainCall(NamedTuple):
    """A plain call: its input, its answer, and the world before and after it."""

    args: Args
    before: Answer
    answer: Answer
    after: Answer

    @property
    def ended_well(self) -> bool:
        """Whether the tool returned."""
        return self.answer["outcome"] in ("returned", "suspended", "no value")

    @property
    def acted(self) -> bool:
        """Whether the call changed the world."""
        return bool(self.before["state"] != self.after["state"])


class Study:
    """Plays the cases of one tool. The results of plain calls are shared by all questions."""

    def __init__(self, sandbox: Sandbox, subject: Subject) -> None:
        self._sandbox = sandbox
        self.subject = subject
        self.has_probe = sandbox.probe is not None

    def call(self, args: Args, number: int = 1, **more: Any) -> Deed:
        """Return the deed that calls the tool. Equal numbers share an idempotency key."""
        return {"do": "call", "tool": self.subject.name, "args": dict(args), "performance": number, **more}

    def play(self, *deeds: Deed) -> list[dict[str, Any]]:
        """Do deeds in a fresh process. Raises CaseFailed."""
        return self._sandbox.play(deeds)

    @cached_property
    def is_there(self) -> bool:
        """Whether the module has the tool."""
        return bool(self.play({"do": "find", "tool": self.subject.name})[0]["found"])

    @cached_property
    def plain(self) -> list[PlainCall]:
        """One call for each input, each under its own key, without calls that did not finish."""
        deeds = self._plain_deeds(self.subject.inputs)
        try:
            return _plain_calls(self.subject.inputs, self.play(*deeds))
        except CaseFailed:
            return [call for args in self.subject.inputs[:MAX_ALONE] for call in self._alone(args)]

    def _plain_deeds(self, inputs: Sequence[Args]) -> list[Deed]:
        calls = [[self.call(args, number), LOOK] for number, args in enumerate(inputs, start=1)]
        return [LOOK, *(deed for pair in calls for deed in pair)]

    def _alone(self, args: Args) -> list[PlainCall]:
        try:
            return _plain_calls([args], self.play(*self._plain_deeds([args])))
        except CaseFailed:
            return []

    def broken_plainly(self, call: PlainCall, judge: Callable[[PlainCall], str | None]) -> ToolVerdict:
        """Return the breach of a plain call after a replay: alone, then after all earlier calls."""
        inputs = self.subject.inputs
        upto = inputs[: next(number for number, args in enumerate(inputs, start=1) if args is call.args)]
        for some in ([call.args], upto):
            deeds = self._plain_deeds(some)
            try:
                answers = self.play(*deeds)
            except CaseFailed:
                continue
            what = judge(_plain_calls(some, answers)[-1])
            if what is not None:
                return ToolVerdict(ToolOutcome.BREACHED, what, story(deeds, answers))
        return ToolVerdict(ToolOutcome.UNCONFIRMED, judge(call) or "", ())

    def tried(self, judge: Judge, *deeds: Deed) -> tuple[list[dict[str, Any]], ToolVerdict | None]:
        """Play a case. Return its answers, and its breach if a second process confirms it."""
        answers = self.play(*deeds)
        what = judge(answers)
        if what is None:
            return answers, None
        again = self.play(*deeds)
        repeated = judge(again)
        if repeated is None:
            return answers, ToolVerdict(ToolOutcome.UNCONFIRMED, what, story(deeds, answers))
        return answers, ToolVerdict(ToolOutcome.BREACHED, repeated, story(deeds, again))


MAX_ALONE: Final = 5
"""The number of inputs that are tried one by one if all together did not finish."""


def _plain_calls(inputs: Sequence[Args], answers: Sequence[Answer]) -> list[PlainCall]:
    looks, calls = answers[::2], answers[1::2]
    return [
        PlainCall(args, looks[number], answer, looks[number + 1])
        for number, (args, answer) in enumerate(zip(inputs, calls, strict=True))
    ]


def value_of(answer: Answer) -> Any:
    """Return the output of a call as a value of the language."""
    return freeze(json.loads(answer["value"], parse_float=Decimal))


def changes(before: Answer, after: Answer) -> frozenset[str]:
    """Return the files that differ between two looks at the world."""
    old, new = before["files"], after["files"]
    return frozenset(path for path in {*old, *new} if old.get(path) != new.get(path))


def difference(before: Answer, after: Answer) -> str:
    """Describe the difference of two looks: by the probe if there is one, else by the files."""
    if before["shown"] or after["shown"]:
        return f"the probe returned {shown(before['shown'])}, then {shown(after['shown'])}"
    paths = sorted(changes(before, after))
    return f"changed: {', '.join(f'`{path}`' for path in paths[:5])}{', …' if len(paths) > 5 else ''}"


def shown(text: str) -> str:
    """Return a text in back-ticks, shortened if it is long."""
    return f"`{text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + '…'}`"


def outcome_words(answer: Answer) -> str:
    """Describe the outcome of a call."""
    if answer["outcome"] == "returned":
        return f"returned {shown(answer['value'])}"
    words = {"suspended": "suspended the run", "cancelled": "was cancelled", "no value": "returned what is no value"}
    text = words.get(answer["outcome"], "raised")
    return f"{text}: {shown(answer['error'])}" if answer["error"] else text


def story(deeds: Sequence[Deed], answers: Sequence[Answer]) -> tuple[str, ...]:
    """Describe a case, one line for each event."""
    lines: list[str] = []
    for deed, answer in zip(deeds, answers, strict=True):
        if deed["do"] == "look":
            if answer["shown"]:
                lines.append(f"the probe returned {shown(answer['shown'])}")
            continue
        call = f"`{deed['tool']}` with {shown(to_json(freeze(deed['args'])))} under key {deed['performance']}"
        if deed["do"] == "overlap":
            lines += [
                f"{call} stood still at place {deed['pause_at']} of its code until its time was over",
                f"the same was delivered again, and {outcome_words(answer['second'])}",
                f"the first went on, and {outcome_words(answer['first'])}",
            ]
            continue
        failing = f", where thing {deed['fail_at']} that it tried failed," if deed.get("fail_at") else ""
        lines.append(f"{call}{failing} {outcome_words(answer)}")
    return tuple(lines)
