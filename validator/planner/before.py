"""What a model is told of a run that it is to continue, and what its program may read of it.

Texts of tools and models of that run are data, like everything that a model is told. Sensitive values are never shown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from stepward.validator.planner.refusal import PlanRefused
from stepward.vm.errors import StepwardError
from stepward.vm.journal.canonical import is_sealed
from stepward.vm.language.node import plain
from stepward.vm.machine.chains import chain_before, reader
from stepward.vm.machine.continuation import (
    MAX_CONTINUATIONS,
    ContinuationRequest,
    checked_grant,
    prepared,
    require_continuable,
)
from stepward.vm.machine.continuing import (
    Start,
    allowed_budgets,
    base_policies,
    bounded,
    derived_policies,
    id_after,
)
from stepward.vm.machine.data import REDACTED
from stepward.vm.machine.handing import readable, type_of
from stepward.vm.machine.history import load, stored_plan
from stepward.vm.machine.plan import Plan
from stepward.vm.machine.refusals import RunRefused
from stepward.vm.machine.replay import chain_faults, misfits
from stepward.vm.reading.yaml_writer import to_yaml
from stepward.vm.values import as_text, to_json

if TYPE_CHECKING:
    from stepward.vm.journal.store import Journal
    from stepward.vm.language.policy import Policy
    from stepward.vm.language.program import Program
    from stepward.vm.language.types import TypeSpec
    from stepward.vm.machine.history import History

MAX_SHOWN: Final = 400
"""Characters of a value, or of an error, that a model is shown."""

MAX_STEPS: Final = 200
"""The last steps of a run that a model is shown."""

MAX_PROGRAM: Final = 20_000
"""Characters of the longest program of a run that a model is shown."""


@dataclass(frozen=True)
class Continuing:
    """A run that is to be continued, and what the operator allows: the parameters of `ExecutionVM.continue_run`."""

    run: str
    grant: Mapping[str, Any] | None = None
    after_failure: bool = False
    max_continuations: int = MAX_CONTINUATIONS


@dataclass(frozen=True)
class Before:
    """The runs before a continuation. `reads` and `types` are those of the inputs that its program may have.

    `policies` are in the state in which the runs have left them; `present` are those of the operator.
    """

    asked: Continuing
    chain: tuple[History, ...]
    reads: Mapping[str, str]
    types: Mapping[str, TypeSpec]
    present: tuple[Policy, ...]
    policies: tuple[Policy, ...]

    @property
    def run(self) -> str:
        """The id of the run that is continued."""
        return self.chain[-1].run

    @property
    def head(self) -> str:
        """The digest of its last record, in hexadecimal."""
        return self.chain[-1].last.digest.hex()

    def inputs_of(self, program: Program) -> frozenset[str]:
        """Return the names of the inputs of a program; raises ProgramError for one that can't run."""
        return frozenset(Plan(program).inputs if program.inputs is None else program.inputs)

    def reads_of(self, program: Program) -> dict[str, str]:
        """Return what a program reads of the run before, by its inputs; raises ProgramError as `inputs_of`."""
        return {name: self.reads[name] for name in sorted(self.inputs_of(program)) if name in self.reads}

    def within(self, program: Program) -> Program:
        """Return a program with the budgets that are left; raises RunRefused if none are."""
        return bounded(program, allowed_budgets(self.chain, self.asked.grant or {}))

    def plan(self, program: Program, reads: Mapping[str, str] | None = None, accept: Collection[str] = ()) -> Plan:
        """Return the plan with which a program continues the run; `reads` is what it reads, unless as `reads_of` says.

        Its program has the budgets that are left, its policies are in the state in which the runs have left them.
        Raises RunRefused or ProgramError if the program can't continue the run.
        """
        continuing = self.asked
        read = self.reads_of(program) if reads is None else reads
        most = continuing.max_continuations
        request = ContinuationRequest(
            program, read, self.head, continuing.grant or {}, continuing.after_failure, most, accept
        )
        require_continuable(self.chain, request)
        plan, _, _ = prepared(self.chain, request, self.present)
        return plan

    def as_yaml(self) -> str:
        """Return what a model is told of the run, as YAML."""
        last = self.chain[-1]
        program = to_yaml(last.plan.program.to_dict())
        left = {name: as_text(most) for name, most in allowed_budgets(self.chain, self.asked.grant or {}).items()}
        facts = {
            "ended": last.state.status,
            "reason": last.state.reason,
            "left": left,
            "steps": list(_steps(last))[-MAX_STEPS:],
            "values": {name: _shown(readable(last).get(source)) for name, source in self.reads.items()},
            "written": [_write(event.body) for history in self.chain for event in _intents(history)],
        }
        return f"{to_yaml(facts)}program: |\n" + "".join(f"  {line}\n" for line in program[:MAX_PROGRAM].splitlines())


def before_of(journal: Journal, continuing: Continuing, present: Sequence[Policy]) -> Before:
    """Return what comes before the continuation of a run; raises PlanRefused if it can't be continued."""
    plans = partial(stored_plan, journal)
    try:
        grant = checked_grant(continuing.grant or {})
        found = load(journal, continuing.run, plans)
        if found is None:
            raise PlanRefused(f"there is no run `{continuing.run}`", "name a run of this journal: `--journal`")
        faults = misfits(found) or chain_faults(journal, found, plans)
        if faults:
            raise PlanRefused(faults[0].what, _VERIFY, f"the operator can {_VERIFY}")
        chain = (*chain_before(found, reader(journal, plans)), found)
        most = continuing.max_continuations
        require_continuable(
            chain, ContinuationRequest(found.plan.program, {}, None, grant, continuing.after_failure, most)
        )
        following = id_after([one.run for one in chain])
        if journal.head(following) is not None:
            why = f"run `{continuing.run}` is continued already, by run `{following}`"
            raise PlanRefused(why, "look at that one", "look at that one with `get_run`")
        left = allowed_budgets(chain, grant)
        if left["steps"] <= 0:
            raise PlanRefused(
                f"run `{continuing.run}` has no steps left", "grant more: `--grant steps=20`", _BY_OPERATOR
            )
        if left.get("time", 1) <= 0:
            raise PlanRefused(
                f"run `{continuing.run}` has no time left", "grant more: `--grant time=3600`", _BY_OPERATOR
            )
        policies = derived_policies(chain, base_policies(chain, present), Start((), {}))
    except RunRefused as error:
        raise PlanRefused(str(error), *_helps(str(error))) from None
    except StepwardError as error:
        if isinstance(error, PlanRefused):
            raise
        raise PlanRefused(str(error), _VERIFY, f"the operator can {_VERIFY}") from None
    reads = {name.replace(".", "_"): name for name in readable(found)}
    reads |= {name: name for name in readable(found) if "." not in name}
    types = {name: type_of(found, source) for name, source in reads.items()}
    settled = Continuing(continuing.run, grant, continuing.after_failure, most)
    return Before(settled, chain, reads, types, tuple(present), policies)


_VERIFY: Final = "look at the run with `stepward verify`"
_BY_OPERATOR: Final = "the operator may continue it"

_HELPS: Final = (
    ("only if that is asked for", "say so with `--after-failure`", _BY_OPERATOR),
    ("`max_continuations` is ", "allow more with `--max-continuations`", _BY_OPERATOR),
    (
        "has not ended",
        "wait until it has, or end it with `stepward runs cancel`",
        "call `get_run` until it has, or end it with `cancel_run`",
    ),
    ("is a turn of a session", "take it with `stepward repl`", "take it with `run_lisp`"),
)
"""What to do about a run that can't be continued, by words of the message: for the operator, and for a caller."""


def _helps(why: str) -> tuple[str, str]:
    """Return what to do about a run that can't be continued. Where nobody can continue it, both are told the same."""
    nobody = "continue another run, or start a new one"
    return next(((mine, yours) for words, mine, yours in _HELPS if words in why), (nobody, nobody))


def _shown(value: Any) -> str:
    if is_sealed(value):
        return REDACTED
    text = to_json(plain(value))
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"


def _steps(last: History) -> Iterator[str]:
    """Yield how the steps of a run were left, in order."""
    for event in last.events:
        body = event.body
        if "step" not in body or event.kind in ("intent", "opened", "item"):
            continue
        how = body.get("branch", body.get("kind", event.kind))
        error = f": {str(body['error'])[:MAX_SHOWN]}" if body.get("error") else ""
        yield f"{body['step']} {how}{error}"


def _intents(history: History) -> Iterator[Any]:
    writes = {call.id for step in history.plan.steps for call in step.calls if call.writes}
    return (one for one in history.events if one.kind == "intent" and one.body["step"] in writes)


def _write(body: Mapping[str, Any]) -> dict[str, Any]:
    return {"tool": body["tool"], "args": {name: _shown(value) for name, value in body["args"].items()}}
