"""Scenes of the Lisp: random calls of every function, random forms, programs with calls of tools, and turns."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from copy import deepcopy
from typing import Any, Final

from stepward.sabotage.drawn.machine import DrawnCase
from stepward.sabotage.drawn.world import DrawnWorld, Manner
from stepward.sabotage.recorded.language.examples import Example, dealt, examples
from stepward.sabotage.recorded.language.meanings import guarded, show_program
from stepward.sabotage.recorded.language.readings import load_program, read
from stepward.sabotage.recorded.language.spoiling import spoilt_text
from stepward.sabotage.recorded.lisp.form_tables import show_forms
from stepward.sabotage.recorded.lisp.forms import DATA, drawn_calls, drawn_effects, drawn_form
from stepward.sabotage.recorded.lisp.tables import dealt_rows, show_functions
from stepward.sabotage.recorded.notes import Notes
from stepward.sabotage.recorded.plain import PlainNotes
from stepward.sabotage.recorded.shared.environment import Environment, SceneProgram
from stepward.vm.lisp import page
from stepward.vm.lisp.checked import data_read, problem_of
from stepward.vm.lisp.compiling.document import read_lisp, read_turn
from stepward.vm.lisp.compiling.starting_point import StartingPoint
from stepward.vm.lisp.evaluation import Outcome, evaluate
from stepward.vm.lisp.faults import Fault
from stepward.vm.lisp.limits import Limits
from stepward.vm.machine import state
from stepward.vm.machine.plan import Plan

FORMS: Final = 5
"""The random forms of a scene."""

SECONDS: Final = 1e6
"""No evaluation of a scene ends because of the clock."""

USUAL: Final = Limits(steps=1_000, memory=100_000, depth=200, seconds=SECONDS)
LIMITS: Final = (
    *(USUAL,) * 6,
    Limits(steps=60, seconds=SECONDS),
    Limits(memory=3_000, steps=1_000, seconds=SECONDS),
    Limits(depth=12, steps=1_000, seconds=SECONDS),
    Limits(printed=5, steps=1_000, seconds=SECONDS),
    Limits(text=40, steps=1_000, seconds=SECONDS),
)

FEW: Final = state.Limits(steps=30)
"""The limits of a run."""


def scene(seed: str, options: Mapping[str, Any]) -> Notes:
    """Play the scene of a seed, with machines of these options, and return what came."""
    with ExitStack() as stack:
        env = Environment(seed, stack, options)
        env.notes = PlainNotes()
        _Scene(env).play()
        return env.notes


class _Scene:
    def __init__(self, env: Environment) -> None:
        self.env, self.notes, self.chance = env, env.notes, env.chance

    def play(self) -> None:
        """Show the examples of the scene, and what chance draws beside them."""
        chance, functions = self.chance, dealt_rows(self.env.seed)
        for example in dealt("lisp", self.env.seed):
            self.show(example)
        self.notes.add(
            [(row.name, row.usage, row.least, row.most, row.doc, row.space, row.subject) for row in functions]
        )
        show_functions(self.notes, self.env.seed)
        show_forms(self.notes, self.env.seed)
        if self.env.seed.endswith(" 0"):
            self.notes.add(page.functions(), page.limits(), page.refused())
        for text in drawn_calls(self.env.seed, chance):
            self.evaluate(text, DATA, USUAL)
        for _ in range(FORMS):
            self.evaluate(drawn_form(chance), DATA, chance.choice(LIMITS), chance.choice(("", "", "_")))
        self.evaluate(spoilt_text(self.some("lisp"), chance), DATA, USUAL)
        self.compile(drawn_effects(chance), runs=True)
        self.compile(spoilt_text(self.some("compile"), chance))
        text, start = self.some_turn()
        self.turn(spoilt_text(text, chance) if chance.random() < 0.5 else drawn_effects(chance), start)

    def some(self, kind: str) -> Any:
        """Return what is given first in a random example of a kind."""
        return self.chance.choice([one for one in examples("lisp") if one.kind == kind]).given[0]

    def some_turn(self) -> tuple[str, Any]:
        text, start = self.chance.choice([one for one in examples("lisp") if one.kind == "turn"]).given
        return text, deepcopy(start)

    def show(self, example: Example) -> None:
        """Show an example."""
        data = deepcopy(example.given)
        match example.kind:
            case "lisp":
                limits = Limits(seconds=SECONDS)
                if data[2] is not None:
                    steps, memory, depth, printed, text = data[2]
                    limits = Limits(steps, memory, depth, SECONDS, printed, text)
                self.evaluate(data[0], data[1], limits, data[3])
            case "compile":
                self.compile(data[0])
            case _:
                self.turn(data[0], data[1])

    # -- values --------------------------------------------------------------------------------------------------------

    def evaluate(self, text: str, data: Mapping[str, Any], limits: Limits, hides: str = "") -> None:
        """Note what a text comes to."""
        self.notes.add("evaluate", text, hides, problem_of(text), data_read(text))
        _show_outcome(self.notes, evaluate(text, data, limits, hides=hides))

    # -- programs ------------------------------------------------------------------------------------------------------

    def compile(self, text: str, *, runs: bool = False) -> None:
        """Note the program that a text compiles to; with `runs`, show what it means now and then, and run it."""
        self.notes.add("compile", text)
        for document in read(self.notes, lambda: [read_lisp("a/it.clj", text)]):
            program = load_program(self.notes, document)
            if program is None:
                return
            plan = None
            if runs and self.chance.random() < 0.5:
                plan = show_program(self.notes, program, (), self.chance)
            if plan is not None:
                self.run(plan)

    def turn(self, text: str, start: Mapping[str, Any]) -> None:
        """Note what a text is as a turn of a session from a starting point."""
        self.notes.add("turn", text, start)
        try:
            turn = read_turn("turn.clj", text, StartingPoint(**start))
        except Fault as fault:
            self.notes.add(fault.error(), fault.error().as_value())
            return
        except RecursionError:
            self.notes.add("too deep")
            return
        read(self.notes, lambda: [turn.document])
        sites = turn.sites
        self.notes.add(turn.sources, turn.functions, sites.calls, sites.sites, sites.loops, sites.checked)
        load_program(self.notes, turn.document)

    def run(self, plan: Plan) -> None:
        """Run a program once, and note what became of it."""
        case = DrawnCase(plan.program, self.env.seed)
        chosen = SceneProgram(case, plan, DrawnWorld(plan, case.seed, Manner(), (), case.limits.output_bytes))
        self.env.programs[:] = [chosen]
        run = self.env.do("run", self.env.machine((), limits=FEW).run(plan.program, self.env.inputs(chosen)))
        if run is not None:
            guarded(self.notes, lambda: self.notes.add("output", run.output, run.error))


def _show_outcome(notes: Notes, found: Outcome) -> None:
    notes.add(found.value, found.shown, found.printed, found.cut, found.steps, found.memory)
    if found.error is not None:
        notes.add(found.error, found.error.as_value())
