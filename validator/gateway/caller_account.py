"""What the operator of a gateway has set, and the place of each caller."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from stepward.validator.gateway.approvals import Approvals
from stepward.validator.gateway.callers import Caller
from stepward.validator.gateway.judging import in_force
from stepward.validator.gateway.metering import Meter, MeteredModel
from stepward.validator.gateway.quiet import QuietTools
from stepward.validator.gateway.refusals import RequestRefused
from stepward.validator.repl.session import Session
from stepward.vm.machine.authority import Envelope
from stepward.vm.machine.equipment import tools_of
from stepward.vm.machine.execution import ExecutionVM
from stepward.vm.machine.state import Limits

if TYPE_CHECKING:
    from pathlib import Path

    from stepward.vm.journal.signing import SigningKey, VerifyKey
    from stepward.vm.journal.store import Journal
    from stepward.vm.language.policy import Policy
    from stepward.vm.machine.models import Model

WAIT: Final = 20.0
"""Seconds that `run_program` waits for the end of a run, before it answers that the run goes on."""


def prefix_of(caller: Caller) -> str:
    """Return that with which the ids of the runs of a caller begin."""
    return f"mcp.{caller.name}."


@dataclass(frozen=True)
class Operator:
    """What the operator has set: tools with their manifest, model, journal, policies, places of tokens and programs.

    `about` says in words what tools do, for models that plan.
    """

    journal: Journal
    gate: str
    tools: object = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    about: Mapping[str, str] = field(default_factory=dict)
    model: Model | None = None
    policies: Sequence[Policy] = ()
    key: SigningKey | None = None
    trusted: tuple[VerifyKey, ...] = ()
    approvals: Approvals | None = None
    programs: Path | None = None
    wait: float = WAIT


class CallerAccount:
    """The place of one caller: its policies, its machine and its meter. Once `stop` is set, no call starts."""

    def __init__(self, caller: Caller, operator: Operator, stop: asyncio.Event) -> None:
        self.caller = caller
        self.policies = (*in_force(operator.policies), caller.policy(operator.facts))
        self.meter = Meter(caller)
        self._operator, self._stop = operator, stop
        self._machines = WeakSet[ExecutionVM]()
        self.machine = self._machine(QuietTools(operator.tools or {}), self.policies)

    def planning_machine(self, tools: Mapping[str, Any]) -> ExecutionVM:
        """Return a machine that plans, with the gate as its tool. Raises RequestRefused if there is no model."""
        if self._operator.model is None:
            raise RequestRefused("no model is configured", "the operator names one with `stepward mcp --model NAME`")
        return self._machine(tools, ())

    def session(self, name: str, data: Mapping[str, Any], signature: str | None, gate: Any) -> Session:
        """Return a new session of this caller."""
        approvals = self._operator.approvals
        return Session(
            tools_of(QuietTools(self._operator.tools or {})),
            self.policies,
            self._machine,
            self._operator.journal,
            data=data,
            signature=signature,
            max_steps=self.caller.steps,
            name=f"{prefix_of(self.caller)}{name}",
            by=self.caller.name,
            envelope=Envelope(self.caller.name, self._operator.gate, self.caller.settles_own),
            gate=gate,
            announce=None if approvals is None else partial(approvals.announce, self.caller.name),
        )

    def _machine(self, tools: object, policies: Sequence[Policy]) -> ExecutionVM:
        operator = self._operator
        machine = ExecutionVM(
            tools,
            None if operator.model is None else MeteredModel(operator.model, self.meter),
            operator.journal,
            policies,
            checker=None,  # the gateway judges the text before each run, and the program that plans is ours
            key=operator.key,
            trusted=operator.trusted,
            limits=Limits(steps=self.caller.steps),
        )
        machine.stop_with(self._stop, parks=False)
        self._machines.add(machine)
        return machine

    def let_go(self) -> None:
        """Give the leases back that are held for calls under way, because the process ends with them."""
        for machine in self._machines:
            machine.let_go()
