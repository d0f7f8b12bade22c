"""What must hold whatever anybody does, and what it means that it did not."""

from __future__ import annotations

from enum import Enum, StrEnum
from typing import Any


class Invariant(Enum):
    """Something that every attack leaves standing. The value is the sentence that the threat model has for it."""

    PERMISSION = "no effect happens that the policy does not allow"
    GUARDRAIL = "no step starts that a guardrail forbids"
    INTENT = "no effect starts before its intent is durable in the journal"
    ONCE = "no effect is doubled"
    KEPT = "no effect is lost, and none is reported that did not happen"
    GRAPH = "no transition is taken that the program does not have"
    DATA = "data stays data: what comes from outside is of its type, and is never read as code or reference"
    HISTORY = "nobody outside changes what happened"
    TAMPERING = "a changed journal is detected"
    REPLAY = "reading a run again gives the same state"
    ENDINGS = "an ended run stays as it ended"
    IDENTITY = "one id is one run, of one program, under one policy, with one set of inputs"
    DELIVERY = "a delivery counts once, and only where it is awaited"
    DRIVER = "one machine at a time drives a run"
    SECRECY = "a sensitive value is nowhere but in the vault and in the tools that it is given to"
    ERASURE = "nothing that was erased comes back"
    BOUNDS = "budgets, retries and limits on size hold"
    REFUSAL = "what is refused is refused in the machine's own words, and nothing else happens"

    @property
    def key(self) -> str:
        """The name by which reports and scripts call it."""
        return self.name.lower()


class Outcome(StrEnum):
    """What became of one case of an attack, or of the whole attack.

    `blocked`: the machine refused it; `detected`: it happened, and the machine or a verification said so; `absorbed`:
    all went as it goes without an attack; `breached`: an invariant broke; `unconfirmed`: one broke, and a fresh process
    could not repeat it. `not_applicable`: the run of this case gave the attack no hold. `not_run`, of a whole
    attack: no case of it began.
    """

    BLOCKED = "blocked"
    DETECTED = "detected"
    ABSORBED = "absorbed"
    BREACHED = "breached"
    UNCONFIRMED = "unconfirmed"
    NOT_APPLICABLE = "not_applicable"
    NOT_RUN = "not_run"


class Breach(Exception):  # noqa: N818 - it is what the attacker has achieved
    """An invariant was broken: `what` says how, `choices` and `story` are those of the case, once it is known."""

    def __init__(self, invariant: Invariant, what: str) -> None:
        super().__init__(f"{invariant.key}: {what}")
        self.invariant = invariant
        self.what = what
        self.choices: dict[str, Any] = {}
        self.story: tuple[str, ...] = ()
