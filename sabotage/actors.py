"""Everybody at once: callers, drivers that die, people who answer, and an attacker, in any order on one store.

A move is plain data, so that a sequence of them is a script. One that has no hold where it comes does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from stepward.sabotage.invariants import Breach, Invariant
from stepward.sabotage.points import Killed, Points
from stepward.sabotage.scene import LEASE_SECONDS, Scene
from stepward.sabotage.stage import Stage
from stepward.vm.machine.refusals import DeliveryRefused, RunBusy, RunRefused
from stepward.vm.machine.run import Run
from stepward.vm.values import to_json

RUNS: Final = ("first", "second")
Move = Mapping[str, Any]
"""`do` is one of _MOVES, `run` one of RUNS; `dies` is the point at which the process that moves is killed, or null."""


class Actors:
    """The runs of one case, and who does what to them."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.scenes: dict[str, Scene] = {}
        self.refusals = 0
        self._used: dict[str, str] = {}
        self._ended: dict[str, tuple[str, str, str]] = {}
        self._erased: set[str] = set()

    def do(self, move: Move) -> None:
        """Make a move, and see that every invariant still holds. Raises Breach."""
        name = move["run"]
        self.stage.tell(f"{move['do']}: {name}" + ("" if move["dies"] is None else f", dies at point {move['dies']}"))
        if name not in self.scenes:
            if move["do"] != "start":
                return
            self.scenes[name] = Scene(self.stage, name)
        try:
            _MOVES[move["do"]](self, self.scenes[name], Points(move["dies"]))
        except (RunBusy, DeliveryRefused, RunRefused):
            self.refusals += 1
        except Killed:
            self.scenes[name].oracle.forget()
        self._check()

    def _check(self) -> None:
        for name, scene in self.scenes.items():
            scene.oracle.look()
            run = scene.found()
            if run is None or not run.is_over:
                continue
            now = (run.status, run.reason, run.trace_hash)
            before = self._ended.setdefault(name, now)
            if now[:2] != before[:2] or (name not in self._erased and now != before):
                raise Breach(Invariant.ENDINGS, f"the run had ended {before[0]} ({before[1]}), and is {run.status} now")

    # -- moves ---------------------------------------------------------------------------------------------------------

    def start(self, scene: Scene, points: Points) -> None:
        """Start the run, or ask for it again by its id."""
        scene.start(scene.machine(points))

    def recover(self, scene: Scene, points: Points) -> None:
        """Have another process look for what nobody drives."""
        if scene.found() is not None:
            self.stage.count()
            self.stage.do(scene.machine(points).recover(scene.run))

    def answer(self, scene: Scene, points: Points) -> None:
        """Give the run what it waits for."""
        run = scene.found()
        if run is None or not (run.doubts or run.suspensions):
            return
        if run.suspensions and not run.doubts:
            self._used[scene.name] = run.suspensions[0].token
        scene.deliver(run, scene.machine(points))

    def use_again(self, scene: Scene, points: Points) -> None:
        """Deliver a token that was used, with another payload."""
        token = self._used.get(scene.name)
        run = scene.found()
        if token is None or run is None or any(one.token == token for one in run.suspensions):
            return
        self.stage.count()
        self.stage.do(scene.machine(points).resume(token, {"forged": True}))
        raise Breach(Invariant.DELIVERY, "a token was taken for the second time")

    def finish(self, scene: Scene, points: Points) -> None:
        """Bring the run to its end by a process that lives, and have the oracle judge it."""
        del points
        run = scene.found()
        if scene.name not in self._erased:
            scene.outlive(run or scene.start())

    def cancel(self, scene: Scene, points: Points) -> None:
        """Ask for the end of the run."""
        if scene.found() is not None:
            self.stage.count()
            self.stage.do(scene.machine(points).cancel(scene.run))

    def erase(self, scene: Scene, points: Points) -> None:
        """Have the sensitive values of the run destroyed."""
        if scene.found() is not None:
            self._erased.add(scene.name)
            self.stage.count()
            self.stage.do(scene.machine(points).erase(scene.run))

    def wait(self, scene: Scene, points: Points) -> None:
        """Let the lease run out."""
        del points
        scene.clock.time += int(2 * LEASE_SECONDS * 1_000_000)

    def start_other(self, scene: Scene, points: Points) -> None:
        """Ask for another run under the id of this one."""
        target = self.stage.target
        if scene.found() is None or not target.plan.input_types:
            return
        inputs = self.stage.pick(f"other inputs of {scene.name}", target.inputs)
        if to_json(inputs) == to_json(scene.inputs):
            return
        self.stage.count()
        run: Run = self.stage.do(scene.machine(points).run(target.program, inputs, run_id=scene.run))
        self.stage.tell(f"other inputs are taken: {to_json(inputs)}")
        if _differs(target.plan.input_types, inputs, scene.inputs):
            raise Breach(Invariant.IDENTITY, f"run `{run.id}` was returned for other inputs")


def _differs(types: Mapping[str, Any], inputs: Mapping[str, Any], others: Mapping[str, Any]) -> bool:
    """Whether two sets of inputs are two once their defaults are filled in."""
    return any(
        inputs.get(name, spec.default if spec else None) != others.get(name, spec.default if spec else None)
        for name, spec in types.items()
    )


_MOVES: Final[dict[str, Callable[[Actors, Scene, Points], None]]] = {
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
