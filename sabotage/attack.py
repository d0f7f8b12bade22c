"""What an attack is: one small class that says what it does, what it aims at and what should stop it, and does it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import StrEnum
from inspect import isfunction
from typing import TYPE_CHECKING, ClassVar, Literal, Required, TypedDict, TypeVar

from stepward.sabotage.invariants import Invariant, Outcome
from stepward.sabotage.playing.case import Case
from stepward.sabotage.target import Target

if TYPE_CHECKING:
    from hypothesis.stateful import RuleBasedStateMachine


class Family(StrEnum):
    """What an attacker goes for."""

    INJECTION = "injection"
    REPLAY = "replay"
    HASHES = "hash corruption"
    TRANSITIONS = "skipped transitions"
    CRASH = "crash"
    TIME = "time"
    LOAD = "load"


Severity = Literal["critical", "high", "medium"]


class Attack(ABC):
    """One attack. The docstring of the class says what the attacker does, in a sentence or two.

    `surface` is what the attacker may touch, `action` what is done to it, `defence` what should stop it, `severity` how
    bad a breach is. `weight` is how many plain cases one case costs: an attack that enumerates gets fewer cases.
    `store` is the kind of store that it is played on.
    """

    name: ClassVar[str]
    family: ClassVar[Family]
    surface: ClassVar[str]
    action: ClassVar[str]
    invariant: ClassVar[Invariant]
    defence: ClassVar[str]
    severity: ClassVar[Severity]
    enumerates: ClassVar[str] = ""
    weight: ClassVar[int] = 1
    store: ClassVar[Literal["memory", "sqlite"]] = "memory"

    def misses(self, target: Target) -> str | None:  # noqa: ARG002 - most attacks apply to every program
        """Return why the attack has no hold on a program; None when it has."""
        return None

    @abstractmethod
    def play(self, case: Case) -> Outcome:
        """Play one case, and return what became of it; raises Breach."""


class AttackFacts(TypedDict, total=False):
    """What an attack says of itself. Its fields are those of `Attack`."""

    surface: Required[str]
    action: Required[str]
    defence: Required[str]
    invariant: Invariant
    severity: Severity
    weight: int
    store: Literal["memory", "sqlite"]
    misses: Callable[[Target], str | None]


A = TypeVar("A", bound=Attack)


def attack_of(base: type[A], function: Callable[..., object], **fields: object) -> type[A]:
    """Make an attack of a function: it has its name, with hyphens, and its docstring.

    `fields` are attributes of the class, and functions that take the place of methods.
    """
    members = {name: staticmethod(value) if isfunction(value) else value for name, value in fields.items()}
    about = {
        "name": function.__name__.replace("_", "-"),
        "__doc__": function.__doc__,
        "__module__": function.__module__,
    }
    return type(function.__name__, (base,), {**about, **members})


class Stateful(Attack):
    """An attack whose moves come in any order: Hypothesis chooses them by the rules of a state machine."""

    @abstractmethod
    def state_machine(
        self,
        begin: Callable[[], Case],
        end: Callable[[Case, Outcome], None],
        broke: Callable[[Case, Exception], None],
    ) -> type[RuleBasedStateMachine]:
        """Return a state machine that plays one case on the case that `begin` gives.

        It records its moves as decisions, so that `play` can make them again; it calls `end` with what became of the
        case, or `broke` with the error that it then raises.
        """
