"""The invariants that must hold under every attack, and the outcomes of attacks."""

from __future__ import annotations

from enum import Enum, StrEnum
from typing import Any


class Invariant(Enum):
    """A property that no attack may break. The value is its sentence in the threat model."""

    PERMISSION = "no effect happens that the policy does not allow"
    GUARDRAIL = "no step starts that a guardrail forbids"
    INTENT = "no effect starts before its intent is durable in the journal"
    ONCE = "no effect happens twice"
    KEPT = "no effect is lost, and none is reported that did not happen"
    GRAPH = "no transition is taken that the program does not have"
    DATA = "data stays data: values from outside have their declared type, and are never read as code or reference"
    HISTORY = "nobody outside the machine can change what happened"
    TAMPERING = "a changed journal is detected"
    REPLAY = "reading a run again gives the same state"
    ENDINGS = "an ended run never changes"
    IDENTITY = "one id belongs to one run, with one program, one policy and one set of inputs"
    DELIVERY = "a delivery counts once, and only for the step that waits for it"
    DRIVER = "only one machine at a time drives a run"
    SECRECY = "a sensitive value is only in the vault and in the tools that receive it"
    ERASURE = "an erased value never comes back"
    BOUNDS = "budgets, retries and size limits hold"
    REFUSAL = "a refusal is an error of the machine's own kind, and nothing else happens"
    RECORDED = "what was recorded with the release comes to the same again"

    @property
    def key(self) -> str:
        """The name of the invariant in reports and scripts."""
        return self.name.lower()


class Outcome(StrEnum):
    """The outcome of one case of an attack, or of the whole attack.

    `blocked`: the machine refused the attack. `detected`: it happened, and the machine or a verification reported it.
    `absorbed`: the run went as without an attack. `breached`: an invariant broke. `unconfirmed`: an invariant broke,
    and a fresh process could not repeat that. `not_applicable`: the attack does not apply to the run of this case.
    `not_run` (only for a whole attack): no case began.
    """

    BLOCKED = "blocked"
    DETECTED = "detected"
    ABSORBED = "absorbed"
    BREACHED = "breached"
    UNCONFIRMED = "unconfirmed"
    NOT_APPLICABLE = "not_applicable"
    NOT_RUN = "not_run"


class NotApplicable(Exception):  # noqa: N818 - it is no error of the case
    """The run of this case has nothing that the attack can use."""


class Breach(Exception):  # noqa: N818 - it is what the attacker has achieved
    """An invariant was broken. `what` says how; `choices` and `story` are those of the case, once they are known."""

    def __init__(self, invariant: Invariant, what: str) -> None:
        super().__init__(f"{invariant.key}: {what}")
        self.invariant = invariant
        self.what = what
        self.choices: dict[str, Any] = {}
        self.story: tuple[str, ...] = ()
