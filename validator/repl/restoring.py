"""A session from its turns in the journal: each is compiled again, from the point where those before it have left off.

What that gives has to be the program and the inputs of the run: so what the session knows is what its records say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from stepward.validator.repl.signature import signature_type
from stepward.validator.repl.state import State
from stepward.vm.journal.canonical import ErasedError, opened
from stepward.vm.journal.store import JournalError
from stepward.vm.language.program import Program
from stepward.vm.language.types import same
from stepward.vm.lisp.compiling.document import Turn
from stepward.vm.lisp.faults import Fault
from stepward.vm.machine.history import History
from stepward.vm.machine.plan import policy_digest
from stepward.vm.machine.refusals import RunRefused
from stepward.vm.machine.turns import TurnRequest, turn_request_of
from stepward.vm.values import FrozenMap, freeze

if TYPE_CHECKING:
    from stepward.vm.language.policy import Policy

_OTHERWISE: Final = "leave it out, or name the session otherwise"


@dataclass(frozen=True)
class Opening:
    """What a session is started with: its data, its signature, and the most steps of all its turns."""

    data: Mapping[str, Any]
    signature: str | None
    max_steps: int | None

    @classmethod
    def of(cls, data: Mapping[str, Any], signature: str | None, max_steps: int | None) -> Opening:
        """Return the opening of given values; raises ValueRefused for data that are none."""
        return cls({name: freeze(value) for name, value in data.items()}, signature, max_steps)

    def state(self, policies: Sequence[Policy]) -> State:
        """Return the state of a session before its first turn."""
        returns = None if self.signature is None else signature_type(self.signature)
        found = State(policies[-1], tuple(policies), returns, self.max_steps)
        found.values |= {f"data/{name}": value for name, value in self.data.items()}
        found.note_hidden(found.values)
        return found

    def turn_request(self, text: str) -> TurnRequest:
        """Return what the first turn says."""
        return TurnRequest(text, self.data, self.signature, self.max_steps)

    def as_recorded(self, session: str, first: History) -> Opening:
        """Return the opening that the first turn has recorded; raises RunRefused if something else is given now."""
        turn = turn_request_of(first)
        for name, value in self.data.items():
            if name not in turn.data or not same(value, turn.data[name]):
                raise RunRefused(f"session `{session}` was started without this value of `data/{name}`: {_OTHERWISE}")
        if self.signature not in (None, turn.signature):
            raise RunRefused(f"session `{session}` was started with another signature: {_OTHERWISE}")
        if self.max_steps not in (None, turn.max_steps):
            most = "no bound" if turn.max_steps is None else f"{turn.max_steps:,}"
            raise RunRefused(f"session `{session}` was started with {most} as the most of its steps: {_OTHERWISE}")
        return Opening(turn.data, turn.signature, turn.max_steps)


def require_same_rules(session: str, policies: Sequence[Policy], first: History) -> None:
    """Raise RunRefused if a session was started under other rules, or with other facts about tools."""
    program = first.plan.program
    present = [policy_digest(one) for one in policies if one.applies(program.name, program.source_name)]
    if present != list(first.records[0].body["policies"]):
        raise RunRefused(
            f"session `{session}` was started under other rules, or with other facts about tools: give it those again, "
            f"or name the session otherwise"
        )


async def restored(session: str, state: State, turns: Sequence[History]) -> tuple[str, Turn] | None:
    """Bring a new state to the end of the turns of a session.

    Return the text and the program of the last one if that has not ended, or had to wait; its end is not taken over.

    Raises RunRefused for a turn whose values were erased, or that another version of Stepward has compiled, and
    JournalError for one whose inputs are not what the turns before it have left.
    """
    for number, history in enumerate(turns, 1):
        if history.state.is_erased and history.plan.has_sensitive:
            raise RunRefused(f"the sensitive values of session `{session}` were erased")
        text = turn_request_of(history).text
        try:
            found, inputs = await state.compiled(text)
            program = Program.from_document(found.turn.document)
        except (Fault, KeyError, RecursionError):
            raise JournalError(
                f"the text of run `{history.run}` is no turn that follows from those before it"
            ) from None
        except ErasedError:
            raise RunRefused(f"the sensitive values of session `{session}` were erased") from None
        if program.to_data() != history.plan.program.to_data():
            raise RunRefused(f"turn {number} of session `{session}` is not what this version makes of its text")
        if not same(opened(history.events[0].body["inputs"]), opened(FrozenMap(freeze(dict(inputs))))):
            raise JournalError(f"the inputs of run `{history.run}` are not what the turns before it have left")
        state.number, state.policies = number, history.plan.policies
        if not history.state.is_over or (history is turns[-1] and _has_waited(history)):
            return text, found.turn
        state.take_over(number, found.turn, history)
    return None


def _has_waited(history: History) -> bool:
    """Return whether a run has waited for a person: its process may have ended meanwhile."""
    return any(one.kind in ("resumed", "reconciled", "cancel") for one in history.events)
