"""The truth about a small program: every run it can have, one after the other, written from the language's text alone.

Nothing is proved here and nothing is clever: a state is the step, the values of all variables that are read anywhere,
the visits of bounded steps and what every guardrail remembers, and every choice of inputs, replies, outputs and
failures is taken. It shares no code with the checker and none with the machine.

A continuation has `performed`: the writes of the runs before, each with its tool and arguments, which are refused. Of
arguments that are None nobody knows whether a call repeats them, so that each call of the tool may be refused.

What does not matter is left out: values that nothing reads, and attempts beyond the cheapest that lead to an outcome,
for a run that has spent less of `max_steps` can do whatever one can that has spent more. A rule is judged on all runs,
also on those that broke it, or another, before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import product
from typing import Any

from brute_fields import readers_of, variables_of
from brute_order import needs_of, orders, outcomes
from brute_program import (
    END,
    MAX_MOVES,
    MAX_STATES,
    Call,
    Event,
    Fate,
    Move,
    Names,
    Rule,
    Truth,
    WayOut,
    arm_targets,
    cases_of,
    caught_by,
    moves_from,
    outputs_of,
    size_of,
    status_of,
    surely,
    takes,
)
from small_language import (
    GONE,
    REFERENCE,
    NotSmallError,
    Unreadable,
    Values,
    compiled,
    domain,
    parsed,
    reference,
)


def truth(program: dict[str, Any], *, blind: bool = False) -> Truth:
    """Return what happens on some run; with `blind` every condition may take any branch, and nothing is undefined."""
    if any(step["type"] == "for_each" for step in program["steps"]):
        from brute_bodies import truth_of_bodies

        return truth_of_bodies(program)
    return Search(program, blind=blind).run()


class Search:
    def __init__(self, program: dict[str, Any], *, blind: bool) -> None:
        if "max_stalled_steps" in program:
            raise NotSmallError("stalled steps are not counted here")
        self.program, self.blind = program, blind
        self.steps: list[dict[str, Any]] = program["steps"]
        self.position = {step["id"]: number for number, step in enumerate(self.steps)}
        self.names = Names(program, blind=blind)
        self.rules = [Rule(rule, program, self.names) for rule in program.get("guardrails", ())]
        self.truth = Truth({rule.name: set() for rule in self.rules})
        self.arms = {target for step in self.steps for target in arm_targets(step)}
        self.successor = [self._successor(number, step) for number, step in enumerate(self.steps)]
        self.bounds = {number: step["max_visits"] for number, step in enumerate(self.steps) if "max_visits" in step}
        self.counter = {number: place for place, number in enumerate(self.bounds)}
        self.asking = {
            number
            for number, step in enumerate(self.steps)
            if any(part["type"] == "llm" for part in (step, *step.get("parallel_steps", ())))
        }
        self.cost = [1 + len(step.get("parallel_steps", ())) for step in self.steps]
        self.calls = [self._calls(step) for step in self.steps]
        self.readers = [self._readers(step) for step in self.steps]
        self.whens = [
            (rule, compiled(parsed(rule.rule["when"]), self.names.where) if "when" in rule.rule and not blind else None)
            for rule in self.rules
            if "never" in rule.rule
        ]
        self.known_moves: list[dict[Values, list[Move]]] = [{} for _ in self.steps]
        self.known_ways: list[dict[Any, list[WayOut]]] = [{} for _ in self.steps]
        self.seen_by: dict[tuple[tuple[Any, ...], Event], tuple[tuple[Any, ...], list[tuple[str, str, int]]]] = {}

    def _successor(self, number: int, step: dict[str, Any]) -> tuple[int, str]:
        if "next_step" in step:
            return self.position[step["next_step"]], ""
        if step.get("is_terminal") or step["id"] in self.arms or number + 1 == len(self.steps):
            return END, "FAILED" if step.get("outcome") == "failure" else "SUCCESS"
        return number + 1, ""

    def _calls(self, step: dict[str, Any]) -> list[Call]:
        parts = step.get("parallel_steps") or ([step] if step["type"] in ("llm", "tool", "compute") else [])
        return [Call(part, self.program, self.names, blind=self.blind) for part in parts]

    def _readers(self, step: dict[str, Any]) -> list[Any]:
        """Return the compiled expressions of a step; a text of `set` is one, any other value stands for itself."""
        if self.blind:
            return []
        if step["type"] == "condition":
            return [compiled(parsed(case["when"]), self.names.where) for case in cases_of(step)]
        if step["type"] == "set":
            return readers_of(step, self.names.where)
        said = [step[name] for name in ("seconds", "until", "output") if isinstance(step.get(name), str)]
        return [reference(text, self.names.where) for one in said for text in REFERENCE.findall(one)]

    # -- states --------------------------------------------------------------------------------------------------------

    def run(self) -> Truth:
        """Visit every state, those first that have spent least."""
        limit = self.program.get("max_steps")
        levels: list[list[Any]] = [[] for _ in range((limit or 0) + 1)]
        # What a reply takes is the model's to say: after one, `max_tokens` or `max_cost` may be used up. Counted last.
        levels[0] = [self._begin(values) for values in self._starts()]
        seen = set()
        for spent, level in enumerate(levels):
            while level:
                state = level.pop()
                if state in seen:
                    continue
                seen.add(state)
                if len(seen) > MAX_STATES:
                    raise NotSmallError(f"more than {MAX_STATES} states")
                for cost, following in self._following(state, spent, limit):
                    if following not in seen:
                        levels[spent + cost if limit is not None else 0].append(following)
        return self._finished(len(seen))

    def _begin(self, values: Values) -> Any:
        return (0, values, (0,) * (len(self.bounds) + 1), tuple(rule.start for rule in self.rules))

    def _starts(self) -> Iterator[Values]:
        empty = [GONE] * len(self.names.slots)
        read = [
            (self.names.slots[name], self._values_of(spec)) for name, spec in self._inputs() if name in self.names.slots
        ]
        for choice in product(*(values for _, values in read)):
            start = list(empty)
            for (slot, _), value in zip(read, choice, strict=True):
                start[slot] = value
            yield tuple(start)

    def _inputs(self) -> Iterable[tuple[str, dict[str, Any]]]:
        return self.program.get("inputs", {}).items()

    def _values_of(self, spec: dict[str, Any]) -> tuple[Any, ...]:
        return domain(spec)

    def _following(self, state: Any, spent: int, limit: int | None) -> Iterator[tuple[int, Any]]:
        number, values, visits, memory = state
        step = self.steps[number]
        self._stopped(step, memory, is_cancelled="timeout_seconds" not in self.program)
        if number in self.bounds:
            place = self.counter[number]
            count = visits[place]
            visits = (*visits[:place], count + 1, *visits[place + 1 :])
            if count >= self.bounds[number]:
                move = self._passed(number, step, values, first=count == self.bounds[number])
                yield from self._taken(move, visits, memory, spent, limit)
                return
        if limit is not None and spent + self.cost[number] > limit:
            self._stopped(step, memory, is_cancelled=False)
            return
        if number in self.asking and self.program.keys() & {"max_tokens", "max_cost"}:
            if visits[-1]:
                self._stopped(step, memory, is_cancelled=False)
            visits = (*visits[:-1], 1)
        self.truth.reached.add(step["id"])
        moves = self.known_moves[number].get(values)
        if moves is None:
            moves = self.known_moves[number][values] = list(dict.fromkeys(self._moves(number, step, values)))
        for move in moves:
            yield from self._taken(move, visits, memory, spent, limit)

    def _stopped(self, step: dict[str, Any], memory: tuple[Any, ...], *, is_cancelled: bool) -> None:
        """Judge a run that is cancelled, or out of budget, before a step."""
        for place, rule in self.owing:
            if rule.owes_when_cancelled(memory[place]):
                parts = {part["id"] for part in (step, *step.get("parallel_steps", ()))}
                code = "SW405 between" if is_cancelled and parts & rule.second else "SW405"
                self.truth.broken[rule.name].add((code, step["id"]))

    @cached_property
    def owing(self) -> list[tuple[int, Rule]]:
        """The rules that a run can break by being cancelled, with their places."""
        return [(place, rule) for place, rule in enumerate(self.rules) if rule.counts_cancelled]

    def _taken(
        self, move: Move, visits: tuple[int, ...], memory: tuple[Any, ...], spent: int, limit: int | None
    ) -> Iterator[tuple[int, Any]]:
        after, broken = self._told(memory, move.event)
        is_affordable = limit is None or spent + move.cost <= limit
        for rule, code, extra in broken:
            # A missing follow-up is one of the ending, all others are of the start.
            in_time = limit is None or spent + self.cost[move.event.step] + extra <= limit
            if is_affordable if code == "SW405" else in_time:
                self.truth.broken[rule].add((code, self.steps[move.event.step]["id"]))
        if move.to != END and is_affordable:
            yield move.cost, (move.to, move.values, visits, after)

    def _told(self, memory: tuple[Any, ...], event: Event) -> tuple[tuple[Any, ...], list[tuple[str, str, int]]]:
        """Return what rules remember after an event, and what it breaks. Many runs have the same one: it is kept."""
        key = (memory, event)
        if key not in self.seen_by:
            self.seen_by[key] = self._seen(memory, event)
        return self.seen_by[key]

    def _seen(self, memory: tuple[Any, ...], event: Event) -> tuple[tuple[Any, ...], list[tuple[str, str, int]]]:
        seen = [rule.sees(held, event) for rule, held in zip(self.rules, memory, strict=True)]
        broken = [(rule.name, code, extra) for rule, (_, code, extra) in zip(self.rules, seen, strict=True) if code]
        return tuple(after for after, _, _ in seen), broken

    def _finished(self, states: int) -> Truth:
        found = self.truth
        found.states = states
        found.unreached = self._on_edges() - found.reached
        for rule, places in found.broken.items():
            places.difference_update([("SW402", step) for code, step in places if code == "SW401"])
            found.debatable[rule] = {(code.split()[0], step) for code, step in places if " " in code}
            found.debatable[rule] -= places
            places.difference_update([place for place in places if " " in place[0]])
        for step in self.steps:
            if step["id"] in found.taken:
                numbers = set(range(1, len(step["cases"]) + 1))
                found.shadowed |= {(step["id"], number) for number in numbers - found.taken[step["id"]]}
        return found

    def _on_edges(self) -> set[str]:
        """Return the steps to which edges lead from the first one, whatever conditions say."""
        found, pending = set(), [0]
        while pending:
            number = pending.pop()
            step = self.steps[number]
            if step["id"] in found:
                continue
            found.add(step["id"])
            pending += [self.position[target] for target in arm_targets(step)]
            if step["type"] not in ("condition", "end") and self.successor[number][0] != END:
                pending.append(self.successor[number][0])
        return found

    # -- one visit -----------------------------------------------------------------------------------------------------

    def _passed(self, number: int, step: dict[str, Any], values: Values, *, first: bool) -> Move:
        """A visit too many: the outputs become undefined, and control goes to the error step, once."""
        target = caught_by(step, "Visits")
        if target is None or not first:
            return Move(END, values, Event(number, ending="STALLED"), 0, "Visits")
        after = list(values)
        for call in self.calls[number]:
            call.bind(after, Fate("failed", name="Visits"))
        self._leave_whole(step, after, "failed", "Visits")
        event = Event(number, assigned=self._assigned(number, step))
        return Move(self.position[target], tuple(after), event, 0)

    def _moves(self, number: int, step: dict[str, Any], values: Values) -> Iterator[Move]:
        if step["type"] in ("condition", "set", "end"):
            self._forbid(number, [(step["id"], ())], values)
            event = Event(number, (step["id"],))
            if self.blind:
                yield from self._any_branch(number, step, values, event)
            else:
                yield self._simple(number, step, values, event)
            return
        if step["type"] == "wait":
            yield from self._waited(number, step, values)
            return
        if needs_of(step):
            yield from self._in_order(number, step, values)
            return
        for chosen in product(*(list(self._choices(call, values)) for call in self.calls[number])):
            calls = zip(self.calls[number], chosen, strict=True)
            started = [(call.id, call.arguments(values)) for call, fates in calls if fates[0].started]
            if step["type"] == "parallel":
                started.append((step["id"], ()))
            self._forbid(number, started, values)
            yield from self._performed(number, step, values, chosen, tuple(part for part, _ in started))

    def _choices(self, call: Call, values: Values) -> Iterator[list[Fate]]:
        """Yield what may become of a call, apart if it starts, and if it does not."""
        missing = call.undefined(values)
        self.truth.undefined |= {(call.id, text) for text in missing}
        not_started = Fate("skipped" if call.skips else "failed", started=False)
        if missing:
            yield [not_started._replace(name="Undefined")]
            return
        refused = call.is_refused(values)
        if refused is not True:
            yield call.fates
        if refused is not False:
            yield [not_started._replace(name="Refused")]

    def _forbid(self, number: int, started: list[tuple[str, tuple[tuple[str, Any], ...]]], values: Values) -> None:
        """Judge the `never` rules where parts start: in the state before the step, with the arguments of each."""
        for rule, when in self.whens:
            for part, arguments in started:
                if part not in rule.first:
                    continue
                try:
                    is_broken = when is None or when((*values, arguments))
                except Unreadable:
                    is_broken = True
                if is_broken:
                    self.truth.broken[rule.name].add(("SW403", self.steps[number]["id"]))

    def _waited(self, number: int, step: dict[str, Any], values: Values) -> Iterator[Move]:
        """A wait: what it reads may be no time, a constant is one."""
        self._forbid(number, [(step["id"], ())], values)
        event = Event(number, (step["id"],))
        try:
            for read in self.readers[number]:
                read(values)
        except Unreadable as why:
            self.truth.undefined.add((step["id"], why.reference or ""))
            yield Move(END, values, event._replace(ending="FAILED"), 1, "Undefined")
            return
        to, ending = self.successor[number]
        yield Move(to, values, event._replace(succeeded=event.started, ending=ending), 1)
        if self.readers[number]:
            yield Move(END, values, event._replace(ending="FAILED"), 1, "BadValue")

    def _simple(self, number: int, step: dict[str, Any], values: Values, event: Event) -> Move:
        """A condition, `set` or `end`: one that can't be evaluated ends the run."""
        try:
            if step["type"] == "condition":
                return self._choose(number, step, values, event)
            held = [read(values) if callable(read) else read for read in self.readers[number]]
        except Unreadable as why:
            if why.reference is not None:
                self.truth.undefined.add((step["id"], why.reference))
            name = "BadValue" if why.reference is None else "Undefined"
            return Move(END, values, event._replace(ending="FAILED"), 1, name)
        if step["type"] == "end":
            return Move(END, values, event._replace(ending=status_of(step)), 1)
        return self._assign(number, step, values, event, held)

    def _assign(self, number: int, step: dict[str, Any], values: Values, event: Event, new: list[Any]) -> Move:
        after = list(values)
        for name, value in zip(variables_of(step), new, strict=False):
            if name in self.names.slots:
                after[self.names.slots[name]] = value
        to, ending = self.successor[number]
        event = event._replace(succeeded=event.started, assigned=frozenset(variables_of(step)), ending=ending)
        return Move(to, tuple(after), event, 1)

    def _choose(self, number: int, step: dict[str, Any], values: Values, event: Event) -> Move:
        name, cases = step["id"], cases_of(step)
        taken = 0
        for place, read in enumerate(self.readers[number], start=1):
            held = read(values)
            if held is not True and held is not False:
                raise Unreadable(None)
            if held:
                taken = place
                break
        if "cases" in step:
            self.truth.taken.setdefault(name, set()).update([taken] if taken else [])
        else:
            self.truth.values.setdefault(name, set()).add(bool(taken))
        if step.get("exclusive") and sum(surely(read, values) for read in self.readers[number]) > 1:
            self.truth.overlapping.add(name)
        labels: tuple[Any, ...] = ("otherwise",)
        if taken:
            case = cases[taken - 1]
            labels = ("then",) if "cases" not in step else (taken, *([case["name"]] if "name" in case else []))
        return self._branch(number, values, event, cases[taken - 1]["then"] if taken else step.get("otherwise"), labels)

    def _branch(self, number: int, values: Values, event: Event, target: str | None, labels: tuple[Any, ...]) -> Move:
        if target is None:
            self.truth.uncovered.add(self.steps[number]["id"])
            return Move(END, values, event._replace(ending="FAILED"), 1, "Uncovered")
        event = event._replace(succeeded=event.started, branch=labels)
        return Move(self.position[target], values, event, 1)

    def _any_branch(self, number: int, step: dict[str, Any], values: Values, event: Event) -> Iterator[Move]:
        """Every way out of a step whose expressions nobody looks at."""
        if step["type"] == "set":
            yield self._assign(number, step, values, event, [])
        elif step["type"] == "end":
            yield Move(END, values, event._replace(ending=status_of(step)), 1)
        else:
            for place, case in enumerate(cases_of(step), start=1):
                labels = (place, case.get("name")) if "cases" in step else ("then",)
                yield self._branch(number, values, event, case["then"], labels)
            yield self._branch(number, values, event, step.get("otherwise"), ("otherwise",))

    # -- calls ---------------------------------------------------------------------------------------------------------

    def _performed(
        self, number: int, step: dict[str, Any], values: Values, choices: Sequence[list[Fate]], started: tuple[str, ...]
    ) -> Iterator[Move]:
        if len(choices) > 1 and size_of(choices) > MAX_MOVES:
            raise NotSmallError(f"`{step['id']}` has {size_of(choices)} ways out")
        ways = self.known_ways[number].setdefault((started, *map(tuple, choices)), [])
        if not ways:
            ways += [self._way_out(number, step, fates, started) for fates in product(*choices)]
        yield from moves_from(ways, values)

    def _way_out(self, number: int, step: dict[str, Any], fates: tuple[Fate, ...], started: tuple[str, ...]) -> WayOut:
        """Return the way out of a step whose calls have these fates; it is the same from all values."""
        failed = [fate.name for fate in fates if fate.kind == "failed"]
        kind = fates[0].kind
        if step["type"] == "parallel":
            kind = "success" if not failed else "skipped" if step.get("on_error") == "skip" else "failed"
        name = next((name for name in failed if name != "Dependency"), failed[0] if failed else "")
        left: dict[int, Any] = {}
        for call, fate in zip(self.calls[number], fates, strict=True):
            call.bind(left, fate)
        self._leave_whole(step, left, kind, name)
        good = [call.id for call, fate in zip(self.calls[number], fates, strict=True) if fate.kind == "success"]
        if step["type"] == "parallel" and kind == "success":
            good.append(step["id"])
        again = tuple(self._again(number, step, set(started)))
        to, ending = self._way(number, step, kind, name)
        event = Event(number, started, again, tuple(good), (), self._assigned(number, step), ending)
        error = name if kind == "failed" else "Declared"
        return WayOut(to, tuple(left.items()), event, self._spent(number, step, fates), error)

    def _in_order(self, number: int, step: dict[str, Any], values: Values) -> Iterator[Move]:
        """The ways out of a step with `depends_on`, each with every order of starts and ends that leads there."""
        calls = self.calls[number]
        if any(call.done for call in calls):
            raise NotSmallError("repeated writes in an order are not looked at here")
        moves = 0
        self._forbid(number, [(step["id"], ())], values)
        for found in outcomes(calls, step, values):
            self.truth.undefined |= set(found.undefined)
            for part, arguments, seen in found.arguments:
                self._forbid(number, [(part, arguments)], seen)
            started = (step["id"], *(part for part, _, _ in found.arguments))
            fates = tuple(found.fates[call.id] for call in calls)
            ways = self.known_ways[number].setdefault((started, fates), [])
            if not ways:
                way, ends = self._way_out(number, step, fates, started), orders(calls, step, found.fates)
                ways += [way._replace(event=way.event._replace(happens=happens)) for happens in ends]
            moves += len(ways)
            if moves > MAX_MOVES:
                raise NotSmallError(f"`{step['id']}` has more than {MAX_MOVES} ways out")
            yield from moves_from(ways, values)

    def _way(self, number: int, step: dict[str, Any], kind: str, name: str) -> tuple[int, str]:
        if kind != "failed":
            return self.successor[number]
        target = caught_by(step, name)
        if "catch" in step and target is not None:
            place = next(place for place, entry in enumerate(step["catch"]) if takes(entry, name))
            self.truth.caught.add((step["id"], place))
        return (self.position[target], "") if target is not None else (END, "FAILED")

    def _spent(self, number: int, step: dict[str, Any], fates: tuple[Fate, ...]) -> int:
        """Return the least that such an outcome costs."""
        cost = self.cost[number] + sum(fate.extra for fate in fates)
        failed = [fate for fate in fates if fate.kind == "failed"]
        if failed and step["type"] == "parallel" and step.get("on_error") == "retry":
            # What never starts is no attempt. A call that fails in each round may fail as cheaply as it can before.
            calls = zip(self.calls[number], fates, strict=True)
            again = sum(1 + call.least for call, fate in calls if fate.kind == "failed" and fate.started)
            cost += (step.get("max_retries", 3) - 1) * (1 + again)
        return cost

    def _again(self, number: int, step: dict[str, Any], started: set[str]) -> Iterator[tuple[str, int]]:
        """Yield the parts that retries may perform once more in this visit, and what that costs beyond the visit."""
        rounds = step.get("max_retries", 3) if step["type"] == "parallel" and step.get("on_error") == "retry" else 1
        for call in self.calls[number]:
            if call.id not in started or call.is_idempotent:
                continue
            if call.is_repeated:
                yield call.id, 1
            elif rounds > 1 and not call.skips:
                yield call.id, 2

    def _leave_whole(self, step: dict[str, Any], after: list[Any] | dict[int, Any], kind: str, error: str) -> None:
        """Bind the output of a parallel step itself; that of a call is bound by the call."""
        if step["type"] == "parallel":
            for name in outputs_of(step):
                if name in self.names.slots:
                    after[self.names.slots[name]] = "joined" if kind == "success" else GONE
            if f"{step['id']}.error" in self.names.slots:
                after[self.names.slots[f"{step['id']}.error"]] = GONE if kind == "success" else "error"
            if f"{step['id']}.error_name" in self.names.slots:
                after[self.names.slots[f"{step['id']}.error_name"]] = GONE if kind == "success" else error

    def _assigned(self, number: int, step: dict[str, Any]) -> frozenset[str]:
        own = frozenset([*outputs_of(step), f"{step['id']}.error", f"{step['id']}.error_name"])
        return own.union(*(call.names for call in self.calls[number]))
