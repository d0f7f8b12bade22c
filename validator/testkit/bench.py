"""A bench: one program on a real machine, with fake tools, a scripted model and a fake clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from stepward.testing.fakes import FakeClock, FakeTools
from stepward.vm.arguments import FUNCTION, MAPPING, made, require
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.language.policy import Policy
from stepward.vm.language.program import Program
from stepward.vm.machine.deliveries import Verdict
from stepward.vm.machine.execution import ExecutionVM
from stepward.vm.machine.models import Model, ScriptedModel
from stepward.vm.machine.run import Run


class Bench:
    """A machine for the tests of one program.

    `program` is a program, plain data, or the path of a file. `tools` are the outputs of fake tools (see FakeTools),
    `model` is a script of replies by step (see ScriptedModel), or a model. `on_run` is called with each run that the
    bench returns. The machine is `machine`, with its `journal` in memory; the fakes are `tools`, `model` and `clock`.

    The program is not checked: `assert_valid` does that, once. Raises FakeError for outputs that are not of the types
    of the manifest, and for tools and steps that the program does not have, ProgramError for data that is no program.
    """

    def __init__(
        self,
        program: Program | dict[str, Any] | str | Path,
        tools: Mapping[str, Any] | None = None,
        model: Model | Mapping[str, Any] | None = None,
        *,
        policies: Sequence[Policy] = (),
        on_run: Callable[[Run], object] | None = None,
    ) -> None:
        require(MAPPING.or_none(), tools=tools)
        require(FUNCTION.or_none(), on_run=on_run)
        self.program = _program(program)
        self.clock = FakeClock()
        self.tools = FakeTools(self.program, tools, clock=self.clock, policies=policies)
        if isinstance(model, Mapping):
            self.tools.require_asking(model)
        self.model: Any = ScriptedModel(model or {}) if model is None or isinstance(model, Mapping) else model
        self.journal = MemoryJournal()
        self.machine = ExecutionVM(self.tools, self.model, self.journal, policies, checker=None, clock=self.clock)
        self._on_run = on_run

    def run(self, inputs: Mapping[str, Any] | None = None, **options: Any) -> Run:
        """Run the program and return the run; `options` are those of `ExecutionVM.run`, such as `run_id` and `by`.

        Raises FakeError if a fake tool was asked for something that the test does not state.
        """
        return self._seen(self.machine.run_sync(self.program, inputs, **options))

    def resume(self, run: Run, payload: Any = None, *, step: str | None = None, by: str | None = None) -> Run:
        """Resume a suspended run, at `step` if several steps wait; raises LookupError if none does."""
        require(made(Run), run=run)
        for waiting in run.suspensions:
            if step in (None, waiting.step):
                return self._seen(self.machine.resume_sync(waiting.token, payload, by=by))
        where = "" if step is None else f" at `{step}`"
        raise LookupError(f"run `{run.id}` does not wait{where}: it is {run.status}")

    def let_pass(self, run: Run) -> Run:
        """Let time pass until the first wait of a run is over, and go on; raises LookupError if it waits for none."""
        require(made(Run), run=run)
        if run.is_over or run.status == "RUNNING" or run.due is None:
            raise LookupError(f"run `{run.id}` does not wait for a time: it is {run.status}")
        self.clock.time = max(self.clock.time, int(run.due * 1_000_000) + 1)
        return self._seen(self.machine.recover_sync(run.id)[0])

    def reconcile(self, run: Run, verdict: Verdict, output: Any = None, *, by: str | None = None) -> Run:
        """Settle the first write of a run that is in doubt; raises LookupError if none is."""
        require(made(Run), run=run)
        if not run.doubts:
            raise LookupError(f"run `{run.id}` has no write in doubt: it is {run.status}")
        return self._seen(self.machine.reconcile_sync(run.id, run.doubts[0].place, verdict, output, by=by))

    def _seen(self, run: Run) -> Run:
        self.tools.check()
        if self._on_run is not None:
            self._on_run(run)
        return run


def _program(given: Program | dict[str, Any] | str | Path) -> Program:
    match given:
        case Program():
            return given
        case str() | Path():
            return Program.load(given)
    return Program.from_dict(given)
