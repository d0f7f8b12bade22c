"""What the enumeration of runs knows of a program: its names, its calls and their fates, its rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Final, NamedTuple

from brute_fields import names_in, objects_of
from small_language import (
    GONE,
    REFERENCE,
    Reader,
    Unreadable,
    Values,
    domain,
    frozen,
    names_of,
    parsed,
    reference,
    references,
    templates,
    thawed,
)

MAX_STATES: Final = 30_000
MAX_MOVES: Final = 3_000
END: Final = -1
GOOD: Final = ("success", "fallback")

Broken = tuple[str, str]
"""A code, and the step at which a rule is broken."""


@dataclass
class Truth:
    """What happens on some run, and what is asked for and never does."""

    broken: dict[str, set[Broken]]
    debatable: dict[str, set[Broken]] = field(default_factory=dict)
    """Places where both were performed before (SW406), and cancellations right before what is owed (SW405)."""
    uncovered: set[str] = field(default_factory=set)
    overlapping: set[str] = field(default_factory=set)
    undefined: set[tuple[str, str]] = field(default_factory=set)
    """Who reads, a step or a sub-step, and what, as it is written after the dollar sign."""
    reached: set[str] = field(default_factory=set)
    unreached: set[str] = field(default_factory=set)
    values: dict[str, set[bool]] = field(default_factory=dict)
    """The values that two-way conditions have had."""
    taken: dict[str, set[int]] = field(default_factory=dict)
    """The numbers of the cases that were taken, of every condition with cases that was evaluated."""
    shadowed: set[tuple[str, int]] = field(default_factory=set)
    caught: set[tuple[str, int]] = field(default_factory=set)
    """The entries of `catch` that were taken: a step, and the place in its list."""
    states: int = 0

    @property
    def constant(self) -> dict[str, bool]:
        """The two-way conditions that had one value only."""
        return {step: next(iter(values)) for step, values in self.values.items() if len(values) == 1}


class Event(NamedTuple):
    """What a guardrail sees of one visit of a step: parts by id, and how the step was left."""

    step: int
    started: tuple[str, ...] = ()
    again: tuple[tuple[str, int], ...] = ()
    succeeded: tuple[str, ...] = ()
    branch: tuple[Any, ...] = ()
    assigned: frozenset[str] = frozenset()
    ending: str = ""
    happens: tuple[Any, ...] = ()
    """In a step with `depends_on`: the starts and ends of its sub-steps, in one of the orders that they may have."""


class Move(NamedTuple):
    """One way out of a step: where to, with which values, what guardrails see of it, what it cost, and the name of the
    error with which it ends a body."""

    to: int
    values: Values
    event: Event
    cost: int
    name: str = "Declared"


class WayOut(NamedTuple):
    """A way out of a step from any values: what it leaves in which slots, and the rest of a Move."""

    to: int
    left: tuple[tuple[int, Any], ...]
    event: Event
    cost: int
    name: str


def moves_from(ways: list[WayOut], values: Values) -> Iterator[Move]:
    """Yield the moves from these values."""
    for way in ways:
        after = list(values)
        for slot, value in way.left:
            after[slot] = value
        yield Move(way.to, tuple(after), way.event, way.cost, way.name)


class Names:
    """Where the values of variables are kept: only of those that something reads."""

    def __init__(self, program: dict[str, Any], *, blind: bool) -> None:
        self.slots: dict[str, int] = {}
        self.outputs = {
            part["id"]
            for step in program["steps"]
            for part in (step, *step.get("parallel_steps", ()))
            if part["type"] in ("llm", "tool", "compute", "parallel", "for_each")
        }
        fields = ("output_key", "as", "index_as")
        self.variables = {part[field] for part in _parts(program) for field in fields if field in part}
        keys = [name for step in program["steps"] for name in (*step.get("set", ()), *step.get("carry", ()))]
        self.variables |= {names_in(key)[0] for key in keys}
        for text in () if blind else _all_references(program):
            if not text.startswith("args."):
                self.slots.setdefault(self.root(text)[0], len(self.slots))

    def root(self, text: str) -> tuple[str, tuple[str, ...]]:
        """Return the variable that a reference speaks of, and the fields below it."""
        names = names_of(text)
        size = 2 if names[0] in self.outputs and names[1:2] in (["output"], ["error"]) else 1
        if names[0] in self.outputs - self.variables and names[1:2] in (["error_name"], ["errors"]):
            size = 2
        return ".".join(names[:size]), tuple(names[size:])

    def where(self, text: str) -> tuple[int, tuple[str, ...]]:
        """Return the slot of a reference; arguments stand behind all variables."""
        name, fields = self.root(text)
        return (len(self.slots) if name == "args" else self.slots[name]), fields


def _parts(program: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for step in program["steps"]:
        yield from (step, *step.get("parallel_steps", ()))


def takes(entry: dict[str, Any], name: str) -> bool:
    """Return whether an entry of `catch` or `retry` is about an error."""
    return name in entry["errors"] or "any" in entry["errors"]


def caught_by(step: dict[str, Any], name: str) -> str | None:
    """Return the step to which an error leads, or None."""
    for entry in step.get("catch", ()):
        if takes(entry, name):
            return str(entry["then"])
    return step.get("error_step")


def _all_references(program: dict[str, Any]) -> Iterator[str]:
    for step in program["steps"]:
        for text in _expressions(step):
            yield from references(parsed(text))
        yield from objects_of(step)
        for value in (*step.get("set", {}).values(), *step.get("carry", {}).values()):
            yield from templates(value) if not isinstance(value, str) else ()
        for part in (step, *step.get("parallel_steps", ())):
            yield from templates(part.get("items"))
            for value in (
                part.get("prompt"),
                part.get("output"),
                part.get("seconds"),
                part.get("until"),
                *part.get("args", {}).values(),
            ):
                yield from REFERENCE.findall(value) if isinstance(value, str) else ()
    own = [rule for step in program["steps"] for rule in step.get("guardrails", ())]
    for rule in (*program.get("guardrails", ()), *own):
        yield from references(parsed(rule["when"])) if "when" in rule else ()


def _expressions(step: dict[str, Any]) -> list[str]:
    if step["type"] in ("set", "for_each"):
        return [value for value in step.get("set", step.get("carry", {})).values() if isinstance(value, str)]
    return [case["when"] for case in cases_of(step)] if step["type"] == "condition" else []


def cases_of(step: dict[str, Any]) -> list[dict[str, Any]]:
    return step.get("cases") or [{"when": step["condition"], "then": step.get("then"), "name": "then"}]


class Fate(NamedTuple):
    """What may become of a call: `success`, `fallback`, `failed` or `skipped`; whether it started; extra attempts, and
    the name of the error."""

    kind: str
    value: Any = GONE
    started: bool = True
    extra: int = 0
    name: str = ""


class Call:
    """An llm or tool step, or a sub-step; or a compute step, whose value may be any of its type, or none."""

    def __init__(self, step: dict[str, Any], program: dict[str, Any], names: Names, *, blind: bool) -> None:
        self.id = step["id"]
        writes = program.get("performed", ()) if step["type"] == "tool" else ()
        self.done = [args for name, args in writes if name == step["tool"]]
        tool = program.get("tools", {}).get(step.get("tool"), {})
        self.skips = step.get("on_error") == "skip"
        self.attempts = step.get("max_retries", 3) if step.get("on_error") == "retry" else 1
        self.is_idempotent = step["type"] == "tool" and tool.get("idempotent", False)
        self.slots = [names.slots[name] for name in outputs_of(step) if name in names.slots]
        self.error = names.slots.get(f"{self.id}.error")
        self.error_name = names.slots.get(f"{self.id}.error_name")
        self.names = frozenset([*outputs_of(step), f"{self.id}.error", f"{self.id}.error_name"])
        self.args: dict[str, Any] = {}
        self.reads: list[tuple[str, Reader]] = []
        if not blind:
            self._read(step, names)
        self.fates = self._fates(step, tool, program_names_errors=program.get("language") == 2)

    def _read(self, step: dict[str, Any], names: Names) -> None:
        for value in (step.get("prompt", ""), *step.get("args", {}).values()):
            for text in REFERENCE.findall(value) if isinstance(value, str) else ():
                self.reads.append((text, reference(text, names.where)))
        for name, value in step.get("args", {}).items():
            is_read = isinstance(value, str) and REFERENCE.fullmatch(value)
            self.args[name] = reference(value[1:], names.where) if is_read else frozen(value)

    def _fates(self, step: dict[str, Any], tool: dict[str, Any], *, program_names_errors: bool) -> list[Fate]:
        """A write that timed out is never taken for failed: if it can't be repeated there is no fallback."""
        spec = {"enum": step["allowed_outputs"]} if "allowed_outputs" in step else step.get("returns")
        values = domain(tool.get("returns") if step["type"] == "tool" else spec)
        fates = [Fate("success", value) for value in (values if self.slots else values[:1])]
        writes = step["type"] == "tool" and tool.get("effect", "write") == "write"
        if step.get("on_timeout") == "fallback" and (self.is_idempotent or not writes):
            attempts = step.get("max_retries", 3) if writes else self.attempts
            late = next((entry for entry in step.get("retry", ()) if takes(entry, "Timeout")), None)
            attempts = attempts if late is None else late.get("max_attempts", 3)
            fates.append(Fate("fallback", frozen(step["fallback"]), extra=attempts - 1))
        kind = "skipped" if self.skips else "failed"
        names = _error_names(step, tool, writes=writes) if program_names_errors else ["Unexpected"]
        extra = {name: self._extra(step, name, is_once=writes and not self.is_idempotent) for name in names}
        self.least, self.is_repeated = min(extra.values()), max(extra.values()) > 0
        return fates + [Fate(kind, extra=more, name=name) for name, more in extra.items()]

    def _extra(self, step: dict[str, Any], name: str, *, is_once: bool) -> int:
        """Return the attempts after the first of a call that fails with an error each time."""
        for entry in () if is_once else step.get("retry", ()):
            if takes(entry, name):
                return int(entry.get("max_attempts", 3)) - 1
        return int(self.attempts) - 1

    def undefined(self, values: Values) -> list[str]:
        """Return the references that the call reads and can't."""
        found = []
        for text, read in self.reads:
            try:
                read(values)
            except Unreadable:
                found.append(text)
        return found

    def arguments(self, values: Values) -> tuple[tuple[str, Any], ...]:
        """Return the arguments of a call that starts."""
        return tuple((name, held(values) if callable(held) else held) for name, held in self.args.items())

    def is_refused(self, values: Values) -> bool | None:
        """Return whether the call repeats a write of the runs before; None if nobody knows."""
        if None in self.done:
            return None
        return bool(self.done) and thawed(self.arguments(values)) in self.done

    def bind(self, after: list[Any] | dict[int, Any], fate: Fate) -> None:
        """Write down what the call leaves behind."""
        for slot in self.slots:
            after[slot] = fate.value
        if self.error is not None:
            after[self.error] = GONE if fate.kind in GOOD else "error"
        if self.error_name is not None:
            after[self.error_name] = GONE if fate.kind in GOOD else fate.name


def _error_names(step: dict[str, Any], tool: dict[str, Any], *, writes: bool) -> list[str]:
    """Return the names with which a call that has started may fail; a late write is none that failed."""
    names = ["Unexpected", *tool.get("errors", ())]
    if not writes:
        names.append("BadOutput")
        if "timeout_seconds" in step and step.get("on_timeout") != "fallback":
            names.append("Timeout")
        if "deadline_seconds" in step and tool.get("suspends"):
            names.append("Deadline")
    return names


def outputs_of(step: dict[str, Any]) -> list[str]:
    return [f"{step['id']}.output", *([step["output_key"]] if "output_key" in step else [])]


_LEVELS: Final = {"never": 0, "stale": 1, "fresh": 2}


class Rule:
    """One guardrail: what it remembers is a number, or a level for each guard: 0 never came, 1 stale, 2 stands."""

    def __init__(self, rule: dict[str, Any], program: dict[str, Any], names: Names) -> None:
        self.rule, self.program, self.name = rule, program, rule["name"]
        self.counts_cancelled = "followed_by" in rule and rule.get("ends") == "any"
        self.start: Any = 0
        already = rule.get("already")
        pair = rule.get("followed_by", {})
        selectors = rule.get("exclusive") or [
            rule.get("protects") or rule.get("never") or rule.get("at_most_once") or pair.get("first"),
            pair.get("then"),
        ]
        self.first, self.second = (self._selected(selector) for selector in selectors)
        if "requires" in rule:
            self.guards = list(_guards(rule["requires"]))
            different = dict.fromkeys(map(repr, self.guards))
            past = dict(zip(different, already or [{"level": "never"}] * len(different), strict=True))
            self.start = tuple(_LEVELS[past[repr(guard)]["level"]] for guard in self.guards)
            self.reads = [self._read_by(guard, names) for guard in self.guards]
            if rule.get("fresh", True):
                self.reads = [
                    own | set(past[repr(guard)].get("reads", ()))
                    for own, guard in zip(self.reads, self.guards, strict=True)
                ]
            self.coming = [self._selected(guard) for guard in self.guards]
        elif "exclusive" in rule:
            self.start = sum(1 << side for side, was in enumerate(already or ()) if was)
        else:
            self.start = int(bool(already))

    def _selected(self, selector: dict[str, Any] | None) -> frozenset[str]:
        found = set()
        for step in self.program["steps"]:
            for part in (step, *step.get("parallel_steps", ())):
                if selector is None or ("step" in selector and selector["step"] != part["id"]):
                    continue
                effect = self.program.get("tools", {}).get(part.get("tool"), {}).get("effect", "write")
                is_tool = part["type"] == "tool" and selector in ({"tool": part["tool"]}, {"effect": effect})
                if is_tool or "step" in selector:
                    found.add(part["id"])
        return frozenset(found)

    def _read_by(self, guard: dict[str, Any], names: Names) -> frozenset[str]:
        if "branch" not in guard or not self.rule.get("fresh", True):
            return frozenset()
        texts = [text for step in self.program["steps"] if step["id"] == guard["step"] for text in _expressions(step)]
        return frozenset(names.root(found)[0] for text in texts for found in references(parsed(text)))

    def sees(self, memory: Any, event: Event) -> tuple[Any, str, int]:
        """Return what is remembered after a visit, the code if the rule was broken, and the further steps it takes."""
        if "requires" in self.rule:
            return self._after(memory, event), self._missing(memory, event), 0
        if "at_most_once" in self.rule:
            return self._counted(memory, event)
        if "exclusive" in self.rule:
            sides = bool(self.first & set(event.started)) | bool(self.second & set(event.started)) << 1
            code = "SW406 again" if memory == 3 else "SW406"
            return memory | sides, code if sides and memory | sides == 3 else "", 0
        if "followed_by" in self.rule:
            return self._owed(memory, event)
        return memory, "", 0

    def _missing(self, memory: tuple[int, ...], event: Event) -> str:
        if event.happens:
            return min(self._missing_along(memory, event), default="")
        if not self.first.intersection(event.started):
            return ""
        held = dict(zip(map(repr, self.guards), memory, strict=True))
        if _holds(self.rule["requires"], held, 2):
            return ""
        return "SW402" if _holds(self.rule["requires"], held, 1) else "SW401"

    def _missing_along(self, memory: tuple[int, ...], event: Event) -> Iterator[str]:
        """Yield the codes of the starts that break the rule in one order of starts and ends."""
        came: set[int] = set()
        for what, part, is_good, assigned in event.happens:
            if what == "starts" and part in self.first:
                held = {}
                for number, (guard, reads, level) in enumerate(zip(self.guards, self.reads, memory, strict=True)):
                    is_stale = level == 2 and not reads.isdisjoint(assigned)
                    held[repr(guard)] = 2 if number in came else 1 if is_stale else level
                if not _holds(self.rule["requires"], held, 2):
                    yield "SW402" if _holds(self.rule["requires"], held, 1) else "SW401"
            elif what == "ends" and is_good:
                came |= {number for number, coming in enumerate(self.coming) if part in coming}

    def _after(self, memory: tuple[int, ...], event: Event) -> tuple[int, ...]:
        after = []
        for guard, coming, reads, level in zip(self.guards, self.coming, self.reads, memory, strict=True):
            if not coming.isdisjoint(event.succeeded) and ("branch" not in guard or guard["branch"] in event.branch):
                after.append(2)
            else:
                after.append(1 if level == 2 and not reads.isdisjoint(event.assigned) else level)
        return tuple(after)

    def _counted(self, memory: int, event: Event) -> tuple[int, str, int]:
        count = len(self.first.intersection(event.started))
        if count and memory + count > 1:
            return 1, "SW404", 0
        again = [extra for part, extra in event.again if part in self.first]
        return memory or min(count, 1), "SW404" if again else "", min(again, default=0)

    def _owed(self, memory: int, event: Event) -> tuple[int, str, int]:
        if event.happens:
            for what, part, is_good, _ in event.happens:
                if what == "starts" and part in self.second:
                    memory = 0
                elif is_good and part in self.first - self.second:
                    memory = 1
            whole = {event.happens[0].part}.intersection(event.succeeded)
            memory = 1 if whole & self.first - self.second else memory
        elif self.second.intersection(event.started):
            memory = 0
        if not event.happens and (self.first - self.second).intersection(event.succeeded):
            memory = 1
        ends = self.rule.get("ends")
        counts = event.ending and (ends != "success" or event.ending == "SUCCESS")
        return memory, "SW405" if memory and counts else "", 0

    def owes_when_cancelled(self, memory: Any) -> bool:
        """Return whether a run that is cancelled or out of budget now breaks the rule."""
        return bool(memory) and self.counts_cancelled


def _guards(requirement: dict[str, Any]) -> Iterator[dict[str, Any]]:
    parts = requirement.get("all_of") or requirement.get("any_of")
    if parts is None:
        yield requirement
    for part in parts or ():
        yield from _guards(part)


def _holds(requirement: dict[str, Any], held: dict[str, int], least: int) -> bool:
    if "all_of" in requirement:
        return all(_holds(part, held, least) for part in requirement["all_of"])
    if "any_of" in requirement:
        return any(_holds(part, held, least) for part in requirement["any_of"])
    return held[repr(requirement)] >= least


def arm_targets(step: dict[str, Any]) -> list[str]:
    named = [step.get("then"), step.get("otherwise"), step.get("error_step")]
    entries = [*step.get("cases", ()), *step.get("catch", ())]
    return [target for target in [*named, *(entry["then"] for entry in entries)] if target is not None]


def size_of(choices: Sequence[list[Fate]]) -> int:
    return prod(map(len, choices))


def status_of(step: dict[str, Any]) -> str:
    return "FAILED" if step.get("outcome") == "failure" else "SUCCESS"


def surely(read: Reader, values: Values) -> bool:
    try:
        return read(values) is True
    except Unreadable:
        return False
