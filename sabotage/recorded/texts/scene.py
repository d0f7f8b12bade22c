"""Scenes of texts: random programs, policies, expressions, types and patterns, and all that is said of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from copy import deepcopy
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from stepward.sabotage.drawn.machine import DrawnCase
from stepward.sabotage.drawn.values import drawn_type
from stepward.sabotage.drawn.world import DrawnWorld, Manner
from stepward.sabotage.recorded.language.examples import Example, dealt, examples
from stepward.sabotage.recorded.language.meanings import guarded, show_program, tell
from stepward.sabotage.recorded.language.readings import load_policy, load_program, read
from stepward.sabotage.recorded.language.spoiling import spoilt, spoilt_text, with_past
from stepward.sabotage.recorded.notes import Notes
from stepward.sabotage.recorded.plain import PlainNotes
from stepward.sabotage.recorded.shared.environment import Environment, SceneProgram
from stepward.sabotage.recorded.texts import asking, ruling
from stepward.sabotage.recorded.texts.filing import show_files
from stepward.sabotage.recorded.texts.signing import show_signatures
from stepward.sabotage.recorded.texts.tables import show_tables
from stepward.sabotage.recorded.texts.wording import (
    drawn_conditions,
    drawn_expression,
    drawn_limits,
    drawn_pattern,
    drawn_words,
)
from stepward.vm.language.meaning import Meaning
from stepward.vm.language.policy import Policy
from stepward.vm.language.program import Program
from stepward.vm.machine import state
from stepward.vm.machine.plan import Plan
from stepward.vm.reading.document import Document
from stepward.vm.reading.files import decode, read_text

SPOILT: Final = 1
"""Programs with one thing changed, and texts with one sign changed."""

IN_FILES: Final = 0.25
"""The share of scenes with files."""

DRAWN: Final = 5
"""Expressions that are drawn for a scene."""

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
        for example in dealt("texts", self.env.seed):
            self.show(example)
        show_tables(self.notes, self.env.seed)
        for _ in range(SPOILT):
            for _ in range(2):
                self.show_program(spoilt(self.some("program"), self.chance))
            self.show(Example("policy", (spoilt(self.some("policy"), self.chance), False)))
            self.show(Example("policy", (with_past(self.some("policy"), self.chance), self.chance.random() < 0.5)))
            self.read_text(spoilt_text(self.some(self.chance.choice(("yaml", "yaml", "json"))), self.chance))
        for _ in range(DRAWN):
            asking.show_expression(
                self.notes, drawn_expression(self.chance), self.chance.choice((1, 2, 2)), self.chance
            )
        self.show_program(drawn_conditions(self.chance))
        show_signatures(self.notes, int(self.env.seed.rpartition(" ")[2]))
        if self.chance.random() < IN_FILES:
            with TemporaryDirectory() as folder:
                show_files(self.notes, Path(folder), self.chance)
        asking.show_type(self.notes, drawn_type(self.chance), [], self.chance)
        for _ in range(3):
            asking.show_type(self.notes, drawn_limits(self.chance), [], self.chance)
        asking.show_pair(self.notes, drawn_type(self.chance), drawn_type(self.chance))
        asking.show_pair(self.notes, drawn_limits(self.chance), drawn_limits(self.chance))
        asking.show_pair(self.notes, *self.two("type"))
        asking.show_equality(self.notes, self.chance)
        asking.show_words(self.notes, drawn_words(self.chance))
        asking.show_template(self.notes, self.some("template"), self.chance)
        one, other = drawn_pattern(self.chance), drawn_pattern(self.chance)
        asking.show_pattern(self.notes, one)
        longest = [self.chance.choice((None, None, 1, 3)) for _ in range(2)]
        asking.show_patterns(self.notes, one, longest[0], other, longest[1])

    def some(self, kind: str) -> Any:
        """Return what is given in a random example of a kind."""
        return deepcopy(self.chance.choice([one for one in examples("texts") if one.kind == kind]).given[0])

    def two(self, kind: str) -> tuple[Any, Any]:
        return self.some(kind), self.some(kind)

    def show(self, example: Example) -> None:
        """Show an example."""
        data, notes, chance = deepcopy(example.given), self.notes, self.chance
        match example.kind:
            case "program":
                self.show_program(data[0])
            case "policy":
                policy = load_policy(notes, data[0], is_recorded=data[1])
                if policy is not None:
                    self.show_policies([policy])
            case "yaml" | "json":
                self.read_text(data[0], is_json=example.kind == "json")
            case "bytes":
                tell(notes, decode, data[0], "it")
            case "expression":
                asking.show_expression(notes, data[0], data[1], chance)
            case "template":
                asking.show_template(notes, data[0], chance)
            case "type":
                asking.show_type(notes, data[0], data[1:], chance)
            case "pair":
                asking.show_pair(notes, data[0], data[1])
            case "pattern":
                asking.show_pattern(notes, data[0], data[1:])
            case "within":
                asking.show_patterns(notes, *data)
            case _:
                asking.show_words(notes, data[0])

    # -- programs and policies -----------------------------------------------------------------------------------------

    def read_text(self, text: str, *, is_json: bool | None = None) -> None:
        """Read a text, and show what its documents are."""
        if is_json is None:
            is_json = text.lstrip()[:1] in ("{", "[")
        self.notes.add("text", text)
        for document in read(self.notes, lambda: read_text("it", text, is_json=is_json))[:2]:
            if isinstance(document.data, dict) and "policy" in document.data:
                policy = load_policy(self.notes, document)
                if policy is not None:
                    self.show_policies([policy])
            else:
                self.show_program(document)

    def show_program(self, source: Document | dict[str, Any]) -> None:
        """Load a program, show what it means, and now and then run it."""
        if isinstance(source, dict):
            self.notes.add("data", source)
        program = load_program(self.notes, source)
        if program is None:
            return
        policies = self._policies() if self.chance.random() < 0.5 else []
        plan = show_program(self.notes, program, policies, self.chance)
        guarded(self.notes, lambda: ruling.show_rules(self.notes, Meaning(program, policies), self.chance))
        guarded(self.notes, lambda: ruling.show_rest(self.notes, Meaning(program), self.chance))
        if plan is not None and self.chance.random() < 0.5:
            self.run(program, plan, policies)

    def _policies(self) -> list[Policy]:
        found = [load_policy(Notes(), self.some("policy")) for _ in range(self.chance.choice((1, 1, 2)))]
        return [one for one in found if one is not None]

    def show_policies(self, policies: list[Policy]) -> None:
        """Show what policies are, and a small program under them."""
        ruling.show_policies(self.notes, policies, ["wide", "computes", "p", "transfer"])
        program = load_program(Notes(), self.some("program"))
        if program is not None:
            ruling.show_policies(self.notes, [*policies, *self._policies()], [program.name])
            guarded(self.notes, lambda: ruling.show_rules(self.notes, Meaning(program, policies), self.chance))

    def run(self, program: Program, plan: Plan, policies: list[Policy]) -> None:
        """Run a program once, and note what became of it."""
        seed = f"{self.env.seed} {len(self.notes.texts)}"
        case = DrawnCase(program, seed, policies)
        chosen = SceneProgram(case, plan, DrawnWorld(plan, seed, Manner(), (), case.limits.output_bytes))
        self.env.programs[:] = [chosen]
        inputs = self.env.inputs(chosen)
        run = self.env.do("run", self.env.machine(policies, limits=FEW).run(program, inputs))
        if run is not None:
            guarded(self.notes, lambda: self.notes.add(json.dumps(run.output, default=str, sort_keys=True)))
