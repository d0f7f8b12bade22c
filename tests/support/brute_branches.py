"""The truth about a small program with branches: every interleaving of its branches, one after the other.

Written from the language's text alone, for the programs of `branched_programs`. A rule is judged by time, along each
interleaving: what is not ordered comes first in one of them. It shares no code with the checker and none with the
machine.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import product
from typing import Any, NamedTuple

from small_language import GONE, Unreadable, compiled, domain, filled, names_of, parsed

MAX_STATES = 200_000
FAILS = "fails"
Env = tuple[tuple[str, Any], ...]


class Member(NamedTuple):
    """A branch: its step, its own values and visits; `ended` says how it ended, with its output."""

    at: str = ""
    env: Env = ()
    visits: tuple[tuple[str, int], ...] = ()
    ended: str = ""
    output: Any = None


class State(NamedTuple):
    """A run: the step of the program's own list, its values, its branches while they run, and what rules remember."""

    at: str
    env: Env
    members: tuple[Member, ...] | None
    rules: tuple[Any, ...]


class Event(NamedTuple):
    """Something that rules see: `what` is `starts`, `succeeds`, `takes` or `assigns`; `passes` is a step whose visits
    are used up."""

    what: str
    about: str
    more: Any = None


Outcome = tuple[tuple[Event, ...], str, Env, tuple[tuple[str, int], ...], Any]
"""One outcome of a step: what rules see, where it leads, its values and visits, and the output that it gives."""


class Judge:
    """One rule along one run, by time."""

    def __init__(
        self, rule: Mapping[str, Any], parts: Mapping[str, Mapping[str, Any]], inside: Collection[str] | None = None
    ) -> None:
        self.rule, self.parts = rule, parts
        self.inside = parts.keys() if inside is None else inside
        self.first = 0

    def selects(self, selector: Mapping[str, Any], part: str) -> bool:
        if "step" in selector:
            return bool(selector["step"] == part)
        return self.parts[part].get("tool") == selector["tool"]

    def sees(self, memory: Any, event: Event) -> tuple[Any, bool]:
        """Return what is remembered after an event, and whether the rule was broken by it."""
        rule = self.rule
        if event.what != "assigns" and event.about not in self.inside:
            return memory, False
        if "followed_by" in rule:
            return self._follows(memory, event)
        if event.what == "starts":
            return self._starts(memory, event)
        if "requires" not in rule:
            return memory, False
        guard = rule["requires"]
        if event.what == "succeeds" and "branch" not in guard and self.selects(guard, event.about):
            return 2, False
        if event.what == "takes" and (guard.get("step"), guard.get("branch")) == (event.about, event.more):
            return 2, False
        if event.what == "assigns" and memory == 2 and "branch" in guard:
            read = self.parts[guard["step"]]["condition"]
            if any(f"${name}" in read for name in event.more):
                return 1, False
        return memory, False

    def _follows(self, memory: Any, event: Event) -> tuple[Any, bool]:
        """What is owed by time: where P and Q are not ordered, Q comes first in some interleaving."""
        first, then = self.rule["followed_by"]["first"], self.rule["followed_by"]["then"]
        is_next = event.what in ("starts", "passes")
        is_then = event.what != "assigns" and self.selects(then, event.about)
        if event.what == "starts" and is_then:
            return 0, False
        if event.what == "succeeds" and self.selects(first, event.about) and not is_then:
            return 1, False
        return memory, bool(is_next and memory and self.rule.get("ends") == "any")  # it may be cancelled before that

    def is_broken_at_end(self, memory: Any, ending: str) -> bool:
        """Return whether a run that ends `good` or not leaves a Q owed that this ending asks for."""
        return "followed_by" in self.rule and memory == 1 and (self.rule.get("ends") != "success" or ending == "good")

    def _starts(self, memory: Any, event: Event) -> tuple[Any, bool]:
        rule, part = self.rule, event.about
        if "requires" in rule:
            return memory, self.selects(rule["protects"], part) and memory != 2
        if "at_most_once" in rule:
            hit = self.selects(rule["at_most_once"], part)
            return memory or int(hit), bool(hit and memory)
        if "exclusive" in rule:
            sides = sum(self.selects(side, part) << place for place, side in enumerate(rule["exclusive"]))
            return memory | sides, bool(sides) and memory | sides == 3
        is_hit = self.selects(rule["never"], part)
        return memory, is_hit and ("when" not in rule or read(rule["when"], dict(event.more)) in (True, FAILS))


def read(text: str, env: Mapping[str, Any]) -> Any:
    """Return the value of a condition of `branched_programs`, or FAILS."""
    if any(word in text for word in ("+", "*", ".errors", "len(", ".output[")):
        return _evaluated(text, env)
    for word in (" and ",):
        if word in text:
            values = [read(one, env) for one in text.split(word)]
            return False if values[0] is False else FAILS if FAILS in values else all(values)
    if text.startswith("not "):
        value = read(text[4:], env)
        return FAILS if value is FAILS else not value
    if text.startswith("defined("):
        return text[9:-1] in env
    name, _, wanted = text[1:].partition(" == ")
    if name not in env:
        return FAILS
    if not wanted:
        return env[name] if isinstance(env[name], bool) else FAILS
    value = wanted.strip("'") if "'" in wanted else int(wanted)
    if isinstance(env[name], str) is not isinstance(value, str):
        return FAILS  # a text and a number can't be compared
    return env[name] == value and isinstance(env[name], bool) is False


def _evaluated(text: str, env: Mapping[str, Any]) -> Any:
    """Return the value of a condition with joined texts, or with the errors of items, or FAILS."""
    names: list[str] = []
    reader = compiled(parsed(text), lambda name: _place(name, env, names))
    try:
        value = reader(tuple(env.get(name, GONE) for name in names))
    except Unreadable:
        return FAILS
    return value if isinstance(value, bool) else FAILS


def _place(text: str, env: Mapping[str, Any], names: list[str]) -> tuple[int, tuple[str, ...]]:
    """Return where a reference stands in a list of names of variables, which gets its own, and the fields below it."""
    parts = names_of(text)
    size = next((end for end in range(len(parts), 1, -1) if ".".join(parts[:end]) in env), 1)
    names.append(".".join(parts[:size]))
    return len(names) - 1, tuple(parts[size:])


def written(output: Any, env: Mapping[str, Any]) -> Any:
    """Return what an `end` gives: a text has values of the variables that it names."""
    if not isinstance(output, str):
        return output
    return filled(output, lambda name: (list(env).index(name), ()))(tuple(env.values()))


class Enumeration:
    """All runs of a program."""

    def __init__(self, program: Mapping[str, Any]) -> None:
        self.program = program
        self.top = {step["id"]: step for step in program["steps"]}
        self.fork = self.top["both"]
        self.names = sorted(self.fork["branches"])
        self.bodies = {name: {step["id"]: step for step in self.fork["branches"][name]["steps"]} for name in self.names}
        parts = {**self.top, **{key: step for body in self.bodies.values() for key, step in body.items()}}
        self.judges = [Judge(rule, parts) for rule in program["guardrails"]]
        self.judges += [
            Judge(rule, parts, body.keys())
            for name, body in self.bodies.items()
            for rule in self.fork["branches"][name].get("guardrails", ())
        ]
        self.broken: set[str] = set()
        self._forget()

    def _forget(self) -> None:
        """Begin with nothing that is known already: what rules see, and what comes of steps."""
        self.known: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        self.judged: dict[tuple[int, Any, int], Any] = {}
        self.numbers: dict[tuple[Event, ...], int] = {}
        self.performed: dict[tuple[Any, ...], tuple[Outcome, ...]] = {}
        self.states = 0

    def starts(self) -> list[State]:
        """Return the states before the first step."""
        first = self.program["steps"][0]["id"]
        return [State(first, env, None, tuple(0 for _ in self.judges)) for env in self.inputs()]

    def inputs(self) -> list[Env]:
        """Return the inputs of all runs, but for a list of items."""
        known = [(name, spec) for name, spec in sorted(self.program["inputs"].items()) if name != "l"]
        return list(product(*([(name, value) for value in domain(spec)] for name, spec in known)))

    def run(self) -> set[str]:
        """Return the names of the rules that some run breaks."""
        pending = self.starts()
        seen = set(pending)
        while pending:
            for following in self._next(pending.pop()):
                if following not in seen:
                    seen.add(following)
                    pending.append(following)
            if len(seen) > MAX_STATES:
                raise ValueError("too many states")
        self.states = len(seen)
        return self.broken

    def _told(self, rules: tuple[Any, ...], events: tuple[Event, ...]) -> tuple[Any, ...]:
        """Let all rules see events. They see the same ones in many interleavings, and are asked once."""
        asked = (rules, events)
        if asked not in self.known:
            self.known[asked] = self._seen(rules, events)
        return self.known[asked]

    def _seen(self, rules: tuple[Any, ...], events: tuple[Event, ...]) -> tuple[Any, ...]:
        number = self._number(events)
        return tuple(self._judged(place, memory, events, number) for place, memory in enumerate(rules))

    def _number(self, events: tuple[Event, ...]) -> int:
        """Return a number that only these events have."""
        return self.numbers.setdefault(events, len(self.numbers))

    def _judged(self, place: int, memory: Any, events: tuple[Event, ...], number: int) -> Any:
        """Return what a rule remembers after events."""
        asked = (place, memory, number)
        if asked not in self.judged:
            judge = self.judges[place]
            for event in events:
                memory, is_broken = judge.sees(memory, event)
                if is_broken:
                    self.broken.add(judge.rule["name"])
            self.judged[asked] = memory
        return self.judged[asked]

    def _ended(self, rules: tuple[Any, ...], ending: str) -> None:
        """Let all rules see the end of the run."""
        for judge, memory in zip(self.judges, rules, strict=True):
            self._noted(judge, memory, ending)

    def _noted(self, judge: Judge, memory: Any, ending: str) -> None:
        if judge.is_broken_at_end(memory, ending):
            self.broken.add(judge.rule["name"])

    def _left(self, rules: tuple[Any, ...], name: str, ending: str) -> tuple[Any, ...]:
        """Let the rules of a branch see its end; what it owes, nobody pays any more."""
        known = []
        for judge, memory in zip(self.judges, rules, strict=True):
            is_own = judge.inside == self.bodies[name].keys() and "followed_by" in judge.rule
            if is_own:
                self._noted(judge, memory, ending)
            known.append(0 if is_own else memory)
        return tuple(known)

    def _next(self, state: State) -> Iterator[State]:
        if state.members is not None:
            yield from self._beside(state, state.members)
            return
        step = self.top[state.at]
        if step is self.fork:
            outputs = frozenset(f"{name}.{what}" for name in self.names for what in ("output", "error"))
            started = (Event("starts", "both", state.env), Event("assigns", "both", outputs))
            rules = self._told(state.rules, started)
            yield state._replace(members=(Member(),) * len(self.names), rules=rules)
            return
        for events, at, env, _, _ in self._outcomes(self.program["steps"], step, state.env, ()):
            rules = self._told(state.rules, events)
            if at in self.top:
                yield State(at, env, None, rules)
            else:
                self._ended(rules, at)

    def _beside(self, state: State, members: tuple[Member, ...]) -> Iterator[State]:
        """Yield what may come next where branches run: something in one of them, or the join of all."""
        is_joined = True
        for place, (name, member) in enumerate(zip(self.names, members, strict=True)):
            branch = self.fork["branches"][name]
            needs = [members[self.names.index(one)] for one in branch.get("depends_on", ())]
            if member.ended:
                continue
            if any(one.ended in ("failed", "lacks") for one in needs):
                yield self._put(state, place, Member(ended="lacks"), state.rules)
                is_joined = False
                continue
            is_joined = False
            if any(one.ended != "good" for one in needs):
                continue
            if not member.at:
                before = self._before(name)
                known = [(f"{one}.output", members[self.names.index(one)].output) for one in before]
                env = tuple(sorted((*state.env, *((key, value) for key, value in known if value is not None))))
                yield self._put(state, place, Member(branch["steps"][0]["id"], env), state.rules)
                continue
            step = self.bodies[name][member.at]
            for events, at, env, visits, output in self._outcomes(branch["steps"], step, member.env, member.visits):
                rules = self._told(state.rules, events)
                if at in self.bodies[name]:
                    yield self._put(state, place, Member(at, env, visits), rules)
                else:
                    read = {f"{one}.output" for one in self._before(name)}
                    gone = frozenset(key for key, _ in env) - {key for key, _ in state.env} - read
                    inside = {
                        *gone,
                        "v",
                        *(f"{one}.{what}" for one in self.bodies[name] for what in ("output", "error")),
                    }
                    rules = self._left(self._told(rules, (Event("assigns", name, frozenset(inside)),)), name, at)
                    yield self._put(state, place, Member(ended=at, output=output), rules)
        if is_joined:
            yield from self._joined(state, members)

    def _before(self, name: str) -> set[str]:
        found = set(self.fork["branches"][name].get("depends_on", ()))
        for _ in self.names:
            found |= {other for one in found for other in self.fork["branches"][one].get("depends_on", ())}
        return found

    @staticmethod
    def _put(state: State, place: int, member: Member, rules: tuple[Any, ...]) -> State:
        assert state.members is not None
        return State(state.at, state.env, (*state.members[:place], member, *state.members[place + 1 :]), rules)

    def _joined(self, state: State, members: tuple[Member, ...]) -> Iterator[State]:
        has_failed = any(member.ended != "good" for member in members)
        env = {key: value for key, value in state.env if key.partition(".")[0] not in ("both", "all")}
        for name, member in zip(self.names, members, strict=True):
            env.pop(f"{name}.output", None)
            env.pop(f"{name}.error", None)
            if member.ended != "good":
                env[f"{name}.error"] = "error"
            if member.ended == "good" and member.output is not None:
                env[f"{name}.output"] = member.output
        events = () if has_failed else (Event("succeeds", "both"),)
        if has_failed:
            env["both.error"] = "error"
        for whole in () if has_failed else ("both.output", "all"):
            given = [name for name, member in zip(self.names, members, strict=True) if member.output is not None]
            env |= {whole: "object", **{f"{whole}.{name}": env[f"{name}.output"] for name in given}}
        target = self.fork.get("error_step", "failed") if has_failed and self.fork.get("on_error") != "skip" else ""
        if target == "":
            target = self._following(self.program["steps"], self.fork)
        rules = self._told(
            state.rules, (Event("assigns", "both", frozenset({"both.error", "both.output", "all"})), *events)
        )
        if target in self.top:
            yield State(target, tuple(sorted(env.items())), None, rules)
        else:
            self._ended(rules, target)

    def _following(self, steps: list[Any], step: Mapping[str, Any]) -> str:
        """Return the step after a success, or how the list ends."""
        if "next_step" in step:
            return str(step["next_step"])
        arms = {one.get(field) for one in steps for field in ("then", "otherwise", "error_step")}
        ids = [one["id"] for one in steps]
        place = ids.index(step["id"]) + 1
        return "good" if step.get("is_terminal") or step["id"] in arms or place == len(ids) else ids[place]

    def _outcomes(
        self, steps: list[Any], step: Mapping[str, Any], env: Env, visits: tuple[tuple[str, int], ...]
    ) -> tuple[Outcome, ...]:
        """Return the outcomes of a step, which does not know what else goes on."""
        asked = (step["id"], env, visits)
        if asked not in self.performed:
            self.performed[asked] = tuple(self._performed(steps, step, env, visits))
        return self.performed[asked]

    def _performed(
        self, steps: list[Any], step: Mapping[str, Any], env: Env, visits: tuple[tuple[str, int], ...]
    ) -> Iterator[Outcome]:
        """Yield each outcome of a step: what rules see, where it leads, and what it leaves."""
        name = step["id"]
        counted = dict(visits)
        if "max_visits" in step and f"{name} attempts" not in dict(env):
            counted[name] = counted.get(name, 0) + 1
            if counted[name] > step["max_visits"]:
                target = step.get("error_step") if counted[name] == step["max_visits"] + 1 else None
                values = {key: value for key, value in env if not key.startswith(f"{name}.")} | {
                    f"{name}.error": "error"
                }
                changed = tuple(sorted(values.items())) if step["type"] == "tool" else env
                passes = (Event("passes", name),)
                yield passes, target or "failed", changed, tuple(sorted(counted.items())), None
                return
        held = tuple(sorted(counted.items()))
        start = Event("starts", name, env)
        if step["type"] == "end":
            output = written(step.get("output"), dict(env))
            yield (start,), "good" if step["outcome"] == "success" else "failed", env, held, output
        elif step["type"] == "set":
            changed = tuple(sorted({**dict(env), "v": "x"}.items()))
            done = (start, Event("assigns", name, frozenset({"v"})), Event("succeeds", name))
            yield done, self._following(steps, step), changed, held, None
        elif step["type"] == "condition":
            value = read(step["condition"], dict(env))
            if value is FAILS:
                yield (start,), "failed", env, held, None
            else:
                label = "then" if value else "otherwise"
                yield (start, Event("takes", name, label), Event("succeeds", name)), step[label], env, held, None
        else:
            yield from self._called(steps, step, env, held, start)

    def _called(
        self, steps: list[Any], step: Mapping[str, Any], env: Env, held: Any, start: Event
    ) -> Iterator[Outcome]:
        name = step["id"]
        known = dict(env)
        count = known.pop(f"{name} attempts", 0) + 1
        least, most = attempts_of(step, self.program["tools"][step["tool"]])
        events = () if count > 1 and self.program["tools"][step["tool"]].get("idempotent") else (start,)
        if count < most:
            yield events, name, tuple(sorted({**known, f"{name} attempts": count}.items())), held, None
        values = {key: value for key, value in known.items() if not key.startswith(f"{name}.")}
        assigned = Event("assigns", name, frozenset({f"{name}.output", f"{name}.error"}))
        for output in (True, False) if step["tool"] == "ask" else (0,):
            changed = tuple(sorted({**values, f"{name}.output": output}.items()))
            done = (*events, assigned, Event("succeeds", name))
            yield done, self._following(steps, step), changed, held, None
        if count < least:
            return
        changed = tuple(sorted({**values, f"{name}.error": "error"}.items()))
        target = self._following(steps, step) if step.get("on_error") == "skip" else step.get("error_step", "failed")
        yield (*events, assigned), target, changed, held, None


def attempts_of(call: Mapping[str, Any], tool: Mapping[str, Any]) -> tuple[int, int]:
    """Return how many attempts a call has at least before it has failed, and at most; both hang on its errors."""
    if call.get("on_error") == "retry":
        return call["max_retries"], call["max_retries"]
    names = ["Unexpected", *tool.get("errors", ()), *(["BadOutput"] if tool["effect"] == "read" else [])]
    taking = [[one for one in call.get("retry", ()) if {name, "any"} & set(one["errors"])] for name in names]
    found = [entries[0]["max_attempts"] if entries else 1 for entries in taking]
    return min(found), max(found)
