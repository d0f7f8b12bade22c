"""What a program means: its layout, flow, names, types, rules and plan, as everybody who asks is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

from stepward.sabotage.drawn.values import fitting
from stepward.sabotage.recorded.notes import Notes
from stepward.vm.errors import ProgramError, UndefinedReferenceError
from stepward.vm.expressions import inside
from stepward.vm.expressions.evaluator import evaluate
from stepward.vm.expressions.facts import certain_reads, facts, reads
from stepward.vm.expressions.syntax import Expression, all_references
from stepward.vm.language import failures
from stepward.vm.language.guardrails import guards, has_past, protected, requirement_text
from stepward.vm.language.layout import Layout
from stepward.vm.language.meaning import Meaning
from stepward.vm.language.policy import Policy
from stepward.vm.language.program import Program
from stepward.vm.language.required import required
from stepward.vm.language.scopes import crossings, local_names
from stepward.vm.language.selectors import by_step, matches
from stepward.vm.language.steps import ForEachStep, parts
from stepward.vm.language.typecheck import check_expression
from stepward.vm.language.types import TypeSpec
from stepward.vm.machine.plan import Plan
from stepward.vm.values import freeze


def show_program(notes: Notes, program: Program, policies: Sequence[Policy], chance: Random) -> Plan | None:
    """Note what a program means under policies; return its plan, None if it has none."""
    notes.add("program", program.source_name, program.model_budgets, program.kind)
    if chance.random() < 0.2:
        written = program.to_yaml()
        notes.add("again", written, Program.from_yaml(written) == program)
    elif chance.random() < 0.2:
        written = program.to_json()
        notes.add("again", written, Program.from_json(written) == program)
    _layout(notes, program.layout)
    meaning: Meaning = Meaning(program)
    try:
        meaning = Meaning(program, policies)
    except ProgramError as error:
        notes.add_error(error)
    for show in (_flow, _names, _clauses, _facts):
        guarded(notes, show, notes, meaning, chance)
    try:
        plan = Plan(program, policies)
    except ProgramError as error:
        notes.add_error(error)
        return None
    _plan(notes, plan)
    return plan


def guarded(notes: Notes, ask: Callable[..., Any], *args: Any) -> None:
    """Call what shows something, and note the error if there is one."""
    try:
        ask(*args)
    except Exception as error:
        notes.add_error(error)


def tell(notes: Notes, ask: Callable[..., Any], *args: Any) -> None:
    """Ask, and note what comes: a value, or an error."""
    guarded(notes, lambda: notes.add(ask(*args)))


def told_spec(spec: TypeSpec | None) -> Any:
    """Return a type as plain data."""
    return None if spec is None else spec.to_data()


# -- layout and flow ---------------------------------------------------------------------------------------------------


def _layout(notes: Notes, layout: Layout) -> None:
    for number, step in enumerate(layout.steps):
        around = layout.after(number), layout.owner(number), layout.owners_of(number), layout.path(number)
        paths = [layout.path(number, sub) for sub, _ in step.calls], layout.step_at(layout.path(number))
        anatomy = list(step.exits), list(step.targets), list(step.templates), list(step.expressions), list(step.assigns)
        notes.add(number, step.id, step.type, around, paths, anatomy, step.has_output)
    notes.add(layout.bodies, layout.forks, layout.forked, layout.beside, layout.has_siblings, layout.sibling_bodies)
    for number in layout.bodies:
        notes.add("inside", list(layout.inside(number)), layout.rules_path(number), sorted(local_names(layout, number)))


def _flow(notes: Notes, meaning: Meaning, _: Random) -> None:
    flow = meaning.flow
    for number, leaving in enumerate(flow.transitions):
        facts = flow.falls_through(number), flow.is_arm_without_successor(number), flow.predecessors[number]
        notes.add("leaving", number, leaving, [one.is_drawn for one in leaving], facts, flow.successors[number])
        if any(one.kind in ("failed", "skipped") for one in leaving):
            for name in ("Timeout", "Declined"):
                tell(notes, flow.failure, number, name)
    notes.add("flow", flow.arms, flow.ambiguous_arms, flow.has_missing_target)
    for owner in flow.layout.bodies:
        notes.add("gives", flow.gives(owner))
        tell(notes, meaning.most_items, owner)
    notes.add("crossings", list(crossings(meaning.program)), meaning.orders)


# -- names, types, expressions -----------------------------------------------------------------------------------------


def _names(notes: Notes, meaning: Meaning, _: Random) -> None:
    names, typing = meaning.names, meaning.typing
    notes.add("names", names.variables, names.outputs, names.silent, names.listed, names.known())
    sources = [source for found in names.variables.values() for source in found]
    for source in (*sources, *names.outputs.values(), *names.listed.values()):
        for kind in (source.kind, *(("error", "error_name") if source.kind == "output" else ())):
            one = source._replace(kind=kind)
            kinds = told_spec(typing.root_spec(one)), told_spec(typing.effective(one)), required(typing, (one, ()))
            notes.add(one, kinds, typing.copied(one), typing.is_impossible((one, ())))
    for number, _step in enumerate(meaning.flow.steps):
        for path, read in meaning.read_at(number):
            notes.add("read", path, read, meaning.names.meaning(read), meaning.view(read))
    for conflict in typing.conflicts:
        notes.add("conflict", conflict)


def _clauses(notes: Notes, meaning: Meaning, chance: Random) -> None:
    for clause in meaning.clauses:
        notes.add("clause", clause.step, clause.path, clause.text, clause.name, clause.pieces, clause.texts())
        if clause.tree is None:
            notes.add_error(clause.error) if clause.error is not None else None
            continue
        notes.add(clause.place(0, 2), clause.part(1), clause.is_base(0), clause.is_from(1, ("a",)))
        show_tree(notes, clause.tree, chance)
        known = facts(clause.tree, True) if chance.random() < 0.3 else facts(clause.tree, False)
        for before in ({}, {"known": known}):
            condition = clause.is_condition
            notes.add(check_expression(clause.text, clause.tree, meaning, is_condition=condition, **before))
        notes.add(list(_outcomes(clause.tree, meaning, chance)))


def show_tree(notes: Notes, tree: Expression, chance: Random) -> None:
    """Note a tree, what is certain after it, and what is inside of it."""
    notes.add("tree", tree)
    notes.add(facts(tree, True), facts(tree, False), certain_reads(tree), list(reads(tree)))
    name = chance.choice(("a", "total", "[0]", "[]", "x"))
    notes.add(list(inside.leaves(tree, (name,))), list(inside.assigned_paths(tree)), list(inside.asked_parts(tree)))
    notes.add(list(inside.bases(tree)), inside.keeps(tree, (name,)), [one.text() for one in all_references(tree)])


def _outcomes(tree: Expression, meaning: Meaning, chance: Random) -> Iterator[Any]:
    """Yield the values of a tree where names have values of their types, or none."""
    for _ in range(2):
        values: dict[tuple[str, ...], Any] = {}
        for one in all_references(tree):
            found = meaning.names.meaning(one.names)
            spec = None if found is None else meaning.typing.spec((found.sources[0], found.fields))
            values[one.names] = freeze(fitting(spec, chance))
        yield outcome(tree, values, chance.random() < 0.1)


def outcome(tree: Expression, values: dict[tuple[str, ...], Any], lacks_one: bool = False) -> Any:
    """Return the value of a tree, or the error in words."""
    if lacks_one and values:
        del values[next(iter(values))]

    def lookup(names: tuple[str, ...]) -> Any:
        if names not in values:
            raise UndefinedReferenceError(".".join(names))
        return values[names]

    try:
        return evaluate(tree, lookup)
    except Exception as error:
        return error


# -- tools, errors, rules ----------------------------------------------------------------------------------------------


def _facts(notes: Notes, meaning: Meaning, _: Random) -> None:
    notes.add("manifest", {name: spec.to_data() for name, spec in meaning.manifest.items()}, meaning.performed)
    notes.add([(site.step, site.sub, site.call.id, site.path) for site in meaning.calls])
    for step in meaning.flow.steps:
        for _sub, part in parts(step):
            names = failures.names_of(part, meaning.tool), failures.started_names(part, meaning.tool)
            notes.add("fails", part.id, names, failures.unstarted_names(part))
        for _sub, call in step.calls:
            most = failures.most_tries(call, meaning.tool)
            notes.add("tries", call.id, [failures.tries(call, name, meaning.tool) for name in ("Timeout", "x")], most)
        if isinstance(step, ForEachStep):
            notes.add(failures.names_of_items(step, meaning.tool))
    for rule, policy in meaning.rules:
        notes.add("rule", rule.to_data(), policy and policy.policy, has_past(rule))
        for selector in protected(rule):
            found = matches(selector, meaning)
            notes.add(selector.text(), [(one.step, one.sub, one.part.id) for one in found], list(by_step(found)))
        if hasattr(rule, "requires"):
            notes.add(requirement_text(rule.requires), [one.text() for one in guards(rule.requires)])
    notes.add("of bodies", [(rule.name, owner) for rule, owner in meaning.body_rules], meaning.whens)
    for _rule, text in meaning.whens:
        notes.add(meaning.condition(text))


def _plan(notes: Notes, plan: Plan) -> None:
    notes.add("plan", plan.digest, plan.document, plan.max_steps, plan.max_stalled, plan.names_errors)
    for step in plan.steps:
        parts = step.visits, step.max_visits, step.transitions, step.branches, step.failures, step.stalls, step.assigned
        notes.add(step.id, parts, step.computes, told_spec(step.returns), step.order, step.is_in_branch, step.cost)
        for call in step.calls:
            limits = call.attempts, call.timeout, call.deadline, call.is_idempotent, call.may_suspend, call.has_intent
            args = call.arg_types and {name: told_spec(spec) for name, spec in call.arg_types.items()}
            notes.add(call.id, limits, args, told_spec(call.returns), call.errors, call.programs, call.before)
