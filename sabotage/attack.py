"""The base of all attacks. An attack is a small class that describes itself and plays its cases."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import StrEnum
from inspect import isfunction
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, Required, TypedDict, TypeVar

from stepward.sabotage.invariants import Invariant, Outcome
from stepward.sabotage.playing.case import Case
from stepward.sabotage.target import Target

if TYPE_CHECKING:
    from hypothesis.stateful import RuleBasedStateMachine


class Family(StrEnum):
    """The kind of attack."""

    INJECTION = "injection"
    REPLAY = "replay"
    HASHES = "hash corruption"
    TRANSITIONS = "skipped transitions"
    CRASH = "crash"
    TIME = "time"
    LOAD = "load"


Severity = Literal["critical", "high", "medium"]


class Need(NamedTuple):
    """What an attack needs of a program. `otherwise` says why the attack does not apply to a program without it."""

    otherwise: str
    is_met: Callable[[Target], object]


class Attack(ABC):
    """One attack. The docstring of the class says what the attacker does, in a sentence or two.

    `name` is the name of the class, in lower case with hyphens: `TokenTwice` is `token-twice`. `surface` is what
    the attacker may touch, `action` what is done to it, `defence` what should stop it, `severity` how bad a breach
    is. An attack that says no `severity` is critical. `weight` is the cost of one case, in plain cases: an attack
    that enumerates gets fewer cases. One that enumerates very much does so in `parts`, each of which is a shard.
    `draws` is True for an attack on programs, stores or files of its own, which it draws or has in a table. It
    never looks at the target, so it needs nothing of a program and plays no specimen; its breaches are not made
    smaller, because another seed is no smaller case. `store` is the kind of store that the attack uses, `needs`
    what it needs of a program.
    """

    name: ClassVar[str]
    family: ClassVar[Family]
    surface: ClassVar[str]
    action: ClassVar[str]
    invariant: ClassVar[Invariant]
    defence: ClassVar[str]
    severity: ClassVar[Severity] = "critical"
    enumerates: ClassVar[str] = ""
    weight: ClassVar[int] = 1
    parts: ClassVar[int] = 1
    draws: ClassVar[bool] = False
    store: ClassVar[Literal["memory", "sqlite"]] = "memory"
    needs: ClassVar[tuple[Need, ...]] = ()

    def __init_subclass__(cls) -> None:
        """Derive the name from that of the class or function."""
        super().__init_subclass__()
        cls.name = re.sub("(?<!^)(?=[A-Z])|_", "-", cls.__name__).lower()

    def misses(self, target: Target) -> str | None:
        """Return why the attack does not apply to a program, or None if it applies."""
        return next((need.otherwise for need in self.needs if not need.is_met(target)), None)

    @abstractmethod
    def play(self, case: Case) -> Outcome:
        """Play one case and return its outcome. Raises Breach."""


class AttackFacts(TypedDict, total=False):
    """The description of an attack. Its fields are those of `Attack`."""

    surface: Required[str]
    action: Required[str]
    defence: Required[str]
    invariant: Invariant
    severity: Severity
    weight: int
    store: Literal["memory", "sqlite"]
    needs: tuple[Need, ...]


A = TypeVar("A", bound=Attack)


def attack_of(base: type[A], function: Callable[..., object], **fields: object) -> type[A]:
    """Turn a function into an attack class, which takes its name and docstring from the function.

    `fields` are attributes of the class, and functions that replace its methods.
    """
    members = {name: staticmethod(value) if isfunction(value) else value for name, value in fields.items()}
    about = {"__doc__": function.__doc__, "__module__": function.__module__}
    return type(function.__name__, (base,), {**about, **members})


class Stateful(Attack):
    """An attack whose moves come in any order, chosen by a Hypothesis state machine."""

    @abstractmethod
    def state_machine(
        self,
        begin: Callable[[], Case],
        end: Callable[[Case, Outcome], None],
        broke: Callable[[Case, Exception], None],
    ) -> type[RuleBasedStateMachine]:
        """Return a state machine that plays the case that `begin` returns.

        The machine records its moves as decisions, so that `play` can repeat them. It calls `end` with the outcome, or
        `broke` with the error that it then raises.
        """
