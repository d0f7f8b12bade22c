"""Injection past a policy over time: waivers end, policies come later, and the checker is asked once."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from stepward.sabotage.attack import Attack, Family
from stepward.sabotage.attacks.injection import called_tools, tools_of
from stepward.sabotage.attacks.rewriting import Forged, changed, rewriting, with_body
from stepward.sabotage.invariants import Invariant, Outcome
from stepward.sabotage.needs import TOOL
from stepward.sabotage.playing.every_tool import EveryTool
from stepward.sabotage.playing.points import Killed, Points
from stepward.sabotage.playing.trial import LEASE_SECONDS, STARTER, Trial
from stepward.sabotage.playing.variants import under, variant
from stepward.sabotage.playing.world import WorldClock
from stepward.vm.language.policy import Policy
from stepward.vm.language.program import Program
from stepward.vm.machine.execution import ExecutionVM
from stepward.vm.machine.models import ScriptedModel
from stepward.vm.machine.refusals import RunRefused
from stepward.vm.machine.tools import ToolContext
from stepward.vm.values import freeze, to_json

if TYPE_CHECKING:
    from stepward.sabotage.playing.case import Case
    from stepward.sabotage.playing.machines import Machine
    from stepward.sabotage.stores.forging import Data
    from stepward.sabotage.target import Target

DAY: Final = 86_400_000_000
MIDNIGHT: Final = 20_500 * DAY
"""The first microsecond of 2026-02-16."""

EXPIRIES: Final = ("2026-02-15", "2026-02-16", "2027-02-15")
TODAY: Final = {-1: "2026-02-15", 0: "2026-02-16", 1: "2026-02-17"}
BESIDE: Final = (-1_000_000, 0, DAY - 1_000_000, DAY, 12 * 3_600_000_000)
"""Microseconds before or after that midnight at which a machine acts."""

WHOSE: Final = ("this program", "another program", "another rule", "another policy")
OURS: Final = 4
"""The weight of a waiver for this program, against 1 for each other waiver."""


class PolicyOverTime(Attack):
    """A policy forbids a tool and waives that until some day, for this program or another, this rule or another. Runs
    are started, continued, and put under the policy later, near the midnight at which the waiver ends."""

    family = Family.INJECTION
    surface = "waivers of a policy"
    action = "used before, on and after their last day"
    invariant = Invariant.PERMISSION
    defence = (
        "a waiver is valid through its last day by UTC, for its program and its rule, and for runs that started by then"
    )
    weight = 2
    needs = (TOOL,)

    def play(self, case: Case) -> Outcome:
        """Check that the tool is called if and only if a waiver allows it."""
        from hypothesis import strategies as st

        called = list(dict.fromkeys(call.tool for call in called_tools(case)))
        case.needs(called)
        barred = case.pick("barred", st.sampled_from(called))
        expiry = case.pick("the waiver ends on", st.sampled_from(EXPIRIES))
        whose = WHOSE[max(0, case.pick("the waiver is for", st.integers(0, OURS + len(WHOSE) - 2)) - OURS + 1)]
        when = [MIDNIGHT + case.pick(f"moment {number}", st.sampled_from(BESIDE)) for number in (1, 2)]
        policies = _policies(case.target, barred, expiry, whose)
        terms = _Terms(case, barred, policies, expiry, whose == WHOSE[0])
        attempts: tuple[Callable[[], Outcome], ...] = (
            lambda: terms.starts(when),
            lambda: terms.goes_on(when),
            lambda: terms.comes_under(max(when)),
        )
        outcomes = [attempt() for attempt in case.each("what is attempted", attempts)]
        return next((one for one in outcomes if one is not Outcome.NOT_APPLICABLE), Outcome.NOT_APPLICABLE)


def _policies(target: Target, barred: str, expiry: str, whose: str) -> tuple[Policy, ...]:
    """Return the policies of a machine: those of the target, one that forbids the tool, and one that waives its own
    rule."""
    others = sorted({call.tool for call in tools_of(target)} - {barred})
    waiver = {
        "program": "elsewhere" if whose == WHOSE[1] else target.program.name,
        "rule": "another" if whose == WHOSE[2] else "allow",
        "reason": "an attack",
        "expiry": expiry,
    }
    gate: dict[str, Any] = {"policy": "gate", "allow": others}
    lax: dict[str, Any] = {"policy": "lax", "allow": [*others, barred]}
    (lax if whose == WHOSE[3] else gate)["waivers"] = [waiver]
    return (*target.policies, Policy.from_dict(gate), Policy.from_dict(lax))


class _Terms:
    """A tool, the policies that forbid it, and the facts of the waiver."""

    def __init__(self, case: Case, barred: str, policies: tuple[Policy, ...], expiry: str, is_ours: bool) -> None:
        self.case = case
        self.barred = barred
        self.policies = policies
        self._expiry = expiry
        self._is_ours = is_ours

    def _trial(self) -> Trial:
        trial = Trial(self.case, faults=False)
        trial.oracle.rest()  # the oracle knows the waivers of another day
        return trial

    def _is_waived(self, at: int) -> bool:
        """Whether the waiver counts at a time."""
        return self._is_ours and TODAY[(at - MIDNIGHT) // DAY] <= self._expiry

    def _called(self, trial: Trial) -> bool:
        return any(call.asking.call.tool == self.barred for call in trial.world.attempts)

    def _hold(self, trial: Trial, due: bool, at: int) -> Outcome:
        message = (
            f"on {TODAY[(at - MIDNIGHT) // DAY]} `{self.barred}` was {'' if self._called(trial) else 'not '}called"
        )
        self.case.hold(self._called(trial) == due, Invariant.PERMISSION, message)
        return Outcome.ABSORBED if due else Outcome.BLOCKED

    def starts(self, when: Sequence[int]) -> Outcome:
        """Start two runs by one machine, at two times."""
        outcome = Outcome.ABSORBED
        machine: Machine | None = None
        for at in sorted(when):
            trial = self._trial()
            if machine is None:
                machine = trial.machine(policy=self.policies)
            other = trial.machine(policy=self.policies)
            other._plans, other._stored = machine._plans, machine._stored  # the caches of one machine
            machine = other
            trial.clock.time = at
            self.case.log(f"start a run on {TODAY[(at - MIDNIGHT) // DAY]}")
            trial.carry_on(trial.start(machine), machine)
            outcome = self._hold(trial, self._is_waived(at), at)
        return outcome

    def goes_on(self, when: Sequence[int]) -> Outcome:
        """Start a run whose process dies before any call, and let another continue it later."""
        trial = self._trial()
        trial.clock.time = min(when)
        with_death = trial.machine(_BeforeTheFirst(), policy=self.policies)
        with suppress(Killed):
            trial.start(with_death)
        if trial.found() is None or self._called(trial):
            return Outcome.NOT_APPLICABLE
        trial.clock.time = max(*when, min(when) + int(2 * LEASE_SECONDS * 1_000_000))
        machine = trial.machine(policy=self.policies)
        self.case.log("another machine goes on with it")
        trial.carry_on(self.case.do(machine.recover(trial.run))[0], machine)
        return self._hold(trial, self._is_waived(min(when)), min(when))

    def comes_under(self, at: int) -> Outcome:
        """Start a run under the target's policies; its process dies, and it is continued under the other policies."""
        from hypothesis import strategies as st

        trial = self._trial()
        trial.clock.time = at - int(2 * LEASE_SECONDS * 1_000_000)
        with suppress(Killed):
            points = self.case.pick("killed so many points after the call", st.integers(0, 8))
            trial.start(trial.machine(_AfterTheCall(self.barred, points)))
        run = trial.found()
        if run is None or run.is_over:
            return Outcome.NOT_APPLICABLE
        has_begun = f'"tool":"{self.barred}"'.encode() in b"".join(
            entry.record for entry in trial.store.inner.read(trial.run)
        ) or any(
            call.asking.call.tool == self.barred and self._is_written(trial, call.asking.call.id)
            for call in trial.world.attempts
        )
        calls_before = len(trial.world.attempts)
        trial.clock.time = at
        machine = trial.machine(policy=self.policies)
        self.case.log(f"a machine with the policy goes on with it on {TODAY[(at - MIDNIGHT) // DAY]}")
        try:
            trial.carry_on(run, machine)
        except RunRefused:
            is_due = has_begun and not self._is_waived(at)
            self.case.hold(is_due, Invariant.PERMISSION, "a run was refused that broke no rule")
            return Outcome.BLOCKED
        is_late = has_begun and not self._is_waived(at)
        self.case.hold(not is_late, Invariant.PERMISSION, "a machine went on with a run that broke its rule")
        governed = [one for one in trial.store.inner.read(trial.run) if b'"kind":"governed"' in one.record]
        self.case.hold(
            len(governed) == 1, Invariant.PERMISSION, f"the run came under the policies {len(governed)} times"
        )
        later = any(one.asking.call.tool == self.barred for one in trial.world.attempts[calls_before:])
        is_allowed = self._is_waived(at) or not later
        self.case.hold(is_allowed, Invariant.PERMISSION, f"`{self.barred}` was called under a policy that bars it")
        return Outcome.ABSORBED

    def _is_written(self, trial: Trial, step: str) -> bool:
        field = f'"step":"{step}"'.encode()
        return any(
            b'"kind":"attempt"' in entry.record and field in entry.record for entry in trial.store.inner.read(trial.run)
        )


class _BeforeTheFirst(Points):
    """Points at which the process dies at the first call."""

    async def pass_by(self, name: str) -> None:
        """Pass a point."""
        if " is asked by " in name or self.is_dead:
            self.is_dead = True
            raise Killed(name)
        await super().pass_by(name)


class _AfterTheCall(Points):
    """Points at one of which the process dies, counted from the first call of a tool."""

    def __init__(self, tool: str, left: int) -> None:
        super().__init__()
        self._tool = tool
        self._left = left
        self._is_near = False

    async def pass_by(self, name: str) -> None:
        """Pass a point."""
        self._is_near = self._is_near or name.startswith(f"before {self._tool} is asked by ")
        self._left -= self._is_near
        if self._left < 0:
            self.is_dead = True
        if self.is_dead:
            raise Killed(name)
        await super().pass_by(name)


# -- the checker -------------------------------------------------------------------------------------------------------


class _Finding(NamedTuple):
    code: str
    message: str
    severity: str


FINDINGS: Final = (
    _Finding("SW401", "it is bypassed", "error"),
    _Finding("SW408", "it is unproved", "error"),
    _Finding("SW301", "it is odd", "warning"),
    _Finding("SW209", "it is a pity", "warning"),
)


class _Broken(EveryTool):
    """Tools that all fail, since the outcome of a run does not matter to the checker."""

    async def call(self, name: str, args: Mapping[str, Any], context: ToolContext) -> Any:
        """Fail."""
        del args, context
        raise RuntimeError(f"{name} is broken")


def _waived_elsewhere(case: Case) -> Trial:
    """Return a trial under a policy that waives its rules for another program."""
    tools = sorted({call.tool for call in tools_of(case.target)})
    waiver = {"program": "elsewhere", "reason": "an attack", "expiry": EXPIRIES[-1]}
    waivers = [{**waiver, "rule": rule} for rule in ("allow", "once")]
    rule = {"name": "once", "at_most_once": {"tool": tools[0]}}
    policy = {"policy": "gate", "allow": tools, "guardrails": [rule], "waivers": waivers}
    return Trial(case, faults=False, target=under(case.target, "waived elsewhere", policy))


@rewriting(
    surface="waived rules in the first record",
    action="a rule more, which is waived for another program, or by nobody",
    invariant=Invariant.PERMISSION,
    defence="a replay takes a rule for waived only if a policy of the run waives it for this program",
    needs=(TOOL,),
    trial=_waived_elsewhere,
)
def waiver_forged(trial: Trial, records: list[Data]) -> Forged:
    """The first record says that a rule is waived, which the policy waives for another program, or not at all."""
    from hypothesis import strategies as st

    rule = trial.case.pick("the rule that is waived", st.sampled_from(("allow", "once", "another")))
    trial.case.log(f"write into the first record that `gate:{rule}` is waived")
    waived = sorted([*records[0]["body"]["waived"], f"gate:{rule}"])
    return changed(records, 0, with_body(records[0], waived=waived))


class ProgramNotAdmitted(Attack):
    """A machine is asked repeatedly to run a program in which its checker finds errors or warnings. Some codes are
    accepted, and the program changes in between."""

    family = Family.INJECTION
    surface = "program that the machine's checker refuses"
    action = "run in spite of findings, with accepted codes"
    invariant = Invariant.REFUSAL
    defence = (
        "a program with an error that is not accepted does not start, and the verdict is about exactly this program"
    )
    severity = "high"

    def play(self, case: Case) -> Outcome:
        """Check that a program starts if and only if every error is accepted, and the checker sees each program
        once."""
        from hypothesis import strategies as st

        codes = [finding.code for finding in FINDINGS]
        trial = Trial(case, faults=False)
        found = case.pick("findings", st.lists(st.sampled_from(codes), unique=True))
        later = case.pick("findings in the program as it is then", st.lists(st.sampled_from(codes), unique=True))
        findings = {case.target.plan.digest: found}
        digests: list[str] = []

        def check(program: Program, policies: Sequence[Policy]) -> Iterable[Any]:
            digest = renewed.plan.digest if program is renewed.program else case.target.plan.digest
            digests.append(digest)
            case.hold(len(policies) == len(case.target.policies), self.invariant, "the checker has other policies")
            return [finding for finding in FINDINGS if finding.code in findings[digest]]

        renewed = variant(case.target, "a step more", _with_a_step)
        findings[renewed.plan.digest] = later
        machine = ExecutionVM(
            _Broken(),
            ScriptedModel({}),
            case.store,
            case.target.policies,
            checker=check,
            clock=WorldClock(),
            random=case.random,
        )
        outcome = Outcome.ABSORBED
        for number in range(4):
            accept = case.pick(f"accepted {number}", st.lists(st.sampled_from(codes), unique=True))
            target = case.pick(f"program {number}", st.sampled_from(["as it was", "changed"]))
            played = renewed if target == "changed" else case.target
            due = [one for one in FINDINGS if one.code in findings[played.plan.digest] and one.severity == "error"]
            refused = [one for one in due if one.code not in accept]
            if self._is_refused(case, machine, played.program, trial.inputs, accept, refused):
                outcome = Outcome.BLOCKED
        case.hold(len(digests) == len(set(digests)), self.invariant, "the checker is asked twice of one program")
        self._play_elsewhere(case, trial.inputs)
        return outcome

    def _play_elsewhere(self, case: Case, inputs: Mapping[str, Any]) -> None:
        """Check that the checker is asked again where more policies apply to a program, and where other rules are
        waived."""
        clock, target = WorldClock(), case.target
        today = datetime.datetime.fromtimestamp(clock.time / 1e6, datetime.UTC).date().isoformat()
        waiver = {"program": target.program.name, "rule": "four_eyes", "reason": "r", "expiry": today}
        dated = Policy.from_dict({"policy": "dated", "four_eyes": ["any"], "waivers": [waiver]})
        by_path = Policy.from_dict({"policy": "by path", "four_eyes": ["any"], "applies_to": ["elsewhere/*"]})
        findings: list[_Finding] = []
        machine = ExecutionVM(
            _Broken(),
            ScriptedModel({}),
            case.store,
            (*target.policies, dated, by_path),
            checker=lambda *_: list(findings),
            clock=clock,
            random=case.random,
        )
        text = to_json(freeze(target.program.to_dict()))
        for path, days, found in (("here", 0, ()), ("elsewhere", 0, FINDINGS[:1]), ("elsewhere", 2, ())):
            findings[:] = found
            clock.time += days * DAY
            program = Program.from_json(text, f"{path}/it.json")
            case.log(f"the program stands in `{path}`, {days} days later, and has the findings {findings}")
            self._is_refused(case, machine, program, inputs, [], findings)

    def _is_refused(
        self,
        case: Case,
        machine: ExecutionVM,
        program: Program,
        inputs: Mapping[str, Any],
        accept: list[str],
        due: list[_Finding],
    ) -> bool:
        run = case.run_id()
        case.act(f"run it, and accept {accept}")
        message = ""
        try:
            case.do(machine.run(program, inputs, run_id=run, accept=accept, by=STARTER))
        except RunRefused as error:
            message = str(error)
        case.hold(
            bool(due) == bool(message), self.invariant, f"findings {[one.code for one in due]}, and it says {message}"
        )
        named = all(one.code in message for one in due)
        case.hold(named, self.invariant, f"what is refused is not named: {message}")
        is_there = case.store.head(run) is not None
        case.hold(is_there == (not due), self.invariant, "a refused run left records")
        return bool(due)


def _with_a_step(data: dict[str, Any]) -> None:
    data["steps"] = [*data["steps"], {"id": "one_more_end", "type": "end"}]
