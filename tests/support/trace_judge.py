"""Judges the trace of a run: which rules it breaks, where it takes no branch, and where two cases hold at once.

It reads the records that the machine wrote (specs/journal.md) and rules as plain data, by the language's text alone. It
shares no code with the checker, nor with the machine, nor with the enumeration but for the reading of expressions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from brute_order import before_of, needs_of
from small_language import GONE, REFERENCE, Reader, Unreadable, compiled, frozen, names_of, parsed, references

SETTLED: Final = ("success", "fallback", "failed", "skipped")
_LEFT_BY_CALLS: Final = (["output"], ["error"], ["error_name"], ["errors"])
_NO_ARGUMENTS: Final = ((), {})

Breach = tuple[str, str]
"""A rule, or `coverage` and `exclusive cases` of a step, and the step where it is broken."""


class Judge:
    """One run. `judge` goes through its records; `breaches` and `reached` say what was met."""

    def __init__(self, program: dict[str, Any]) -> None:
        self.program = program
        self.steps = {step["id"]: step for step in program["steps"]}
        self.owner = {sub["id"]: step for step in program["steps"] for sub in step.get("parallel_steps", ())}
        self.parts = {
            **{sub["id"]: sub for step in program["steps"] for sub in step.get("parallel_steps", ())},
            **self.steps,
        }
        self.calls = {
            name for name, part in self.parts.items() if part["type"] in ("llm", "tool", "parallel", "compute")
        }
        self.rules = [Memory(rule, self) for rule in program["guardrails"]]
        self.values: dict[str, Any] = {}
        self.begun: set[tuple[str, int]] = set()
        self.fates: dict[str, dict[str, Any]] = {}
        self.begun_now: set[str] = set()
        self.before: dict[str, set[str]] = {}
        """The sub-steps on which each sub-step of a step with `depends_on` depends, at any distance."""
        for step in program["steps"]:
            self.before |= before_of(needs_of(step))
        self.breaches: set[Breach] = set()
        self.reached: set[str] = set()

    def judge(self, records: Iterable[dict[str, Any]], status: str, reason: str) -> Judge:
        """Go through the records of a run that came to that status for that reason."""
        step = ""
        for record in records:
            kind, body = record["kind"], record["body"]
            if kind == "started":
                self.values = {name: frozen(value) for name, value in body["inputs"].items()}
            elif "step" in body:
                step = self.owner.get(body["step"], self.parts[body["step"]])["id"]
                self._seen(kind, body)
        for rule in self.rules:
            if rule.owed and is_judged(rule.rule.get("ends"), status, reason):
                self.breaches.add((rule.name, step))
        return self

    def _seen(self, kind: str, body: dict[str, Any]) -> None:
        part = self.parts[body["step"]]
        if kind == "passed":  # its visits are used up: nothing starts
            for one in (part, *part.get("parallel_steps", ())):
                if one["id"] in self.calls:
                    self._bind(one, "failed", GONE, "Visits")
            return
        self.reached.add(self.owner.get(part["id"], part)["id"])
        if kind in ("intent", "attempt"):
            self._attempted(kind, body, part)
        elif kind == "branched":
            self._start(part, body["visit"])
            self._branched(part, body["branch"])
        elif kind in ("assigned", "waited"):
            self._start(part, body["visit"])
            self._assigned(part, body.get("values", {}))
        elif kind == "joined":
            self._start(part, body["visit"])
            if body["kind"] != "again":
                self._joined(part, body["kind"], body.get("error_name", GONE))
        elif kind == "blocked" and part["type"] in ("llm", "tool", "compute"):  # it did not start
            self._settled(part, body)
        elif kind in ("blocked", "ended", "waiting"):
            self._start(part, body["visit"])

    def _assigned(self, part: dict[str, Any], values: dict[str, Any]) -> None:
        if part["type"] == "compute":
            (value,) = values.values()
            self._bind(part, "success", frozen(value), GONE)
            return
        for rule in self.rules:
            rule.assigned(values)
            rule.succeeded(part)
        self.values |= {name: frozen(value) for name, value in values.items()}

    # -- starts ----------------------------------------------------------------------------------------------------

    def _start(self, part: dict[str, Any], visit: int) -> None:
        """Note that a step or sub-step starts, once for each visit, and its parallel step before it."""
        whole = self.owner.get(part["id"])
        if whole is not None:
            self._start(whole, visit)
        if (part["id"], visit) in self.begun:
            return
        self.begun.add((part["id"], visit))
        place = self.owner.get(part["id"], part)["id"]
        kept = self.values
        earlier = [one for one in self.owner.get(part["id"], {}).get("parallel_steps", ()) if self._precedes(one, part)]
        for one in earlier:
            self.values = self.values | self._outputs(one, self.fates[one["id"]])
        for rule in self.rules:
            if rule.starts_behind(part, [(one, self.fates[one["id"]]["kind"]) for one in earlier]):
                self.breaches.add((rule.name, place))
        self.values = kept
        self.begun_now.add(part["id"])

    def _precedes(self, one: dict[str, Any], part: dict[str, Any]) -> bool:
        return one["id"] in self.before.get(part["id"], ())

    def _outputs(self, part: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
        """Return what a call that has come out gives its names, and its error."""
        is_good = body["kind"] in ("success", "fallback")
        output = frozen(body.get("output", GONE)) if is_good else GONE
        names = [f"{part['id']}.output", *([part["output_key"]] if "output_key" in part else [])]
        error, name = (GONE, GONE) if is_good else ("error", body.get("error_name", GONE))
        return {**dict.fromkeys(names, output), f"{part['id']}.error": error, f"{part['id']}.error_name": name}

    def _attempted(self, kind: str, body: dict[str, Any], part: dict[str, Any]) -> None:
        """An intent stands before the attempt of a write, and of what may suspend; other calls have none."""
        is_again = (part["id"], body["visit"]) in self.begun
        tool = self.program["tools"][part["tool"]] if part["type"] == "tool" else {"effect": "none"}
        has_intent = tool.get("effect", "write") == "write" or tool.get("suspends", False) or part["id"] in self.before
        self._start(part, body["visit"])
        if is_again and (kind == "intent") is has_intent:
            for rule in self.rules:
                if rule.repeats(part):
                    self.breaches.add((rule.name, self.owner.get(part["id"], part)["id"]))
        if kind == "attempt" and body["kind"] in SETTLED:
            self._settled(part, body)

    def _settled(self, part: dict[str, Any], body: dict[str, Any]) -> None:
        """A call has come out; a sub-step binds its output when its parallel step is left."""
        if part["id"] in self.owner:
            self.fates[part["id"]] = body
        else:
            self._bind(part, body["kind"], frozen(body.get("output", GONE)), body.get("error_name", GONE))

    def _joined(self, whole: dict[str, Any], kind: str, name: Any) -> None:
        for part in whole["parallel_steps"]:
            body = self.fates.pop(part["id"], {"kind": "failed"})
            behind = [one for one in whole["parallel_steps"] if self._precedes(part, one)]
            started = [one for one in behind if one["id"] in self.begun_now]
            error = body.get("error_name", GONE)
            self._bind(part, body["kind"], frozen(body.get("output", GONE)), error, started)
        self.begun_now.clear()
        self._bind(whole, kind, "joined", name)

    def _bind(
        self, part: dict[str, Any], kind: str, output: Any, name: Any, behind: Sequence[dict[str, Any]] = ()
    ) -> None:
        """Give a call its output, or take it away; then note its success. `behind` depend on it, and have started."""
        is_good = kind in ("success", "fallback")
        outputs = [f"{part['id']}.output", *([part["output_key"]] if "output_key" in part else [])]
        self.values |= dict.fromkeys(outputs, output if is_good else GONE)
        self.values[f"{part['id']}.error"] = GONE if is_good else "error"
        self.values[f"{part['id']}.error_name"] = name
        for rule in self.rules:
            rule.assigned([*outputs, f"{part['id']}.error", f"{part['id']}.error_name"])
            if kind == "success":
                rule.succeeded(part, behind)

    # -- conditions ------------------------------------------------------------------------------------------------

    def _branched(self, step: dict[str, Any], branch: Any) -> None:
        if branch is None or (branch in ("then", "otherwise") and branch not in step):
            self.breaches.add((f"coverage {step['id']}", step["id"]))
        held = [self._holds(case["when"]) for case in step.get("cases", ())]
        if True in held and None not in held[: held.index(True)] and held.count(True) > 1:
            self.breaches.add((f"exclusive cases {step['id']}", step["id"]))
        labels = [branch] if "cases" not in step or branch == "otherwise" else [branch, _name(step, branch)]
        for rule in self.rules:
            rule.branched(step, labels)
            if branch is not None:  # a condition that takes no branch does not succeed
                rule.succeeded(step)

    def _holds(self, text: str) -> bool | None:
        try:
            return self.read(text, _NO_ARGUMENTS) is True
        except Unreadable:
            return None

    def read(self, text: str, arguments: tuple[Any, dict[str, Any]]) -> Any:
        """Return the value of an expression, here and now; `arguments` are those of a call, as they were written."""
        names: list[str] = []
        values: list[Any] = []

        def where(name: str) -> tuple[int, tuple[str, ...]]:
            root, fields = self.root(name)
            if root not in names:
                names.append(root)
                values.append(arguments[0] if root == "args" else self.values.get(root, GONE))
            return names.index(root), fields

        reader: Reader = compiled(parsed(text), where)
        return reader(tuple(values))

    def root(self, text: str) -> tuple[str, tuple[str, ...]]:
        """Return the variable that a reference speaks of, and the fields below it."""
        names = names_of(text)
        size = 2 if names[0] in self.calls and names[1:2] in _LEFT_BY_CALLS else 1
        return ".".join(names[:size]), tuple(names[size:])

    def arguments(self, part: dict[str, Any]) -> tuple[tuple[str, Any], ...] | Any:
        """Return the arguments of a call of a tool; no other step has any."""
        if part["type"] != "tool":
            return GONE
        return tuple((name, self._given(value)) for name, value in part.get("args", {}).items())

    def _given(self, value: Any) -> Any:
        is_read = isinstance(value, str) and REFERENCE.fullmatch(value)
        return self.read(value, _NO_ARGUMENTS) if is_read else frozen(value)


class Memory:
    """What one rule remembers of a run."""

    def __init__(self, rule: dict[str, Any], judge: Judge, inside: set[str] | None = None) -> None:
        """`inside` are the steps of which the rule speaks, None for all."""
        self.rule, self.judge, self.name, self.inside = rule, judge, rule["name"], inside
        self.came: dict[str, bool] = {}
        self.performed: set[int] = set()
        self.owed = False
        self.read_before: dict[str, set[str]] = {}
        self._take_over(rule.get("already"))

    def _take_over(self, already: Any) -> None:
        """Begin with what the runs before this one left of the rule."""
        if "requires" in self.rule:
            different = dict.fromkeys(map(repr, _in_order(self.rule["requires"])))
            for guard, past in zip(different, already or (), strict=False):
                self.came |= {guard: past["level"] == "fresh"}
                self.read_before[guard] = set(past.get("reads", ()))
        elif "followed_by" in self.rule:
            self.owed = bool(already)
        elif "exclusive" in self.rule:
            self.performed = {side for side, was in enumerate(already or ()) if was}
        elif already:
            self.performed = {0}

    def _selects(self, selector: dict[str, Any], part: dict[str, Any]) -> bool:
        if self.inside is not None and part["id"] not in self.inside:
            return False
        if "step" in selector:
            return bool(selector["step"] == part["id"])
        if part["type"] != "tool":
            return False
        effect = self.judge.program["tools"][part["tool"]].get("effect", "write")
        return bool(selector.get("tool") == part["tool"] or selector.get("effect") == effect)

    def starts(self, part: dict[str, Any]) -> bool:
        """Note a start; return whether it breaks the rule."""
        rule = self.rule
        if "protects" in rule:
            return self._selects(rule["protects"], part) and not self._is_met(rule["requires"])
        if "never" in rule:
            return self._selects(rule["never"], part) and self._is_forbidden(part)
        if "at_most_once" in rule:
            return self._selects(rule["at_most_once"], part) and self._performs(0)
        if "exclusive" in rule:
            sides = {side for side, one in enumerate(rule["exclusive"]) if self._selects(one, part)}
            self.performed |= sides
            return bool(sides) and self.performed == {0, 1}
        self.owed = self.owed and not self._selects(rule["followed_by"]["then"], part)
        return False

    def _performs(self, side: int) -> bool:
        is_again = side in self.performed
        self.performed.add(side)
        return is_again

    def repeats(self, part: dict[str, Any]) -> bool:
        """Note a further attempt: of what is not idempotent a further performance."""
        tool = self.judge.program["tools"].get(part.get("tool"), {})
        is_one = part["type"] == "tool" and tool.get("idempotent", False)
        return not is_one and "at_most_once" in self.rule and self._selects(self.rule["at_most_once"], part)

    def _is_forbidden(self, part: dict[str, Any]) -> bool:
        if "when" not in self.rule:
            return True
        try:
            return self.judge.read(self.rule["when"], (self.judge.arguments(part), {})) is True
        except Unreadable:
            return True

    def _is_met(self, requirement: dict[str, Any]) -> bool:
        if "all_of" in requirement:
            return all(self._is_met(one) for one in requirement["all_of"])
        if "any_of" in requirement:
            return any(self._is_met(one) for one in requirement["any_of"])
        return self.came.get(repr(requirement), False)

    def _guards(self) -> Iterator[dict[str, Any]]:
        pending = [self.rule.get("requires", {})]
        while pending:
            one = pending.pop()
            inner = one.get("all_of") or one.get("any_of")
            pending += inner or []
            if not inner and one:
                yield one

    def starts_behind(self, part: dict[str, Any], earlier: Sequence[tuple[dict[str, Any], str]]) -> bool:
        """Note a start behind siblings that have come out, each with how; return whether it breaks the rule."""
        came = dict(self.came)
        for one, kind in earlier:
            names = [f"{one['id']}.{what}" for what in ("output", "error", "error_name")]
            names += [one["output_key"]] if "output_key" in one else []
            self.assigned(names)
            for guard in self._guards():
                if kind == "success" and "branch" not in guard and self._selects(guard, one):
                    self.came[repr(guard)] = True
        found = self.starts(part)
        self.came = came
        return found

    def succeeded(self, part: dict[str, Any], behind: Sequence[dict[str, Any]] = ()) -> None:
        """Note a success: of a guard without a branch, and of what is followed up."""
        for guard in self._guards():
            if "branch" not in guard and self._selects(guard, part):
                self.came[repr(guard)] = True
        pair = self.rule.get("followed_by")
        is_paid = bool(pair) and any(self._selects(pair["then"], one) for one in (part, *behind))
        if pair and self._selects(pair["first"], part) and not is_paid:
            self.owed = True

    def branched(self, step: dict[str, Any], labels: list[Any]) -> None:
        """Note a branch that was taken, by its name or number."""
        for guard in self._guards():
            if guard.get("step") == step["id"] and guard.get("branch") in labels:
                self.came[repr(guard)] = True

    def assigned(self, names: Iterable[str]) -> None:
        """Let the branches go stale whose condition reads what was assigned."""
        if not self.rule.get("fresh", True):
            return
        for guard in self._guards():
            step = self.judge.steps.get(guard["step"], {}) if "branch" in guard else {}
            texts = [step.get("condition", "true"), *(case["when"] for case in step.get("cases", ()))]
            read = {self.judge.root(name)[0] for text in texts for name in references(parsed(text))}
            read |= self.read_before.get(repr(guard), set())
            if read.intersection(names):
                self.came[repr(guard)] = False


def _in_order(requirement: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the single guards of a requirement as they are written."""
    inner = requirement.get("all_of") or requirement.get("any_of")
    if not inner:
        yield requirement
    for part in inner or ():
        yield from _in_order(part)


def _name(step: dict[str, Any], branch: Any) -> Any:
    return step["cases"][branch - 1].get("name") if isinstance(branch, int) else None


def is_judged(ends: str | None, status: str, reason: str) -> bool:
    """Whether `followed_by` speaks of a run that ended so."""
    if ends == "success" or status == "SUCCESS":
        return status == "SUCCESS"
    if ends == "any":
        return status in ("FAILED", "STALLED", "BUDGET_EXCEEDED", "CANCELLED")
    return status == "FAILED" or reason == "visits"
