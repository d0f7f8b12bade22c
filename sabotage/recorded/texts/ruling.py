"""What the rules of a program remember: each automaton walks through random events."""

from __future__ import annotations

from random import Random
from typing import Any

from stepward.sabotage.recorded.language.meanings import guarded
from stepward.sabotage.recorded.notes import Notes
from stepward.vm.language.automata import Automaton, Bound, automaton_of, awaited, bound, read_by
from stepward.vm.language.guardrails import AnyRule, plain_rule
from stepward.vm.language.meaning import Meaning
from stepward.vm.language.past import asked_steps, continued
from stepward.vm.language.policy import Policy, plain, require_distinct
from stepward.vm.language.rest import RunSoFar, rest_of
from stepward.vm.language.selectors import matches

EVENTS = 8
ENDINGS = (
    *(("SUCCESS", "declared"), ("FAILED", "declared"), ("FAILED", "error"), ("STALLED", "visits")),
    *(("STALLED", "stalled"), ("CANCELLED", ""), ("SUCCESS", "moved"), ("FAILED", "moved")),
)


def show_rules(notes: Notes, meaning: Meaning, chance: Random) -> None:
    """Note what the automaton of each rule says of random events, and what it leaves for a continuation."""
    for rule in [one for one, _ in meaning.rules] + [one for one, _ in meaning.body_rules]:
        guarded(notes, _rule, notes, rule, meaning, chance)


def _rule(notes: Notes, rule: AnyRule, meaning: Meaning, chance: Random) -> None:
    automaton = automaton_of(rule)
    found = bound(rule, meaning, lambda selector: matches(selector, meaning))
    _bound(notes, found, meaning)
    memory = _walk(notes, automaton, automaton.first, chance)
    assigned = [name for name in sorted(meaning.names.variables) if chance.random() < 0.5]
    later = continued(rule, memory, meaning, assigned)
    notes.add("later", later.to_data(), plain_rule(later).to_data(), asked_steps(rule))
    _walk(notes, automaton_of(later), automaton_of(later).first, chance)


def _bound(notes: Notes, found: Bound, meaning: Meaning) -> None:
    for hits in (*found.starts, *found.comes):
        notes.add([(hit.step, hit.sub, hit.part.id) for hit in hits])
    for guard, hits in zip(found.automaton.comes, found.comes, strict=True):
        notes.add([awaited(guard, hit) for hit in hits], read_by(guard, meaning))
    notes.add(found.stale_by, found.stale_parts, found.automaton.kind, found.automaton.codes)


def _walk(notes: Notes, automaton: Automaton, memory: Any, chance: Random) -> Any:
    """Note what an automaton remembers through random events, and return what it remembers at the end."""

    def some(count: int) -> list[int]:
        return [number for number in range(count) if chance.random() < 0.6]

    rows: list[Any] = []
    for _ in range(EVENTS):
        match chance.choice(("start", "start", "leave", "leave", "fork")):
            case "start":
                which = some(len(automaton.starts))
                rows += ["starts", which, automaton.objection(memory, which)]
                memory = automaton.started(memory, which)
            case "leave":
                succeeded, stale = some(len(automaton.comes)), some(len(automaton.comes))
                memory = automaton.left(memory, succeeded, stale)
            case _:
                memory = _fork(automaton, memory, chance)
        owes = [automaton.owes(memory, *ending) for ending in ENDINGS]
        rows.append((memory, automaton.is_broken(memory), owes))
    notes.add(rows)
    return memory


def _fork(automaton: Automaton, memory: Any, chance: Random) -> Any:
    """Return what is remembered behind two branches, of which one may depend on the other."""
    if automaton.is_shared:
        return memory
    depends = chance.random() < 0.5
    ends = [_inner(automaton, automaton.forked(memory, ()), chance)]
    ends.append(_inner(automaton, automaton.forked(memory, ends if depends else ()), chance))
    if chance.random() < 0.3:
        inner = [_inner(automaton, automaton.forked(ends[1], ()), chance) for _ in range(2)]
        ends[1] = automaton.joined(ends[1], inner, [frozenset(), frozenset()])
    return automaton.joined(memory, ends, [frozenset(), frozenset({0} if depends else ())])


def _inner(automaton: Automaton, memory: Any, chance: Random) -> Any:
    for _ in range(2):
        if automaton.starts and chance.random() < 0.5:
            memory = automaton.started(memory, range(len(automaton.starts)))
        elif automaton.comes and chance.random() < 0.7:
            memory = automaton.left(memory, [0], range(len(automaton.comes)) if chance.random() < 0.5 else ())
    return memory


# -- policies, and rests -----------------------------------------------------------------------------------------------

PATHS = ("flows/pay/wide.json", "wide.json", "a\\wide.yaml", "", "desk/transfer.yaml")


def show_policies(notes: Notes, policies: list[Policy], names: list[str]) -> None:
    """Note to whom policies apply, whom they waive what, and whether they can stand together."""
    guarded(notes, require_distinct, policies)
    for policy in policies:
        notes.add("policy", policy.policy, [policy.applies(name, path) for name in names for path in PATHS])
        notes.add("plain", plain(policy).to_data())
        rules = sorted({*(rule.name for rule in policy.guardrails), *(waiver.rule for waiver in policy.waivers)})
        for name in (*names, *(waiver.program for waiver in policy.waivers[:2])):
            notes.add([one.to_data() for rule in rules for one in policy.waivers_of(name, rule, "allow")])
        for waiver in policy.waivers:
            days = (_day(waiver.expiry, by) for by in (-1, 0, 1))
            notes.add(waiver.expiry, [waiver.is_expired(day) for day in days])


def _day(text: str, by: int) -> Any:
    from datetime import date, timedelta

    return date.fromisoformat(text) + timedelta(days=by)


def show_rest(notes: Notes, meaning: Meaning, chance: Random) -> None:
    """Note what is left of a program once one of its steps was left."""
    program = meaning.program
    names = sorted(meaning.names.variables)
    types = {name: {"type": "number"} for name in names if chance.random() < 0.8}
    types |= {f"{name}.output": {"type": "string"} for name in sorted(meaning.names.outputs) if chance.random() < 0.8}
    step = chance.choice([one.id for one in meaning.flow.steps] + ["nowhere"])
    visits = {one.id: chance.randint(0, 3) for one in meaning.flow.steps if chance.random() < 0.5}
    sources = {name: f"{name}_there" for name in types if chance.random() < 0.2}
    found = rest_of(program, RunSoFar(step, types, visits, sources))
    notes.add("rest", step, found.program.to_data(), found.reads)
