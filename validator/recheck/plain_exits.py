"""The exits of steps that only read values: an `end`, and a wait."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from stepward.validator.recheck.blocks import TEXT, UNDEFINED, Block
from stepward.validator.recheck.definite import read_by
from stepward.validator.recheck.exits import ALONE, NOTHING, Exit
from stepward.validator.recheck.flow import FAILS as END_FAILS
from stepward.validator.recheck.flow import Transition
from stepward.validator.recheck.followed import State
from stepward.validator.recheck.names import Names
from stepward.vm.language.steps import EndStep, WaitStep


class Steps(Protocol):
    """The steps of a program, as far as these exits need them."""

    is_blind: bool

    def blocks(self, names: Names, step: int, state: State) -> tuple[Block, ...]:
        """Return the possible blocks of a reference at the start of a step in a state."""

    def transitions(self, number: int) -> tuple[Transition, ...]:
        """Return the transitions of a step."""


def ended(steps: Steps, number: int, step: EndStep, state: State, *, may_be_refused: bool) -> Iterator[Exit]:
    """Yield the exits of an `end` step in a state; `may_be_refused` where a caller takes only some outputs."""
    read = _read(steps, number, step, state)
    if may_be_refused or any(UNDEFINED in blocks for blocks in read):
        fails = next((one for one in steps.transitions(number) if one.kind == "failed"), END_FAILS)
        yield Exit(fails, (), ALONE, NOTHING, 1)
    if not any(blocks == (UNDEFINED,) for blocks in read):
        # The run is over: an `end` does not succeed, and starts no obligation.
        ends = (transition for transition in steps.transitions(number) if transition.kind == "end")
        yield from (Exit(transition, (), ALONE, NOTHING, 1) for transition in ends)


def waited(steps: Steps, number: int, step: WaitStep, state: State) -> Iterator[Exit]:
    """Yield the exits of a `wait` step in a state: whatever it reads may be no time to wait."""
    may_be_there = not any(blocks == (UNDEFINED,) for blocks in _read(steps, number, step, state))
    for transition in steps.transitions(number):
        if transition.kind == "success" and may_be_there:
            yield Exit(transition, (), ALONE, ALONE, 1)
        elif transition.kind == "failed" and read_by(step):
            yield Exit(transition, (), ALONE, NOTHING, 1)


def _read(steps: Steps, number: int, step: EndStep | WaitStep, state: State) -> list[tuple[Block, ...]]:
    """Return the possible blocks of what a step reads; any where values are ignored."""
    return [(UNDEFINED, TEXT)] if steps.is_blind else [steps.blocks(name, number, state) for name in read_by(step)]
