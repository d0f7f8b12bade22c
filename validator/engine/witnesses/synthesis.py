"""Witnesses from paths: the simplest inputs and answers with which the machine follows a path, found by running it.

A path gives the outcome of each step and leaves values open. The simplest values of each type are tried first. Where
the run leaves the path at a condition, the values that it reads are varied around the constants that it compares. Every
witness is confirmed by the machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final

from stepward.validator.analysis.product import USED_UP
from stepward.validator.engine.clock import Clock, OutOfTime
from stepward.validator.engine.values.simplest import fitting, simplest
from stepward.validator.engine.witnesses.choices import (
    MAX_TRIES,
    Location,
    Valueless,
    below,
    distinguishing_values,
    few_first,
    parts_of,
    replaced,
    too_long,
    use_types,
    with_equal_changes,
)
from stepward.validator.engine.witnesses.comparing import budget, common, instead, is_recorded, named, spent_after
from stepward.validator.engine.witnesses.late_items import LateItems, as_taken
from stepward.validator.engine.witnesses.lists import lists_of
from stepward.validator.engine.witnesses.origins import START, origins
from stepward.validator.engine.witnesses.replay import Replayed, Replayer, WitnessNotReplayed
from stepward.validator.engine.witnesses.witness import CallAnswer, Claim, Does, Witness, raised, without_waivers
from stepward.validator.findings import Evidence, Move
from stepward.vm.expressions.fields import ITEMS
from stepward.vm.expressions.syntax import walk
from stepward.vm.expressions.template import embedded
from stepward.vm.language.names import Source
from stepward.vm.language.prefixes import own_name
from stepward.vm.language.steps import AnyStep, Call, ComputeStep, ParallelStep, ToolCall
from stepward.vm.language.types import TypeSpec, fits

if TYPE_CHECKING:
    from stepward.validator.analysis.analyses import Analyses
    from stepward.validator.failures import Failures

MAX_RECORDS: Final = 20_000
"""The most records of the machine for all witnesses of one program; later findings have no witness."""

MAX_SPOTS: Final = 6
"""The most sources whose values are varied for one step."""

MAX_LAST: Final = 5_000
"""Records beyond these for the first runs on further paths: a path that knows its values needs no more than one."""

RECORDS_PER_STEP: Final = 20
"""Additional records for each step of the program, because a witness may visit them all."""

MAX_SEARCH: Final = 5_000
"""The records after which the search for one witness stops, without the four for each of its moves."""

MAX_CHOICES: Final = 11
"""The most values that are tried for one source at one step."""

Values = dict[Location, Any]


@dataclass(frozen=True)
class Known:
    """The engine's knowledge about a path: values of inputs, of outputs (by position on the path, and call; numbers and
    errors of items by name), what parts of parallel steps do (by position), names of errors (as outputs), items (by the
    position at which they start), and what siblings of the last call do before it. The rest is tried."""

    inputs: Mapping[str, Any] = field(default_factory=dict)
    outputs: Mapping[tuple[int, str], Any] = field(default_factory=dict)
    turns: Mapping[int, tuple[Does, ...]] = field(default_factory=dict)
    errors: Mapping[tuple[int, str], str] = field(default_factory=dict)
    items: Mapping[int, Any] = field(default_factory=dict)
    started_calls: Mapping[str, Does] = field(default_factory=dict)


@dataclass(frozen=True)
class _Goal:
    """A violation to show; `kind` is its kind in the search."""

    claim: Claim
    kind: str
    path: tuple[Move, ...]
    known: Known = field(default_factory=Known)


class Witnesses:
    """Makes the witnesses of one program's findings, within a common budget."""

    def __init__(self, analyses: Analyses, clock: Clock, failures: Failures) -> None:
        self.facts, self.analyses = analyses.facts, analyses
        self.clock = clock
        self.failures = failures
        self.meaning = analyses.facts.meaning
        self.program = analyses.facts.program
        self.replayer = Replayer(self.program, without_waivers(self.meaning.policies), self.meaning)
        self._firsts: dict[int, tuple[TypeSpec | None, Any]] = {}
        """The simplest value of each type by its id, which is unique while the type is stored."""
        self._known: dict[Source, Any] = {}
        self._tries = 0
        self._is_late = False  # whether late items were tried for the present path
        self._late = LateItems(self.facts, self.replayer, self._replayed)
        self._most = MAX_RECORDS + RECORDS_PER_STEP * len(analyses.facts.flow.steps)
        self._until, self.left_for_items = self._most, MAX_RECORDS  # records of runs with other items: see `failing`

    def evidence(self, claim: Claim, kind: str, path: tuple[Move, ...], layer: str) -> Evidence:
        """Return the evidence for a violation: its path, and the witness if the machine confirms one.

        The search has found the path feasible for any values. When no run confirms it, the evidence says why: checker
        and machine disagree, and one of them is wrong.
        """
        path = tuple(replace(move, error=named(self.facts, path, position)) for position, move in enumerate(path))
        evidence, goal = Evidence(layer, path=path), _Goal(claim, kind, path)
        match self._tried(goal):
            case Witness() as witness:
                return replace(evidence, witness=witness, path=self.replayer.with_errors(path))
            case Replayed() as shown if not self._explained_by_other_findings(shown, goal):
                return replace(evidence, unconfirmed=shown.why)
            case _Unmade(why=why, is_bug=True):
                return replace(evidence, unconfirmed=why)
            case _:
                return evidence

    def confirm(
        self, claim: Claim, kind: str, path: tuple[Move, ...], known: Known, most: int = MAX_SEARCH
    ) -> Witness | str:
        """Return the witness of a path that the machine confirms, or why there is none; `most` are its records."""
        match self._tried(_Goal(claim, kind, path, known), most):
            case Witness() as witness:
                return witness
            case Replayed() as shown:
                return instead(self.analyses, shown, path)
            case _Unmade(why=why):
                return why

    def spent_on_items(self, records: int) -> None:
        """Note the records of runs with other items, which have an allowance of their own."""
        self._most, self.left_for_items = self._most + records, self.left_for_items - records

    def _tried(self, goal: _Goal, most: int = MAX_SEARCH) -> Witness | Replayed | _Unmade:
        """Return a witness, or the first run that showed nothing, or why no run was made."""
        self._tries, self._is_late, self.taken = 0, False, goal.path
        self._until = min(self._most, self.replayer.steps + most + 4 * len(goal.path))
        try:
            if self.replayer.steps <= self._most + MAX_LAST:
                return self._shown(goal) or _Unmade("nothing was found for its parallel steps to do")
            return _Unmade(f"the runs that were tried for this program have {self._most} records, and no more are made")
        except OutOfTime:
            raise
        except Valueless as error:  # without values there is no run, and no disagreement
            return _Unmade(str(error))
        except WitnessNotReplayed as error:
            return _Unmade(f"the machine does not start it: {error}")
        except Exception as error:
            # The finding remains valid if its replay fails; an exception in the machine is reported as a bug.
            return _Unmade(f"the machine broke in a replay ({type(error).__name__}: {error})", is_bug=True)

    def _shown(self, goal: _Goal) -> Witness | Replayed | None:
        """Return a witness that the machine confirms, or the first and simplest run."""
        first: Replayed | None = None
        for turns in self._turns(goal):
            result = self._valued(goal, turns)
            if isinstance(result, Witness):
                return result
            first = first or result
            if self._tries >= MAX_TRIES or self.replayer.steps > self._until:
                break
        return first

    def _explained_by_other_findings(self, shown: Replayed, goal: _Goal) -> bool:
        """Whether other findings explain why the run stopped early.

        Either a step could not start although nothing was undefined, or with arguments that its tool never accepts
        (SW203, SW207, SW208 and others report that), or the same rule is broken earlier on the path: the machine stops
        there.
        """
        for blocked in shown.unstarted:
            if blocked.rule == "sensitive-to-model":
                return True
            if not blocked.rule and not ("is undefined" in blocked.why and self._fits(blocked.step)):
                return True
        return bool(shown.moves) and shown.moves[-1] != goal.path[-1] and self._is_stopped_by(shown, goal.claim)

    def _replayed(self, witness: Witness) -> Replayed:
        """Replay a witness, which is bounded by its own budget; OutOfTime is raised before it, never inside of it."""
        self.clock.check()
        return self.failures.spared(lambda: self.replayer.replay(witness))

    def _fits(self, step: str) -> bool:
        """Whether a step or sub-step passes arguments that its tool accepts; true for steps without calls."""
        return all(self.analyses.arguments_fit(site.step) for site in self.meaning.calls if site.call.id == step)

    @staticmethod
    def _is_stopped_by(shown: Replayed, claim: Claim) -> bool:
        """Return whether the machine has stopped a run because of the rule of a claim."""
        if shown.run.reason != "guardrail":
            return False
        return own_name(shown.unstarted[-1].rule) == own_name(claim.rule or "")  # it may be that of another call

    # -- values --------------------------------------------------------------------------------------------------------

    def _valued(self, goal: _Goal, turns: _Turns) -> Witness | Replayed | None:
        """Try values: the simplest, then others where the run leaves the path, as long as the run gets further."""
        values: Values = {}
        best = self._try(goal, turns, values)
        first = best
        while not isinstance(best, Witness):
            further = self._further(goal, turns, values, best)
            if further is None:
                return first
            best, values = further
        return best

    def _further(
        self, goal: _Goal, turns: _Turns, values: Values, best: Replayed
    ) -> tuple[Witness | Replayed, Values] | None:
        reached = len(common(best.moves, goal.path))
        if reached >= len(goal.path):
            return None
        number = self.facts.flow.position[goal.path[reached].step]
        locations = self._locations(number)
        choices = [[_AS_IS, *self._choices(location, number)] for location in locations]
        for combination in islice(with_equal_changes(choices), MAX_TRIES):
            if self._tries >= MAX_TRIES or self.replayer.steps > self._until:
                return None
            changed = values | {
                location: value for location, value in zip(locations, combination, strict=True) if value is not _AS_IS
            }
            result = self._try(goal, turns, changed)
            if isinstance(result, Witness) or len(common(result.moves, goal.path)) > reached:
                return result, changed
        return None

    def _locations(self, number: int) -> list[Location]:
        """Return the sources of the values that a step reads, with `set` names followed to their origins."""
        locations: dict[Location, None] = {}
        for reading in self.analyses.assignment.readings_at(number):
            for location in origins(self.facts, reading.resolution):
                locations[location] = None
                if len(locations) == MAX_SPOTS:
                    return list(locations)
        return list(locations)

    def _choices(self, location: Location, number: int) -> Iterator[Any]:
        """Yield the values to try for a source, given the constants and types of one step."""
        spec = below(self.meaning.typing.effective(location[0]), location[1])
        return islice(fitting(self._tried_at(location, number, spec), spec), MAX_CHOICES)

    def _tried_at(self, location: Location, number: int, spec: TypeSpec | None) -> Iterator[Any]:
        trees = [clause.tree for clause in self.meaning.clauses_of.get(number, ()) if clause.tree is not None]
        yield from distinguishing_values(trees)
        yield from chain.from_iterable(map(simplest, use_types(self.facts.flow.steps[number], location, self.meaning)))
        yield from simplest(spec)
        yield from too_long(trees)

    def _value(self, source: Source, values: Values) -> Any:
        """Return the value of an input or an output: the simplest, with the varied fields replaced."""
        return self._changed(self.plain(source), source, values)

    def _changed(self, result: Any, source: Source, values: Values) -> Any:
        spec = self.meaning.typing.effective(source)
        for (owner, fields), value in values.items():
            if owner == source:
                changed = replaced(result, fields, value)
                if fits(changed, spec):
                    result = changed
        return result

    def varied(self, source: Source, number: int) -> Iterator[Any]:
        """Yield other values of an output that a condition at a step may distinguish from the simplest one."""
        result, spec = self.plain(source), self.meaning.typing.effective(source)
        for location in self._locations(number):
            if location[0] == source:
                for value in self._choices(location, number):
                    changed = replaced(result, location[1], value)
                    if changed != result and fits(changed, spec):
                        yield changed

    def plain(self, source: Source) -> Any:
        """Return the default value for an input or an output; raises Valueless."""
        if source not in self._known:
            spec = self.meaning.typing.effective(source)
            passed_types = self._wanted.get(source, [])
            try:
                self._known[source] = self._wished(spec, passed_types) if passed_types else self._first(spec)
            except Valueless:
                raise Valueless(f"no value was found for the type of `{source.name}`") from None
        return self._known[source]

    def _first(self, spec: TypeSpec | None) -> Any:
        """Return the simplest value of a type, cached because many calls share a type."""
        if id(spec) not in self._firsts:
            values = simplest(spec)
            if not values:
                raise Valueless
            self._firsts[id(spec)] = spec, values[0]
        return self._firsts[id(spec)][1]

    def _wished(self, spec: TypeSpec | None, passed_types: list[TypeSpec]) -> Any:
        """Return the simplest value of a type that also belongs to other types, if there is one."""
        good = (value for value in simplest(spec) if all(fits(value, one) for one in passed_types))
        others = fitting((value for one in passed_types for value in simplest(one)), spec)
        better = (value for value in others if all(fits(value, one) for one in passed_types))
        value_found = next(chain(good, better), _AS_IS)
        return self._first(spec) if value_found is _AS_IS else value_found

    @cached_property
    def _wanted(self) -> dict[Source, list[TypeSpec]]:
        """The types of the arguments that each input or output is passed to unchanged."""
        result: dict[Source, list[TypeSpec]] = {}
        for site in self.meaning.calls:
            if not isinstance(site.call, ToolCall):
                continue
            for name, spec in (self.meaning.tool(site.call.tool).args or {}).items():
                for part in embedded(site.call.args.get(name)):
                    resolution = self.meaning.names.meaning(part.reference.names)
                    if part.whole and not part.path and resolution is not None and not resolution.fields:
                        for source in resolution.sources:
                            result.setdefault(source, []).append(spec)
        return result

    # -- outcomes of steps --------------------------------------------------------------------------------------------

    def _turns(self, goal: _Goal) -> Iterator[_Turns]:
        """Yield behaviours of the parts of the parallel steps on a path, the simplest first."""
        positions: list[int] = []
        choices: list[list[Any]] = []
        for position, move in enumerate(goal.path):
            step = self._step(move)
            is_last = position == len(goal.path) - 1
            if isinstance(step, ParallelStep) and (move.how != "starts" or (is_last and goal.kind == "retried")):
                positions.append(position)
                if position in goal.known.turns:
                    choices.append([goal.known.turns[position]])
                    continue
                choices.append(list(parts_of(step, "fails" if move.how == "starts" else move.how)))
        for combination in islice(few_first(choices), MAX_TRIES):
            yield dict(zip(positions, combination, strict=True))

    def _step(self, move: Move) -> AnyStep:
        return self.facts.flow.steps[self.facts.flow.position[move.step]]

    def _script(self, goal: _Goal, turns: _Turns, value_at: _ValueAt) -> Iterator[tuple[int, CallAnswer]]:
        """Yield the answers on a path, each with its position there."""
        visits: Counter[str] = Counter()
        calling = [(position, move) for position, move in enumerate(goal.path) if move.how != USED_UP]
        for position, move in calling:
            visits[move.step] += 1
            step, visit = self._step(move), visits[move.step]
            if isinstance(step, ParallelStep):
                for part, does in zip(step.parallel_steps, turns.get(position, ()), strict=False):
                    yield position, self._answer(goal, position, part, visit, does, value_at)
            elif isinstance(step, Call):
                is_retried = move.how == "starts" and goal.kind == "retried"
                if is_retried or move.how != "starts":
                    does = "fails" if is_retried else _DOES[move.how]
                    yield position, self._answer(goal, position, step, visit, does, value_at)

    def _answer(self, goal: _Goal, position: int, call: Call, visit: int, does: Does, value_at: _ValueAt) -> CallAnswer:
        error = ""
        if does == "fails" and self.facts.failing.has_names:
            does, error = raised(self._error(goal, position, call))
        value = value_at(position, self.meaning.names.outputs[call.id]) if does == "returns" else None
        return CallAnswer(call.id, visit, does, value, error=error)

    def _error(self, goal: _Goal, position: int, call: Call) -> str:
        """Return the name of the error with which a call of a path fails; empty where any will do."""
        failing, path = self.facts.failing, goal.path
        known = goal.known.errors.get((position, call.id))
        if known is None and path[position].how == "starts":
            return failing.retried(call) or ""
        known = named(self.facts, path, position) if known is None else known
        return known if known in failing.started(call) else ""

    # -- a try ---------------------------------------------------------------------------------------------------------

    def _try(self, goal: _Goal, turns: _Turns, values: Values) -> Witness | Replayed:
        self._tries += 1
        value_at = self._value_at(goal, values)
        answers = list(self._script(goal, turns, value_at))
        witness = Witness(
            goal.claim,
            self.program,
            self.replayer.policies,
            {source.name: value_at(START, source) for source in self.inputs},
            tuple(answer for _, answer in answers),
            budget(len(self.facts.flow.steps), (self._step(move) for move in goal.path)),
        )
        witness, replayed = self._with_siblings(goal, witness, value_at)
        if not replayed.confirmed and not self._is_late:
            self._is_late, steps_before = True, self.replayer.steps
            plain = lambda call: self._value(self.meaning.names.outputs[call.id], values)  # noqa: E731 - it is short
            if (late := self._late.shown(goal.path, witness, answers, plain)) is not None:
                (witness, replayed), self.taken = late, as_taken(late[1].moves, goal.path)
            used = self.replayer.steps - steps_before  # these runs have an allowance of their own
            self._most, self._until = self._most + used, self._until + used
        if goal.kind == "missing" and goal.path[-1].how == "starts" and not replayed.confirmed:
            # Only a run that is stopped ends here, for example by its budget.
            spent = spent_after(replayed, sum(is_recorded(self.facts, move) for move in goal.path[:-1]))
            if spent:
                witness = replace(witness, max_steps=spent)
                replayed = self._replayed(witness)
        return self._computed(witness, replayed) if replayed.confirmed else replayed

    def _computed(self, witness: Witness, replayed: Replayed) -> Witness:
        """Return a witness that supposes nothing of `compute` steps, if the machine confirms the same run without."""
        computing = {step.id for step in self.facts.flow.steps if isinstance(step, ComputeStep)}
        script = tuple(answer for answer in witness.script if answer.step not in computing)
        if len(script) == len(witness.script):
            return witness
        plain = replace(witness, script=script)
        repeated = self._replayed(plain)
        return plain if repeated.confirmed and repeated.moves == replayed.moves else witness

    def _with_siblings(self, goal: _Goal, witness: Witness, value_at: _ValueAt) -> tuple[Witness, Replayed]:
        """Replay a witness; where other parts of its last step start beside the rejected one, they return."""
        replayed = self._replayed(witness)
        last = self._step(goal.path[-1])
        parts = {part.id: part for part in last.sub_steps}
        while not replayed.confirmed and replayed.missing is not None and replayed.missing[0] in parts:
            name, visit, _ = replayed.missing
            part, does = parts.pop(name), goal.known.started_calls.get(name, "returns")
            value = value_at(len(goal.path) - 1, self.meaning.names.outputs[part.id]) if does == "returns" else None
            witness = replace(witness, script=(*witness.script, CallAnswer(name, visit, does, value)))
            replayed = self._replayed(witness)
        return witness, replayed

    def _value_at(self, goal: _Goal, values: Values) -> _ValueAt:
        """Return the function that says the value of an input or an answer at a place: what the path knows, else the
        simplest one with the varied fields, with lists of the length of the path."""
        of_items = {location: value for location, value in values.items() if ITEMS in location[1]}
        of_wholes = {location: value for location, value in values.items() if location not in of_items}

        def known_value(position: int, source: Source) -> Any:
            known = goal.known.inputs if position == START else goal.known.outputs
            key: Any = source.name if position == START else (position, source.name)
            return known[key] if key in known else self._value(source, of_wholes)

        lists = lists_of(self.facts, goal.path, goal.known.items, known_value, self._first)

        def value_at(position: int, source: Source) -> Any:
            slot = (position, source)
            # Fields of items come last: a list whose items have no type is made of plain ones, and would lose them.
            return self._changed(lists[slot] if slot in lists else known_value(*slot), source, of_items)

        return value_at

    @cached_property
    def inputs(self) -> tuple[Source, ...]:
        """The inputs that need a value: one with a default keeps it, unless a path needs another value."""
        if self.program.inputs is not None:
            return tuple(Source("input", name, ("inputs", name)) for name in self.program.inputs)
        sources: dict[Source, None] = {}
        for reading in self.analyses.assignment.readings:
            for source in reading.resolution.sources if reading.resolution is not None else ():
                if source.kind == "input":
                    sources[source] = None
        for clause in self.meaning.clauses:
            for node in walk(clause.tree) if clause.tree is not None else ():
                reference = getattr(node, "reference", None)
                resolution = self.meaning.names.meaning(reference.names) if reference is not None else None
                for source in resolution.sources if resolution is not None else ():
                    if source.kind == "input":
                        sources[source] = None
        return tuple(sources)


_ValueAt = Callable[[int, Source], Any]
"""Returns the value at a place: the position of an answer on a path, START for an input, and its source."""

_Turns = dict[int, tuple[Does, ...]]
"""The behaviours of the sub-steps of a parallel step, by position on the path."""


@dataclass(frozen=True)
class _Unmade:
    """The reason why no run was made; `is_bug` says that the machine failed."""

    why: str
    is_bug: bool = False


_AS_IS: Final = object()
_DOES: Final[Mapping[str, Does]] = {
    "succeeds": "returns",
    "fails": "fails",
    "fails, skipped": "fails",
    "times out, fallback": "times out",
}
