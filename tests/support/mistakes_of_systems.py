"""Planted mistakes in what steps do, in what rules remember, in budgets, and in product and slice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from planting import Patch, planted
from stepward.validator.analysis import counting, monitors, transition_choices
from stepward.validator.engine import dead, reach
from stepward.validator.engine.systems import building, moves, slicing, starts, system
from stepward.validator.engine.systems.system import AnyValue, Assign, Undefined
from stepward.vm.language import automata
from stepward.vm.language.steps import ParallelStep

# -- what a step does --------------------------------------------------------------------------------------------------


@planted()
def an_output_stays_when_its_step_fails(patch: Patch) -> None:
    true = moves.Moves._outputs

    def outputs(self: Any, call: Any, fate: Any) -> Iterator[Assign]:
        return iter([one for one in true(self, call, fate) if not isinstance(one.value, Undefined)])

    patch.setattr(moves.Moves, "_outputs", outputs)


@planted()
def a_new_output_is_the_old_one(patch: Patch) -> None:
    true = moves.Moves._outputs

    def outputs(self: Any, call: Any, fate: Any) -> Iterator[Assign]:
        return iter([one for one in true(self, call, fate) if not isinstance(one.value, AnyValue)])

    patch.setattr(moves.Moves, "_outputs", outputs)


@planted(sign=".error")
def an_error_is_not_written_down(patch: Patch) -> None:
    patch.setattr(moves.Moves, "_error", lambda self, step, *, has_one: iter([Assign((step.id, "error"), Undefined())]))


@planted()
def the_branches_are_exchanged(patch: Patch) -> None:
    true = moves.outcomes

    def outcomes(step: Any, way: Any) -> tuple[int, ...]:
        exchanged = {"then": "otherwise", "otherwise": "then"}
        has_both = step.then is not None and step.otherwise is not None
        return true(step, way._replace(branch=exchanged.get(way.branch, way.branch)) if has_both else way)

    patch.setattr(moves, "outcomes", outcomes)


@planted()
def nobody_goes_to_the_error_step(patch: Patch) -> None:
    true = transition_choices.TransitionChoices.is_possible
    patch.setattr(
        transition_choices.TransitionChoices,
        "is_possible",
        lambda self, step, way: (way.kind, way.to < 0) != ("failed", False) and true(self, step, way),
    )


@planted(sign="fallback")
def nobody_falls_back(patch: Patch) -> None:
    true = transition_choices.TransitionChoices.is_possible
    patch.setattr(
        transition_choices.TransitionChoices, "is_possible", lambda *asked: asked[2].kind != "fallback" and true(*asked)
    )


@planted()
def nothing_that_is_read_is_ever_undefined(patch: Patch) -> None:
    true = starts.Starts.of
    patch.setattr(starts.Starts, "of", lambda self, *asked: (true(self, *asked)[0], ()))


@planted()
def a_set_never_fails(patch: Patch) -> None:
    patch.setattr(moves.Moves, "_set_fails", staticmethod(lambda *asked, always: iter(())))


@planted()
def a_condition_never_fails(patch: Patch) -> None:
    true = moves.outcomes
    patch.setattr(moves, "outcomes", lambda step, way: () if way.kind == "failed" else true(step, way))


@planted(sign="'output':")
def an_end_never_fails(patch: Patch) -> None:
    true = moves.Moves._end
    patch.setattr(
        moves.Moves,
        "_end",
        lambda self, *asked: (one for one in true(self, *asked) if one.transition.kind != "failed"),
    )


@planted()
def a_set_assigns_one_name_after_the_other(patch: Patch) -> None:
    true = moves.Moves.assigned

    def assigned(self: Any, step: Any, trees: Any, known: Any) -> Iterator[Assign]:
        late = {}
        for one in true(self, step, trees, known):
            root = moves.real(one.root)
            if root != one.root:
                if not isinstance(one.value, Undefined):
                    late[root] = one.value
                    yield Assign(root, one.value)
            elif root not in late:
                yield one

    patch.setattr(moves.Moves, "assigned", assigned)


@planted(sign="parallel_steps")
def siblings_of_a_failed_part_lose_their_outputs(patch: Patch) -> None:
    true = moves.Moves._joined

    def joined(self: Any, step: Any, way: Any, results: Any, *more: Any) -> Any:
        failed = [(part, one._replace(result=moves.FAILED)) for part, one in results]
        assigns = true(self, step, way, failed if way.kind == "failed" else results, *more).assigns
        return true(self, step, way, results, *more)._replace(assigns=assigns)

    patch.setattr(moves.Moves, "_joined", joined)


@planted(sign="max_visits")
def what_used_up_its_visits_keeps_its_output(patch: Patch) -> None:
    patch.setattr(moves.Moves, "unset", lambda self, step: iter(()))


# -- what rules remember -----------------------------------------------------------------------------------------------


def _succeeds_too(patch: Patch, kind: str) -> None:
    """Have guards satisfied by transitions of a kind, whatever the parts of the step have done."""
    true = monitors.RuleMonitor._events

    def events(self: Any, step: int, transition: Any, outcomes: Any) -> Any:
        found = true(self, step, transition, outcomes)
        came = tuple(number for number, hits in enumerate(self.comes) if step in hits)
        return [(started, came) for started, _ in found] if transition.kind == kind else found

    patch.setattr(monitors.RuleMonitor, "_events", events)


@planted()
def what_was_skipped_succeeded(patch: Patch) -> None:
    _succeeds_too(patch, "skipped")


@planted(sign="fallback")
def what_fell_back_succeeded(patch: Patch) -> None:
    _succeeds_too(patch, "fallback")


@planted()
def what_failed_succeeded(patch: Patch) -> None:
    _succeeds_too(patch, "failed")


def misled(patch: Patch, kind: type[automata.Automaton], method: str, wrong: Callable[..., Any]) -> None:
    """Have the automata of one kind of rule answer wrongly where the checker asks them; the machine has its own.

    `wrong` gets the true method, and what that is asked.
    """
    made = monitors.RuleMonitor.__init__

    def init(self: Any, *asked: Any, **more: Any) -> None:
        made(self, *asked, **more)
        if isinstance(self.automaton, kind):
            setattr(self.automaton, method, partial(wrong, getattr(self.automaton, method)))

    patch.setattr(monitors.RuleMonitor, "__init__", init)


@planted()
def a_stale_guard_stays_fresh(patch: Patch) -> None:
    misled(patch, automata.RequiresAutomaton, "left", lambda true, memory, came, stale: true(memory, came, ()))


@planted()
def what_went_stale_still_stands(patch: Patch) -> None:
    def objection(true: Any, memory: Any, which: Any) -> str | None:
        return None if true(memory, which) == "stale" else true(memory, which)

    misled(patch, automata.RequiresAutomaton, "objection", objection)


@planted()
def what_never_came_is_called_stale(patch: Patch) -> None:
    def objection(true: Any, memory: Any, which: Any) -> str | None:
        return "stale" if true(memory, which) else None

    misled(patch, automata.RequiresAutomaton, "objection", objection)


@planted()
def siblings_come_before_one_another(patch: Patch) -> None:
    true = monitors.RuleMonitor.enter

    def enter(self: Any, step: int, state: Any) -> str | None:
        steps, transitions = self.facts.program.steps, self.facts.flow.transitions
        if isinstance(self.automaton, automata.RequiresAutomaton) and isinstance(steps[step], ParallelStep):
            state = max(self.leave(step, state, transitions[step][0]))
        return true(self, step, state)

    patch.setattr(monitors.RuleMonitor, "enter", enter)


@planted()
def retries_perform_nothing_anew(patch: Patch) -> None:
    patch.setattr(monitors.RuleMonitor, "_is_performed_again", lambda self, hit: False)


@planted()
def two_siblings_are_one_performance(patch: Patch) -> None:
    true = monitors.RuleMonitor.violating_starts

    def violating_starts(self: Any, step: int, state: Any) -> Any:
        is_first = isinstance(self.automaton, automata.AtMostOnceAutomaton) and state == 0
        return [] if is_first else true(self, step, state)

    patch.setattr(monitors.RuleMonitor, "violating_starts", violating_starts)


@planted()
def what_failed_was_not_performed(patch: Patch) -> None:
    true = monitors.RuleMonitor._events

    def events(self: Any, step: int, transition: Any, outcomes: Any) -> Any:
        found = true(self, step, transition, outcomes)
        return [((), came) for _, came in found] if transition.kind == "failed" else found

    patch.setattr(monitors.RuleMonitor, "_events", events)


@planted()
def one_side_of_an_exclusion_is_forgotten(patch: Patch) -> None:
    misled(patch, automata.ExclusiveAutomaton, "started", lambda true, memory, which: true(memory, which) & 1)


@planted()
def a_failed_run_owes_nothing(patch: Patch) -> None:
    true = monitors.RuleMonitor.end

    def end(self: Any, step: int, state: Any, way: Any) -> str | None:
        return true(self, step, state, way) if way.ending.status == "SUCCESS" else None

    patch.setattr(monitors.RuleMonitor, "end", end)


@planted()
def what_never_started_has_followed(patch: Patch) -> None:
    true = monitors.RuleMonitor._events

    def events(self: Any, step: int, transition: Any, outcomes: Any) -> Any:
        started = {one: "fails" if outcome == "unstarted" else outcome for one, outcome in outcomes.items()}
        return true(self, step, transition, started)

    patch.setattr(monitors.RuleMonitor, "_events", events)


@planted()
def a_when_that_cannot_be_read_breaks_nothing(patch: Patch) -> None:
    patch.setattr(system, "HOLDS_OR_FAILS", (0,))


# -- budgets -----------------------------------------------------------------------------------------------------------


@planted(sign="max_visits")
def nobody_uses_up_visits(patch: Patch) -> None:
    true = transition_choices.TransitionChoices.is_possible
    patch.setattr(
        transition_choices.TransitionChoices, "is_possible", lambda *asked: asked[2].kind != "visits" and true(*asked)
    )


@planted(sign="max_visits")
def visits_run_out_one_too_early(patch: Patch) -> None:
    true = counting._Counting.__init__

    def made(self: Any, *given: Any, **named: Any) -> None:
        true(self, *given, **named)
        self.bounds = {step: bound - 1 for step, bound in self.bounds.items()}

    patch.setattr(counting._Counting, "__init__", made)


@planted(sign="max_visits")
def visits_run_out_one_too_late(patch: Patch) -> None:
    true = counting._Counting.__init__

    def made(self: Any, *given: Any, **named: Any) -> None:
        true(self, *given, **named)
        self.bounds = {step: bound + 1 for step, bound in self.bounds.items()}

    patch.setattr(counting._Counting, "__init__", made)


@planted(sign="max_visits")
def used_up_visits_lead_to_the_error_step_for_ever(patch: Patch) -> None:
    true = counting._Counting.leave

    def leave(self: Any, *left: Any) -> Iterator[Any]:
        for after, counts in true(self, *left):
            visits = map(min, zip(counts, self.bounds.values(), strict=False))
            yield after, (*visits, *counts[len(self.bounds) :])

    patch.setattr(counting._Counting, "leave", leave)


@planted(sign="max_steps")
def the_last_step_of_a_budget_is_not_to_be_had(patch: Patch) -> None:
    true = reach._Search._affordable
    patch.setattr(reach._Search, "_affordable", lambda self, path, cost, *more: true(self, path, cost + 1, *more))


@planted(sign="max_steps")
def a_step_costs_its_retries_even_if_it_succeeds(patch: Patch) -> None:
    true = moves.Moves.left

    def left(self: Any, step: Any, way: Any, guards: Any, result: Any, *name: Any) -> Any:
        failed = true(self, step, way, guards, moves.FAILED, "Unexpected")
        return true(self, step, way, guards, result, *name)._replace(cost=failed.cost)

    patch.setattr(moves.Moves, "left", left)


@planted(sign="max_steps")
def sub_steps_cost_twice(patch: Patch) -> None:
    true = moves.Moves._joined

    def joined(self: Any, step: Any, *asked: Any) -> Any:
        found = true(self, step, *asked)
        return found._replace(cost=found.cost + len(step.parallel_steps))

    patch.setattr(moves.Moves, "_joined", joined)


# -- product and slice -------------------------------------------------------------------------------------------------


@planted()
def a_decision_that_matters_is_sliced_away(patch: Patch) -> None:
    true = slicing.next_nodes

    def places(size: int, kept: set[int], targets: Any, before: Any) -> list[int]:
        found = true(size, set(kept), targets, before)
        return [
            next((one for one in targets(node) if one in kept), found[node]) if node not in kept else node
            for node in range(size)
        ]

    patch.setattr(building, "next_nodes", places)


@planted()
def writers_are_sliced_away(patch: Patch) -> None:
    patch.setattr(building.Builder, "_relevant_nodes", lambda self, roots: self.product.bad | {0})


@planted()
def what_a_variable_is_copied_from_is_not_tracked(patch: Patch) -> None:
    patch.setattr(moves.Moves, "closed", lambda self, roots: frozenset(roots))


@planted()
def of_two_ways_to_one_place_the_cheaper_is_kept(patch: Patch) -> None:
    def cheapest(edges: Iterable[Any]) -> list[Any]:
        best: dict[int, Any] = {}
        for edge in edges:
            if edge.target not in best or edge.cost < best[edge.target].cost:
                best[edge.target] = edge
        return list(best.values())

    patch.setattr(building, "_cheapest", cheapest)


@planted()
def what_can_break_a_rule_later_is_pruned(patch: Patch) -> None:
    true = building.Product._prune

    def prune(self: Any) -> None:
        true(self)
        near = {number for bad in self.bad for number in (bad, *self.before[bad])}
        near |= {number for one in set(near) for number in self.before[one]}
        self.alive = bytearray(number in near for number in range(len(self.pairs)))

    patch.setattr(building.Product, "_prune", prune)


@planted()
def a_table_of_conditions_leaves_out_who_writes(patch: Patch) -> None:
    true = dead.InfeasibleBranches._system

    def made(self: Any, conditions: list[int], roots: Any) -> Any:
        found, nodes = true(self, conditions, roots)
        edges = tuple(tuple(edge._replace(assigns=()) for edge in ways) for ways in found.edges)
        return system.System(edges, found.roots, found.inputs), nodes

    patch.setattr(dead.InfeasibleBranches, "_system", made)
