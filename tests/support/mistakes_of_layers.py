"""Planted mistakes in what the engine makes of conditions, and in each of its layers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from planting import EXPLICIT, FINITE, FORMULA, Patch, planted
from stepward.validator.engine import reach, verdicts
from stepward.validator.engine.search import explicit, finite, transfers
from stepward.validator.engine.smt import encoding, plans
from stepward.validator.engine.systems import liveness, moves, system
from stepward.validator.engine.systems.system import FAILS, NONE_HOLDS, AnyValue, Assign, Computed, Undefined
from stepward.validator.engine.values import classes
from stepward.validator.engine.witnesses import paths
from stepward.validator.findings import Verdict
from stepward.vm.expressions.syntax import Arithmetic

# -- conditions --------------------------------------------------------------------------------------------------------


@planted()
def what_is_not_evaluated_can_fail(patch: Patch) -> None:
    true = classes.Space._logic

    def logic(self: Any, operands: Any, *, decisive: bool) -> Any:
        found = true(self, operands, decisive=decisive)
        fails = found.fails
        for operand in operands:
            fails |= self.outcome(operand).fails
        return classes.Outcome(found.holds & ~fails, fails)

    patch.setattr(classes.Space, "_logic", logic)


@planted(FINITE)
def cases_are_looked_at_last_first(patch: Patch) -> None:
    def outcomes(self: Any, decision: Any) -> dict[int, int]:
        found, left, fails = {}, self.space.all, 0
        for number, tree in reversed(list(enumerate(decision.trees))):
            one = self.space.outcome(tree)
            found[number] = left & one.holds
            fails |= left & one.fails
            left &= ~(one.holds | one.fails)
        return {**found, NONE_HOLDS: left, FAILS: fails}

    patch.setattr(finite.Table, "outcomes", outcomes)


@planted(FINITE)
def a_condition_that_fails_is_false(patch: Patch) -> None:
    true = finite.Table.outcomes

    def outcomes(self: Any, decision: Any) -> dict[int, int]:
        found = dict(true(self, decision))
        return {**found, NONE_HOLDS: found[NONE_HOLDS] | found[FAILS], FAILS: 0}

    patch.setattr(finite.Table, "outcomes", outcomes)


@planted()
def a_missing_then_is_a_missing_otherwise(patch: Patch) -> None:
    true = moves.outcomes
    patch.setattr(moves, "outcomes", lambda step, way: (NONE_HOLDS,) if way.kind == "uncovered" else true(step, way))


@planted(sign="exclusive")
def only_the_first_two_cases_are_held_against_each_other(patch: Patch) -> None:
    true = verdicts.Cases.pairs
    patch.setattr(verdicts.Cases, "pairs", lambda self: (true(self) or [])[:1])


# -- finite abstraction ------------------------------------------------------------------------------------------------


@planted(FINITE)
def what_is_given_keeps_its_class(patch: Patch) -> None:
    true = transfers.Transfers._made
    patch.setattr(
        transfers.Transfers,
        "_made",
        lambda self, root, value: () if isinstance(value, AnyValue) else true(self, root, value),
    )


@planted(FINITE)
def what_is_calculated_keeps_its_class(patch: Patch) -> None:
    true = transfers.Transfers._made

    def made(self: Any, root: Any, value: Any) -> Iterable[Any]:
        is_calculated = isinstance(value, Computed) and isinstance(value.tree, Arithmetic)
        return () if is_calculated else true(self, root, value)

    patch.setattr(transfers.Transfers, "_made", made)


@planted(FINITE)
def a_copy_goes_the_other_way(patch: Patch) -> None:
    true = transfers._copy
    patch.setattr(transfers, "_copy", lambda space, slot, origin: true(space, origin, slot))


@planted(FINITE)
def a_copy_reaches_no_class_but_the_first(patch: Patch) -> None:
    true = transfers._copy

    def made(*asked: Any) -> transfers.Transfer:
        found = true(*asked)
        found.pairs = found.pairs[:1]
        return found

    patch.setattr(transfers, "_copy", made)


@planted(FINITE, sign="max_steps -max_visits")
def every_place_is_looked_at_once(patch: Patch) -> None:
    def reachable(self: Any) -> list[int]:
        reached = [0] * len(self.edges)
        reached[system.ENTRY] = self.first
        rank = finite._ranks(self.system)
        for node in sorted(range(len(self.edges)), key=rank.__getitem__):
            for edge, guard, made in self.edges[node]:
                if edge.target != system.BAD:
                    reached[edge.target] |= finite._image(reached[node] & guard, made)
        return reached

    patch.setattr(finite.Table, "reachable", property(reachable))


@planted(FINITE)
def variables_are_defined_before_all_steps(patch: Patch) -> None:
    patch.setattr(
        finite.Table,
        "first",
        property(lambda self: self.space.possible & ~_undefined_somewhere(self)),
    )


def _undefined_somewhere(table: Any) -> int:
    found = 0
    for slots in table.transfers.below.values():
        found |= table.transfers.undefined(slots)
    return int(found)


# -- explicit search ---------------------------------------------------------------------------------------------------


@planted(EXPLICIT)
def the_last_choice_is_left_out(patch: Patch) -> None:
    true = explicit.Search._combined

    def combined(self: Any, root: Any, given: Any) -> Iterator[Any]:
        found = list(true(self, root, given))
        return iter(found[:-1] if len(found) > 1 else found)

    patch.setattr(explicit.Search, "_combined", combined)


@planted(EXPLICIT)
def what_is_given_keeps_its_value(patch: Patch) -> None:
    true = explicit.Search._block

    def block(self: Any, assign: Assign, env: Any) -> Any:
        old = env.get(assign.root, self._nothing(assign.root))
        return old if isinstance(assign.value, AnyValue) else true(self, assign, env)

    patch.setattr(explicit.Search, "_block", block)


@planted(EXPLICIT)
def a_place_is_visited_once(patch: Patch) -> None:
    true = explicit.Search._state

    def state(self: Any, node: int, env: Any) -> Any:
        found = true(self, node, env)
        return self.__dict__.setdefault("first_at", {}).setdefault(node, found)

    patch.setattr(explicit.Search, "_state", state)


@planted(EXPLICIT)
def an_input_is_not_there(patch: Patch) -> None:
    patch.setattr(explicit.Search, "_first", explicit.Search._nothing)


@planted(EXPLICIT)
def what_is_copied_is_not_live(patch: Patch) -> None:
    true = liveness.Liveness._through

    def through(self: Any, edge: Any) -> Any:
        computed = [one for one in edge.assigns if isinstance(one.value, Computed)]
        kept = tuple(one._replace(value=Undefined()) if one in computed else one for one in edge.assigns)
        return true(self, edge._replace(assigns=kept))

    patch.setattr(liveness.Liveness, "_through", through)


@planted(EXPLICIT)
def a_failing_expression_holds(patch: Patch) -> None:
    true = explicit.Search._outcome
    patch.setattr(explicit.Search, "_outcome", lambda self, *asked: max(true(self, *asked), NONE_HOLDS))


# -- the solver's layers -----------------------------------------------------------------------------------------------


@planted(FORMULA, sign="max_steps -max_visits")
def a_loop_forgets_nothing(patch: Patch) -> None:
    patch.setattr(plans, "_written", lambda *asked: frozenset())


@planted(FORMULA, sign="max_steps -max_visits")
def a_loop_is_cut_although_its_header_does_not_dominate(patch: Patch) -> None:
    patch.setattr(plans, "_redirected", lambda entering: entering)


@planted(FORMULA)
def what_is_given_keeps_its_version(patch: Patch) -> None:
    true = encoding.Encoding._value

    def value(self: Any, assign: Assign, conditions: Any) -> Any:
        old = self.terms.environment.get(assign.root)
        return old if isinstance(assign.value, AnyValue) and old is not None else true(self, assign, conditions)

    patch.setattr(encoding.Encoding, "_value", value)


@planted(FORMULA)
def a_guard_that_fails_is_a_guard_that_does_not_hold(patch: Patch) -> None:
    true = encoding.Encoding._guard

    def guard(self: Any, node: int, one: Any, **more: Any) -> Any:
        return False if one.outcome == FAILS else true(self, node, one, **more)

    patch.setattr(encoding.Encoding, "_guard", guard)


@planted(FORMULA, sign="max_")
def every_candidate_is_believed(patch: Patch) -> None:
    def confirmed(self: Any, path: Any) -> Any:
        last = path.steps[-1].edge.compressed
        found = reach.Evidence(
            path.layer, path=tuple(paths.Traced(self.analyses, self.builder, path, self.engine.witnesses()).moves)
        )
        return reach.PathAnswer(Verdict.VIOLATED, found, last.kind, last.step, path.before)

    patch.setattr(reach._Search, "_confirmed", confirmed)
