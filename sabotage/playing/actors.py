"""Concurrent actors on one store: callers, drivers that die, people who answer, and an attacker, in any order.

A move is plain data, so a sequence of moves is a script. A move that does not apply at its turn does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from stepward.sabotage.invariants import Breach, Invariant
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.points import Killed, Points
from stepward.sabotage.playing.trial import LEASE_SECONDS, Trial
from stepward.vm.machine.refusals import DeliveryRefused, RunBusy, RunRefused
from stepward.vm.machine.run import Run
from stepward.vm.values import to_json

RUNS: Final = ("first", "second")
Move = Mapping[str, Any]
"""`do` is one of _MOVES, `run` one of RUNS; `dies` is the point at which the moving process is killed, or null."""


class Actors:
    """The runs of one case, and the moves on them."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.trials: dict[str, Trial] = {}
        self.refusals = 0
        self._used: dict[str, str] = {}
        self._ended: dict[str, tuple[str, str, str]] = {}
        self._erased: set[str] = set()

    def do(self, move: Move) -> None:
        """Make a move and check every invariant. Raises Breach."""
        name = move["run"]
        self.case.log(f"{move['do']}: {name}" + ("" if move["dies"] is None else f", dies at point {move['dies']}"))
        if name not in self.trials:
            if move["do"] != "start":
                return
            self.trials[name] = Trial(self.case, name)
        try:
            _MOVES[move["do"]](self, self.trials[name], Points(move["dies"]))
        except (RunBusy, DeliveryRefused, RunRefused):
            self.refusals += 1
        except Killed:
            self.trials[name].oracle.forget()
        self._check()

    def _check(self) -> None:
        for name, trial in self.trials.items():
            trial.oracle.look()
            run = trial.found()
            if run is None or not run.is_over:
                continue
            now = (run.status, run.reason, run.trace_hash)
            before = self._ended.setdefault(name, now)
            if now[:2] != before[:2] or (name not in self._erased and now != before):
                raise Breach(Invariant.ENDINGS, f"the run had ended {before[0]} ({before[1]}), and is {run.status} now")

    # -- moves ---------------------------------------------------------------------------------------------------------

    def start(self, trial: Trial, points: Points) -> None:
        """Start the run, or request it again by its id."""
        trial.start(trial.machine(points))

    def recover(self, trial: Trial, points: Points) -> None:
        """Let another process recover the runs that no process drives."""
        if trial.found() is not None:
            self.case.count()
            self.case.do(trial.machine(points).recover(trial.run))

    def answer(self, trial: Trial, points: Points) -> None:
        """Deliver what the run waits for."""
        run = trial.found()
        if run is None or not (run.doubts or run.suspensions):
            return
        if run.suspensions and not run.doubts:
            self._used[trial.name] = run.suspensions[0].token
        trial.deliver(run, trial.machine(points))

    def use_again(self, trial: Trial, points: Points) -> None:
        """Deliver with a used token and another payload."""
        token = self._used.get(trial.name)
        run = trial.found()
        if token is None or run is None or any(one.token == token for one in run.suspensions):
            return
        self.case.count()
        self.case.do(trial.machine(points).resume(token, {"forged": True}, by=trial.settler))
        raise Breach(Invariant.DELIVERY, "a token was taken for the second time")

    def finish(self, trial: Trial, points: Points) -> None:
        """Drive the run to its end by a live process, and let the oracle judge it."""
        del points
        run = trial.found()
        if trial.name not in self._erased:
            trial.outlive(run or trial.start())

    def cancel(self, trial: Trial, points: Points) -> None:
        """Cancel the run."""
        if trial.found() is not None:
            self.case.count()
            self.case.do(trial.machine(points).cancel(trial.run))

    def erase(self, trial: Trial, points: Points) -> None:
        """Erase the sensitive values of the run."""
        if trial.found() is not None:
            self._erased.add(trial.name)
            self.case.count()
            self.case.do(trial.machine(points).erase(trial.run))

    def wait(self, trial: Trial, points: Points) -> None:
        """Wait until the lease expires."""
        del points
        trial.clock.time += int(2 * LEASE_SECONDS * 1_000_000)

    def start_other(self, trial: Trial, points: Points) -> None:
        """Request another run under the id of this one."""
        target = self.case.target
        if trial.found() is None or not target.plan.input_types:
            return
        inputs = self.case.pick(f"other inputs of {trial.name}", target.inputs)
        if to_json(inputs) == to_json(trial.inputs):
            return
        self.case.count()
        run: Run = self.case.do(trial.machine(points).run(target.program, inputs, run_id=trial.run, by=trial.by))
        self.case.log(f"other inputs are taken: {to_json(inputs)}")
        if _differs(target.plan.input_types, inputs, trial.inputs):
            raise Breach(Invariant.IDENTITY, f"run `{run.id}` was returned for other inputs")


def _differs(types: Mapping[str, Any], inputs: Mapping[str, Any], others: Mapping[str, Any]) -> bool:
    """Whether two sets of inputs differ after defaults are filled in."""
    return any(
        inputs.get(name, spec.default if spec else None) != others.get(name, spec.default if spec else None)
        for name, spec in types.items()
    )


_MOVES: Final[dict[str, Callable[[Actors, Trial, Points], None]]] = {
    "start": Actors.start,
    "recover": Actors.recover,
    "answer": Actors.answer,
    "use a token again": Actors.use_again,
    "finish": Actors.finish,
    "cancel": Actors.cancel,
    "erase": Actors.erase,
    "wait": Actors.wait,
    "start with other inputs": Actors.start_other,
}
