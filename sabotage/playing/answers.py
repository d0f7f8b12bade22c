"""The answers of the world to a program's calls: the kinds of answer, and how likely each is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from stepward.sabotage.target import Target
from stepward.vm.machine.plan import CallPlan

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

Kind = Literal["returns", "wrong", "fails", "late", "unknown-done", "unknown", "suspends"]

_HAPPENS: Final = frozenset({"returns", "wrong", "late", "unknown-done", "suspends"})


class CallAnswer(NamedTuple):
    """What a tool or model does when it is called.

    `returns`: returns a value. `wrong`: returns a value of another type, or a reply that is not allowed. `fails`:
    raises, and nothing happened. `late`: returns after the time-out. `unknown-done`, `unknown`: raises InDoubt, and the
    effect happened or did not. `suspends`: waits for a person; `value` is the request to that person.
    """

    kind: Kind
    value: Any = None

    @property
    def happens(self) -> bool:
        """Whether the effect takes place."""
        return self.kind in _HAPPENS

    def data(self) -> dict[str, Any]:
        """Return the answer in the form of a script."""
        return {"does": self.kind, "value": self.value}


_USUAL: Final = 6
"""The weight of a correct return, against 1 for each other answer."""


def answers(target: Target, call: CallPlan, *, faults: bool) -> SearchStrategy[dict[str, Any]]:
    """Return a strategy for answers to a call, the usual first. Without `faults`, a call returns or suspends."""
    return target.once(("answers", call.id, str(faults)), lambda: _answers(target, call, faults=faults))


def _answers(target: Target, call: CallPlan, *, faults: bool) -> SearchStrategy[dict[str, Any]]:
    from hypothesis import strategies as st

    good = target.output(call).map(lambda value: CallAnswer("returns", value).data())
    usual = [good] * _USUAL if faults else [good]
    others: list[SearchStrategy[dict[str, Any]]] = []
    if call.may_suspend:
        usual = [st.just(CallAnswer("suspends", {"asks": call.id}).data()), *usual]
    if faults:
        others.append(st.just(CallAnswer("fails", "it broke").data()))
        if call.timeout is not None:
            others.append(target.output(call).map(lambda value: CallAnswer("late", value).data()))
        if call.writes:
            others += [st.just(CallAnswer(kind).data()) for kind in ("unknown-done", "unknown")]
        wrong = wrong_answers(target, call)
        if wrong is not None:
            others.append(wrong)
    kinds = [*usual, *others]
    # Not `one_of`: it removes duplicates, which are the weights here.
    return st.sampled_from(range(len(kinds))).flatmap(kinds.__getitem__)


def wrong_answers(target: Target, call: CallPlan) -> SearchStrategy[dict[str, Any]] | None:
    """Return a strategy for values that a call must not return, or None if every value is accepted."""
    if call.allowed is not None:
        texts = _beside(call.allowed)
        return texts.map(lambda value: CallAnswer("wrong", value).data())
    if call.returns is None:
        return None
    others = target.others(call.returns)
    return None if others.is_empty else others.map(lambda value: CallAnswer("wrong", value).data())


def _beside(allowed: tuple[str, ...]) -> SearchStrategy[Any]:
    """Return a strategy for replies that look like allowed ones but are not."""
    from hypothesis import strategies as st

    near = [change(text) for text in allowed for change in _CHANGES]
    far = ["", None, True, 0, [allowed[0]], {"choice": allowed[0]}]
    return st.sampled_from([reply for reply in [*near, *far] if not _is_allowed(reply, allowed)])


def _is_allowed(reply: Any, allowed: tuple[str, ...]) -> bool:
    return isinstance(reply, str) and reply.strip() in allowed


_CHANGES: Final = (
    str.upper,
    str.title,
    lambda text: f"{text}.",
    lambda text: f'"{text}"',
    lambda text: f"{text}\u200b",
    lambda text: f"{text}\x00",
    lambda text: text[:-1],
    lambda text: f"{text} {text}",
    lambda text: f"I say: {text}",
)
