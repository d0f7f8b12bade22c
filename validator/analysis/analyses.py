"""The analyses of one program that rules, engine and diagrams share. Each is computed on first use."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from stepward.validator.analysis.facts import ProgramFacts
from stepward.vm.expressions.facts import Facts, reads
from stepward.vm.expressions.fields import names_in
from stepward.vm.expressions.syntax import references
from stepward.vm.language.clauses import Clause
from stepward.vm.language.steps import AnyCall, AnyPart, ToolCall
from stepward.vm.language.typecheck import TypeProblem, check_expression

if TYPE_CHECKING:
    from stepward.validator.analysis.assignment import Assignment
    from stepward.validator.analysis.bounds import Bounds
    from stepward.validator.analysis.not_null import NotNull
    from stepward.validator.analysis.passed_values import Passing
    from stepward.validator.analysis.public_values import PublicValues
    from stepward.validator.analysis.readings import Reading
    from stepward.validator.analysis.transition_choices import TransitionChoices


class Analyses:
    """The results of graph and data-flow analysis for one program."""

    def __init__(self, facts: ProgramFacts) -> None:
        self.facts = facts

    @cached_property
    def assignment(self) -> Assignment:
        """Which names are certainly defined where they are read (definite assignment)."""
        from stepward.validator.analysis.assignment import Assignment

        return Assignment(self.facts)

    @cached_property
    def not_null(self) -> NotNull:
        """Which references are certainly not null where a step begins."""
        from stepward.validator.analysis.not_null import NotNull

        return NotNull(self.assignment)

    @cached_property
    def passing(self) -> Passing:
        """How values pass through bodies: into items, and out of them."""
        from stepward.validator.analysis.passed_values import Passing

        return Passing(self.assignment)

    @cached_property
    def type_problems(self) -> tuple[tuple[Clause, TypeProblem], ...]:
        """The type problems of every expression that parses, each with its clause."""
        return self._typed[0]

    @cached_property
    def narrowed(self) -> Mapping[int, frozenset[tuple[str, ...]]]:
        """For each step with an expression that is well typed only because references are not null there: those
        references."""
        return self._typed[1]

    @cached_property
    def _typed(self) -> tuple[tuple[tuple[Clause, TypeProblem], ...], dict[int, frozenset[tuple[str, ...]]]]:
        problems: list[tuple[Clause, TypeProblem]] = []
        narrowed: dict[int, frozenset[tuple[str, ...]]] = {}
        for clause in self.facts.meaning.clauses:
            tree, is_condition = clause.tree, clause.is_condition
            problems_here = (
                []
                if tree is None or (clause.pieces and not clause.is_of_fields)  # a built value computes nothing
                else check_expression(clause.text, tree, self.facts.meaning, is_condition=is_condition)
            )
            if problems_here and tree is not None:
                names = self.not_null.at(clause.step, [node.names for node, _ in reads(tree)])
                known = Facts(not_null=names)
                remaining = check_expression(
                    clause.text, tree, self.facts.meaning, is_condition=is_condition, known=known
                )
                if len(remaining) < len(problems_here):
                    narrowed[clause.step] = narrowed.get(clause.step, names) | names
                problems_here = remaining
            from_bodies = self.facts.body_outputs.problems(clause, self.not_null.at) if not problems_here else ()
            problems.extend((clause, problem) for problem in (*problems_here, *from_bodies))
        return tuple(problems), narrowed

    @cached_property
    def misread(self) -> frozenset[int]:
        """The steps with an expression that does not parse, has a type problem, or reads a variable whose uses have
        conflicting types."""
        unlike = frozenset(names_in(one.name)[0] for one in self.facts.meaning.typing.conflicts)
        wrong = {clause.step for clause, _ in self.type_problems}
        for clause in self.facts.meaning.clauses:
            if clause.tree is None or (unlike and any(one.names[0] in unlike for one in references(clause.tree))):
                wrong.add(clause.step)
        return frozenset(wrong)

    @cached_property
    def _unsure(self) -> frozenset[int]:
        """The steps with an expression that may fail by its types, unless earlier steps rule that out."""
        return self.misread.union(self.narrowed)

    @cached_property
    def bounds(self) -> Bounds:
        """The most that one run can do, and the shortest path to an ending."""
        from stepward.validator.analysis.bounds import Bounds

        return Bounds(self.facts)

    @cached_property
    def transitions(self) -> TransitionChoices:
        """The transitions that a run may take, and those that it certainly can take."""
        from stepward.validator.analysis.transition_choices import TransitionChoices

        return TransitionChoices(self.facts, self.assignment, lambda: self._unsure)

    def reader(self, reading: Reading) -> AnyPart:
        """Return the step or sub-step that contains the reference."""
        step = self.facts.flow.steps[reading.step]
        return step if reading.sub is None else step.sub_steps[reading.sub]

    def starts_for_certain(self, number: int) -> bool:
        """Return whether a step starts whenever control reaches it: nothing that it reads can be undefined or
        ill-typed."""
        return number not in self.assignment.doubtful_steps and self.arguments_fit(number)

    @cached_property
    def uncertain_starts(self) -> frozenset[int]:
        """The steps that may fail to start when control reaches them, computed for all steps at once."""
        refused = (site.step for site in self.facts.meaning.calls if not self._takes(site.call))
        return self.assignment.doubtful_steps.union(refused)

    def arguments_fit(self, number: int) -> bool:
        """Return whether the machine refuses no call of a step: each argument has its declared type, and no prompt
        holds a sensitive value."""
        return all(self._takes(call) for _, call in self.facts.flow.steps[number].calls)

    @cached_property
    def public_values(self) -> PublicValues:
        """Which prompts certainly hold no sensitive value."""
        from stepward.validator.analysis.public_values import PublicValues

        return PublicValues(self.facts.meaning)

    def _takes(self, call: AnyCall) -> bool:
        if not isinstance(call, ToolCall):
            return self.public_values.are_all_in(call)
        declared = self.facts.meaning.tool(call.tool).args or {}
        return self.names_fit(call) and all(
            self.facts.fits(value, declared[name]) for name, value in call.args.items() if name in declared
        )

    def names_fit(self, call: ToolCall) -> bool:
        """Return whether a call passes every argument that its tool requires, and no argument that it does not
        accept; and whether no run before this one may have made it."""
        if call.tool in self.facts.meaning.performed:
            return False
        declared = self.facts.meaning.tool(call.tool).args
        if declared is None:
            return True
        needed = {name for name, spec in declared.items() if not spec.has_default}
        return needed <= set(call.args) <= declared.keys()
