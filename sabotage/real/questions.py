"""The questions about every tool, answered by calling it. Each says what would be wrong, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from stepward.sabotage.real.study import (
    LOOK,
    Answer,
    PlainCall,
    Study,
    ToolOutcome,
    ToolVerdict,
    changes,
    difference,
    outcome_words,
    shown,
    value_of,
)
from stepward.sabotage.real.subjects import Subject, holds_parts
from stepward.vm.machine.data import refused

MAX_INPUTS: Final = 5
"""The number of inputs for cases of several calls."""

MAX_PLACES: Final = 8
"""The number of lines of a tool's code at which its first delivery is stopped."""

MAX_FAILURES: Final = 6
"""The number of a tool's operations that are made to fail, one in each case."""


class Question(NamedTuple):
    """A question: which tools it concerns, how it is answered, and what a breach means for the machine."""

    name: str
    asks: str
    means: str
    concerns: Callable[[Subject], bool]
    answer: Callable[[Study], ToolVerdict]


# -- plain calls -------------------------------------------------------------------------------------------------------


def _output(study: Study) -> ToolVerdict:
    def misfit(call: PlainCall) -> str | None:
        subject, answer = study.subject, call.answer
        if answer["outcome"] == "no value":
            return f"the output is no value: {answer['error']}"
        if answer["outcome"] == "suspended":
            return None if subject.spec.suspends else "it suspends the run, and its manifest does not say so"
        if answer["outcome"] != "returned" or subject.returns is None:
            return None
        return refused(value_of(answer), subject.returns, "the output")

    return _plainly(study, misfit)


def _plainly(study: Study, judge: Callable[[PlainCall], str | None]) -> ToolVerdict:
    """Return the first breach of a plain call, or that all calls that ended well have held."""
    for call in study.plain:
        if judge(call) is not None:
            return study.broken_plainly(call, judge)
    if not any(call.ended_well for call in study.plain):
        return ToolVerdict(ToolOutcome.NOT_RUN, _no_return(study))
    ended = sum(call.ended_well for call in study.plain)
    return ToolVerdict(ToolOutcome.HELD, f"{ended} of {len(study.subject.inputs)} calls returned")


def _no_return(study: Study) -> str:
    errors = [call.answer["error"] for call in study.plain]
    return f"no call returned: {shown(errors[0])}" if errors else "no call came to an end in time"


def _effect(study: Study) -> ToolVerdict:
    effect = study.subject.spec.effect

    def writes(call: PlainCall) -> str | None:
        changes_seen = [what for kind, what in call.answer["seen"] if kind in ("write", "change")]
        if changes_seen:
            return f"it is declared `effect: {effect}`, and {changes_seen[0]}"
        if call.acted or changes(call.before, call.after):
            return f"it is declared `effect: {effect}`, and changes the world: {difference(call.before, call.after)}"
        return None

    verdict = _plainly(study, writes)
    hidden = [what for call in study.plain for kind, what in call.answer["seen"] if kind in ("unseen", "network")]
    if hidden and verdict.outcome in (ToolOutcome.HELD, ToolOutcome.NOT_RUN):
        return ToolVerdict(ToolOutcome.NOT_OBSERVED, f"it {hidden[0]}: what that does is not seen here")
    return verdict


def _arguments(study: Study) -> ToolVerdict:
    def changed(answers: Sequence[Answer]) -> str | None:
        names = [name for answer in answers for name in answer["changed"]]
        return (
            f"it changes its argument `{names[0]}`, and the machine hands over what nobody can change"
            if names
            else None
        )

    returned = 0
    for args in holds_parts(study.subject.inputs)[:MAX_INPUTS]:
        answers, verdict = study.tried(changed, study.call(args, plain=True))
        if verdict is not None:
            return verdict
        returned += answers[0]["outcome"] != "raised"
    if not returned:
        return ToolVerdict(ToolOutcome.NOT_RUN, _no_return(study))
    return ToolVerdict(ToolOutcome.HELD, f"{returned} calls left their arguments as they were")


# -- a write that is delivered again -----------------------------------------------------------------------------------


def _twice(study: Study) -> ToolVerdict:
    def again(answers: Sequence[Answer]) -> str | None:
        _, first, before, second, after = answers
        if first["outcome"] != "returned":
            return None
        if before["state"] != after["state"]:
            return f"it is declared idempotent, and acts again under the same key: {difference(before, after)}"
        if second["outcome"] == "raised":
            words = outcome_words(second)
            return f"it {words} when its key is delivered again, which says that nothing happened under that key"
        if not study.has_probe and second["value"] != first["value"]:
            return f"it {outcome_words(first)}, and {outcome_words(second)} under the same key"
        return None

    acted = calls = 0
    for call in _returning(study)[:MAX_INPUTS]:
        deeds = (LOOK, study.call(call.args), LOOK, study.call(call.args, attempt=2), LOOK)
        answers, verdict = study.tried(again, *deeds)
        if verdict is not None:
            return verdict
        calls += 1
        acted += answers[0]["state"] != answers[2]["state"]
    if not calls:
        return ToolVerdict(ToolOutcome.NOT_RUN, _no_return(study))
    if not acted:
        return ToolVerdict(ToolOutcome.NOT_OBSERVED, _blind(study))
    return ToolVerdict(ToolOutcome.HELD, f"{acted} keys were delivered twice, and acted once")


def _returning(study: Study) -> list[PlainCall]:
    """Return the plain calls that returned, with those that changed the world first."""
    return sorted((call for call in study.plain if call.answer["outcome"] == "returned"), key=lambda one: not one.acted)


def _acting(study: Study) -> PlainCall | ToolVerdict:
    """Return a plain call that returned and changed the world, or a verdict if there is none."""
    returning = _returning(study)
    if not returning:
        return ToolVerdict(ToolOutcome.NOT_RUN, _no_return(study))
    return returning[0] if returning[0].acted else ToolVerdict(ToolOutcome.NOT_OBSERVED, _blind(study))


def _blind(study: Study) -> str:
    hidden = [what for call in study.plain for kind, what in call.answer["seen"] if kind in ("unseen", "network")]
    seen = f"; it {hidden[0]}" if hidden else ""
    if study.has_probe:
        return f"the probe sees nothing of what it does{seen}"
    return f"what it does leaves no file in its folder: name what sees it with `--probe MODULE:function`{seen}"


def _late(study: Study) -> ToolVerdict:
    call = _acting(study)
    if isinstance(call, ToolVerdict):
        return call
    once = [study.play(LOOK, study.call(call.args), LOOK) for _ in range(2)]
    ends = {answers[2]["digest"] for answers in once}
    if len(ends) > 1:
        return ToolVerdict(
            ToolOutcome.NOT_OBSERVED, "one call leaves another world each time, so that two can't be told from one"
        )

    def twice(answers: Sequence[Answer]) -> str | None:
        before, both, after = answers
        if not both["gave_up"]:
            return None
        acted = before["state"] != after["state"]
        if acted and both["second"]["outcome"] == "raised":
            words = "when its key is delivered again after a time-out, which says that nothing happened under that key"
            return f"it {outcome_words(both['second'])} {words}"
        if after["digest"] in ends:
            return None
        how = difference(once[0][2], after)
        return f"a time-out and a second delivery of its key leave another world than one call: {how}"

    stopped = 0
    for place in _spread(once[0][1]["lines"], MAX_PLACES):
        overlap = {**study.call(call.args), "do": "overlap", "pause_at": place}
        answers, verdict = study.tried(twice, LOOK, overlap, LOOK)
        if verdict is not None:
            return verdict
        stopped += answers[1]["gave_up"]
    if not stopped:
        return ToolVerdict(ToolOutcome.NOT_RUN, "it has no place at which it could be stopped")
    return ToolVerdict(
        ToolOutcome.HELD, f"it was given up on at {stopped} places, its key was delivered again, and it acted once"
    )


def _spread(count: int, most: int) -> list[int]:
    """Return at most `most` numbers from 1 to `count`, evenly spaced, including the first and the last."""
    if count <= most:
        return list(range(1, count + 1))
    return sorted({1 + round(number * (count - 1) / (most - 1)) for number in range(most)})


# -- a write that fails ------------------------------------------------------------------------------------------------


def _failing(study: Study) -> ToolVerdict:
    verdict = _failing_by_itself(study)
    if verdict is not None:
        return verdict
    call = _acting(study)
    if isinstance(call, ToolVerdict):
        return call
    lasting = changes(call.before, call.after)

    def lies(answers: Sequence[Answer]) -> str | None:
        before, answer, after = answers
        return _lie(study, before, answer, after, lasting)

    failed = 0
    for number in range(1, min(call.answer["tried"], MAX_FAILURES) + 1):
        answers, verdict = study.tried(lies, LOOK, study.call(call.args, fail_at=number), LOOK)
        if verdict is not None:
            return verdict
        failed += answers[1]["outcome"] in ("raised", "in doubt")
    if not failed:
        return ToolVerdict(ToolOutcome.NOT_RUN, "nothing that it does could be made to fail")
    return ToolVerdict(
        ToolOutcome.HELD, f"{failed} of the things that it does were made to fail, and nothing had happened"
    )


def _lie(study: Study, before: Answer, answer: Answer, after: Answer, lasting: frozenset[str]) -> str | None:
    """Describe a tool that raised although it had acted. Files that a successful call does not leave are ignored."""
    if answer["outcome"] != "raised":
        return None
    acted = before["state"] != after["state"] if study.has_probe else bool(changes(before, after) & lasting)
    if not acted:
        return None
    what = f"it {outcome_words(answer)}, and had acted: {difference(before, after)}"
    return f"{what}; an exception other than `InDoubt` says that nothing happened"


def _failing_by_itself(study: Study) -> ToolVerdict | None:
    """Return the breach of a plain call that raised by itself, for example without its network."""
    lasting = frozenset[str]().union(*(changes(call.before, call.after) for call in _returning(study)))

    def lies(call: PlainCall) -> str | None:
        return _lie(study, call.before, call.answer, call.after, lasting)

    found = next((call for call in study.plain if lies(call) is not None), None)
    return None if found is None else study.broken_plainly(found, lies)


# -- all of them -------------------------------------------------------------------------------------------------------


def _writes(subject: Subject) -> bool:
    return subject.spec.effect == "write"


def _is_repeated(subject: Subject) -> bool:
    return _writes(subject) and subject.spec.idempotent


QUESTIONS: Final = (
    Question(
        "output-fits-its-type",
        "does the output of a call fit the declared type?",
        "the machine refuses the output: a write is then in doubt, or has happened in vain",
        lambda _: True,
        _output,
    ),
    Question(
        "arguments-are-kept",
        "does it leave its arguments as they are?",
        "the machine hands over values that refuse to change: the tool fails there",
        lambda subject: bool(holds_parts(subject.inputs)),
        _arguments,
    ),
    Question(
        "read-writes-nothing",
        "does a tool that is declared to write nothing write nothing?",
        "the machine repeats it freely, writes no intent, and no rule about writes sees it",
        lambda subject: not _writes(subject),
        _effect,
    ),
    Question(
        "one-key-acts-once",
        "does a write that is declared idempotent act once, when its key is delivered twice?",
        "the machine repeats it after a crash, under its key: its effect is doubled",
        _is_repeated,
        _twice,
    ),
    Question(
        "late-key-acts-once",
        "does it act once, when the machine gives up on it and delivers the key again while it still runs?",
        "the machine repeats it after a time-out, under its key: its effect is doubled, or lost",
        _is_repeated,
        _late,
    ),
    Question(
        "failure-leaves-nothing",
        "has nothing happened when it raises?",
        "the machine takes an exception for `nothing happened`, and goes on as if it were so",
        _writes,
        _failing,
    ),
)


def questions_about(subject: Subject) -> Iterator[Question]:
    """Yield the questions about a tool."""
    return (question for question in QUESTIONS if question.concerns(subject))


def by_name() -> Mapping[str, Question]:
    """Return the questions by name."""
    found: dict[str, Any] = {question.name: question for question in QUESTIONS}
    return found
