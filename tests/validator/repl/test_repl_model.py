"""Differential: random sessions, of which turns fail and are tried again, against a plain model of turns.

The calls of tools in order, which turns succeed, and the values that have a name must be the same.
`STEPWARD_TURNS=500` tries that many sessions.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random

import pytest

from sizes import asked_for
from stepward.validator.repl import state
from stepward.validator.repl.session import Session
from stepward.vm import ExecutionVM, Policy
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.machine.tools import FunctionTools
from turn_models import POLICY, Model, World, random_turn, text_of

COUNT = asked_for("STEPWARD_TURNS", 12, 500)
TURNS = 6


async def differing(seed: str, seen: Counter[str]) -> str:
    """Return where a session differs from the model, empty if nowhere."""
    chance, ours, theirs = Random(seed), World(seed), World(seed)
    model, journal = Model(theirs), MemoryJournal()
    session = Session(
        FunctionTools(ours.tools()),
        [Policy.from_dict(POLICY)],
        lambda tools, policies: ExecutionVM(tools, None, journal, policies, checker=None),
        journal,
        gate=_open,
    )
    told, before = [], None
    for _ in range(TURNS):
        stmts = random_turn(chance, set(model.names), before)
        text = "\n".join(map(text_of, stmts))
        recalls = len(theirs.calls), len(model.memory)
        is_fine = model.turn(stmts)
        answer = await session.turn(text)
        told.append(f"{text}\n=> {'fine' if is_fine else 'failed'}; {answer.as_value()}")
        same = (answer.error is None, ours.calls, dict(session.values)) == (is_fine, theirs.calls, model.names)
        if not same:
            return "\n".join(
                [seed, *told, f"ours {ours.calls} {session.values}", f"model {theirs.calls} {model.names}"]
            )
        seen["fine" if is_fine else "failed"] += 1
        seen["retried"] += before is not None and recalls[1] > 0
        before = None if is_fine else stmts
    return ""


async def _open(document, policies, earlier):  # type: ignore[no-untyped-def]
    """Let every turn through: the proofs have tests of their own."""
    from stepward.vm import Program

    return None, Program.from_document(document)


def test_sessions_do_what_the_model_does() -> None:
    seen: Counter[str] = Counter()
    wrong = [found for number in range(COUNT) if (found := asyncio.run(differing(f"turns {number}", seen)))]
    assert not wrong, "\n\n".join(wrong[:3])
    assert min(seen["fine"], seen["failed"], seen["retried"]) > COUNT // 2


def test_a_planted_mistake_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn that is tried again does all its calls again."""
    monkeypatch.setattr(state, "calls_in", lambda history, turn: [])
    assert any(asyncio.run(differing(f"turns {number}", Counter())) for number in range(10))
