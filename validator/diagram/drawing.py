"""Makes the picture of a program and of the findings of a check."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final, assert_never

from stepward.validator.analysis.facts import ProgramFacts
from stepward.validator.diagram.marks import Marks
from stepward.validator.diagram.notes import notes_of
from stepward.validator.diagram.picture import Badge, Box, Edge, EdgeKind, Kind, Line, Node, Picture, Tone
from stepward.validator.diagram.words import lines_of, sub_step_lines, visits_words, whole_of, wrapped
from stepward.vm.language.flow import target_at
from stepward.vm.language.guardrails import BranchSelector, FollowedBy, Requires, guards, protected
from stepward.vm.language.selectors import matches
from stepward.vm.language.steps import (
    AnyPart,
    AnyStep,
    BaseStep,
    ConditionStep,
    EndStep,
    LlmCall,
    ParallelStep,
    SetStep,
    ToolCall,
)
from stepward.vm.language.transitions import END, MISSING, Transition

MAX_ERROR_EDGES: Final = 3
"""Error routes to one step that are drawn as edges; if there are more, each is a line of the node it starts from."""

MAX_EDGES: Final = 6
"""Other edges to one step; if there are more, all but the nearest lead to a sign that names the step."""

_HINT: Final = 1_500
"""Characters of a hint."""

_BADGES: Final = 4
_NUMBERS: Final = 5


def draw(facts: ProgramFacts, marks: Marks | None = None) -> Picture:
    """Return the picture of a program, with the marks of a check on it if there are any."""
    return _Drawing(facts, marks or Marks()).picture()


class _Drawing:
    def __init__(self, facts: ProgramFacts, marks: Marks) -> None:
        self.facts, self.meaning, self.flow = facts, facts.meaning, facts.flow
        self.marks = marks
        self.walked = marks.walk.transitions if marks.walk is not None else frozenset()
        self.guarded, self.required = self._rules()
        self.badges = self._badges()
        self.error_sources, self.other_sources = self._sources()
        self.signs: dict[str, Node] = {}

    def picture(self) -> Picture:
        """Return the whole picture."""
        start = Node("start", "start")
        nodes: list[Node | Box] = [start]
        edges = [Edge("start", self._into(0), is_walked=self._is_walked(self.flow.steps[0]))]
        for number, step in enumerate(self.flow.steps):
            nodes.append(self._box(number, step) if isinstance(step, ParallelStep) else self._step(number, step))
            # Targets that are no steps are made with the edge: a sign, an ending, a missing step.
            edges += self._edges(number, step)
            nodes += self.signs.values()
            self.signs = {}
        program = self.facts.program
        return Picture(program.name, tuple(notes_of(self.meaning, self.marks)), tuple(nodes), tuple(edges))

    # -- the whole program ---------------------------------------------------------------------------------------------

    def _rules(self) -> tuple[dict[str, list[str]], dict[tuple[str, Any], list[str]]]:
        """Return the guardrails that protect each step, by its id, and those that require each step or branch."""
        guarded: dict[str, list[str]] = {}
        required: dict[tuple[str, Any], list[str]] = {}
        for rule, _ in self.meaning.rules:
            selectors = protected(rule)[:1] if isinstance(rule, FollowedBy) else protected(rule)
            found_parts = [match for selector in selectors for match in matches(selector, self.meaning)]
            for match in found_parts:
                _add_name(guarded, match.part.id, rule.name)
            for guard in guards(rule.requires) if found_parts and isinstance(rule, Requires) else ():
                for match in matches(guard, self.meaning):
                    branch = None
                    if isinstance(guard, BranchSelector):
                        assert isinstance(match.part, ConditionStep)
                        branch = match.part.branch_names[guard.branch]
                    _add_name(required, (match.part.id, branch), rule.name)
            if found_parts and isinstance(rule, FollowedBy):
                for match in matches(rule.followed_by.then, self.meaning):
                    _add_name(required, (match.part.id, None), rule.name)
        return guarded, required

    def _badges(self) -> dict[str, tuple[Badge, ...]]:
        """Return the badges of each step or sub-step by its id: its numbers on the path, then codes, errors first."""
        found: dict[str, list[Badge]] = {}
        if self.marks.walk is not None:
            for step, numbers in self.marks.walk.numbers.items():
                more = " …" if len(numbers) > _NUMBERS else ""
                found[step] = [Badge(", ".join(map(str, numbers[:_NUMBERS])) + more, "path")]
        counts = Counter(
            (one.step, one.severity.value, one.code) for one in self.marks.findings if one.step is not None
        )
        seen: Counter[str] = Counter()
        for (step, severity, code), count in sorted(counts.items()):
            seen[step] += 1
            if seen[step] > _BADGES:
                continue
            text = f"{code} ×{count}" if count > 1 else code
            if seen[step] == _BADGES and sum(one[0] == step for one in counts) > _BADGES:
                text += " …"
            found.setdefault(step, []).append(Badge(text, "error" if severity == "error" else "warning"))
        return {step: tuple(badges) for step, badges in found.items()}

    def _sources(self) -> tuple[dict[int, set[int]], dict[int, set[int]]]:
        """Return the predecessors of each step, by error routes and by other transitions."""
        errors: dict[int, set[int]] = {}
        others: dict[int, set[int]] = {}
        for number, transitions in enumerate(self.flow.transitions):
            for transition in transitions:
                if transition.to >= 0:
                    (errors if transition.kind in ("failed", "visits") else others).setdefault(
                        transition.to, set()
                    ).add(number)
        return errors, others

    # -- nodes ---------------------------------------------------------------------------------------------------------

    def _step(self, number: int, step: AnyStep) -> Node:
        lines = (*self._entered(number), *self._error_lines(number))
        return self._node(f"s{number}", step, lines, is_dead=self._is_dead(number))

    def _node(self, name: str, step: AnyPart, more: Iterable[Line], *, is_dead: bool) -> Node:
        spec = self.meaning.tool(step.tool) if isinstance(step, ToolCall) else None
        is_declared = not isinstance(step, ToolCall) or step.tool in self.meaning.manifest
        lines = (*lines_of(step, spec, is_declared=is_declared), *self._rule_lines(step), *more)
        return Node(
            name,
            self._kind(step),
            (*lines, Line("no run gets here", "faint")) if is_dead else lines,
            self.badges.get(step.id, ()),
            self._hint(step, lines),
            is_dead,
            self._is_walked(step),
        )

    def _kind(self, step: AnyPart) -> Kind:
        match step:
            case LlmCall():
                return "llm"
            case ToolCall():
                return "write" if self.meaning.tool(step.tool).effect == "write" else "read"
            case ConditionStep():
                return "condition"
            case SetStep():
                return "set"
            case EndStep():
                return step.outcome
            case ParallelStep():
                raise AssertionError("a parallel step is a box")
            case _:
                assert_never(step)

    def _box(self, number: int, step: ParallelStep) -> Box:
        is_dead = self._is_dead(number)
        parts = tuple(
            self._node(f"s{number}p{sub}", part, sub_step_lines(part), is_dead=is_dead)
            for sub, part in enumerate(step.parallel_steps)
        )
        lines = (
            *lines_of(step, None),
            *self._rule_lines(step),
            *self._entered(number),
            *self._error_lines(number),
            *([Line("no run gets here", "faint")] if is_dead else ()),
        )
        return Box(f"s{number}", lines, parts, self.badges.get(step.id, ()), is_dead, self._is_walked(step))

    def _rule_lines(self, step: BaseStep) -> Iterator[Line]:
        if names := self.guarded.get(step.id):
            yield from _wrapped_lines("rules: " + ", ".join(names), "rule")
        if names := self.required.get((step.id, None)):
            yield from _wrapped_lines("required by: " + ", ".join(names), "rule")

    def _entered(self, number: int) -> Iterator[Line]:
        """Yield the number of predecessors whose edges are not drawn."""
        if self._is_crowded(number) and number > 0:
            yield Line(f"entered from {len(self.other_sources[number])} steps", "faint")
        if self._is_crowded(number, is_error=True):
            yield Line(f"on error from {len(self.error_sources[number])} steps", "error")

    def _error_lines(self, number: int) -> Iterator[Line]:
        """Yield the error routes of a step that are lines and not edges."""
        for index, transition in enumerate(self.flow.transitions[number]):
            if self._is_listed(number, index, transition):
                words = "on error" if transition.kind == "failed" else "after the last visit"
                yield from _wrapped_lines(f"{words} → {self.flow.steps[transition.to].id}", "error")

    def _hint(self, step: AnyPart, lines: Iterable[Line]) -> str:
        """Return the full text of a node whose lines are cut, and its findings."""
        findings = [f"{one.code} {one.message}" for one in self.marks.findings if one.step == step.id]
        is_cut = any(line.text.endswith("…") or line.tone == "faint" for line in lines)
        text = "\n".join([*([whole_of(step)] if is_cut else []), *findings]).strip()
        return text if len(text) <= _HINT else f"{text[: _HINT - 1]}…"

    def _is_dead(self, number: int) -> bool:
        return number not in self.facts.graph.reachable or number in self.marks.dead_steps

    def _is_walked(self, step: BaseStep) -> bool:
        return self.marks.walk is not None and step.id in self.marks.walk.numbers

    def _is_crowded(self, target: int, *, is_error: bool = False) -> bool:
        if is_error:
            return len(self.error_sources.get(target, ())) > MAX_ERROR_EDGES
        return len(self.other_sources.get(target, ())) > MAX_EDGES

    def _is_listed(self, number: int, index: int, transition: Transition) -> bool:
        """Return whether an error route is a line of its node."""
        if transition.kind not in ("failed", "visits") or transition.to < 0 or (number, index) in self.walked:
            return False
        return self._is_crowded(transition.to, is_error=True)

    # -- edges ---------------------------------------------------------------------------------------------------------

    def _edges(self, number: int, step: AnyStep) -> Iterator[Edge]:
        start = f"s{number}join" if isinstance(step, ParallelStep) else f"s{number}"
        transitions = list(enumerate(self.flow.transitions[number]))
        merged = {
            transition.kind: (number, index) in self.walked
            for index, transition in transitions
            if transition.kind in ("fallback", "skipped")
        }
        for index, transition in transitions:
            is_walked = (number, index) in self.walked or (transition.kind == "success" and any(merged.values()))
            is_dead = (number, index) in self.marks.dead_transitions
            if not self._is_drawn(number, index, transition) or (transition.kind == "uncovered" and is_dead):
                continue
            lines = tuple(self._label(transition, step, merged, is_dead=is_dead))
            end = self._end(number, transition, is_walked=is_walked)
            yield Edge(start, end, _edge_kind(transition), lines, is_dead or self._is_dead(number), is_walked)

    def _is_drawn(self, number: int, index: int, transition: Transition) -> bool:
        if transition.kind in ("end", "fallback", "skipped"):
            return False  # an `end` step is a node; the others are written on the edge of success
        if not transition.is_drawn and transition.kind != "uncovered":
            return (number, index) in self.walked
        return not self._is_listed(number, index, transition)

    def _end(self, number: int, transition: Transition, *, is_walked: bool) -> str:
        if transition.to >= 0:
            if is_walked or transition.kind in ("failed", "visits") or self._is_near(number, transition.to):
                return self._into(transition.to)
            target = self.flow.steps[transition.to]
            lines = (Line("→ " + wrapped(target.id, most=2)[0], "name"),)
            return self._sign(f"s{number}to{transition.to}", "sign", lines, number)
        name = f"s{number}{transition.kind}{transition.branch or ''}"
        if transition.to == MISSING:
            missing = target_at(self.flow.steps[number], transition.field)
            return self._sign(name, "broken", _wrapped_lines(f"missing: {missing}", "text"), number)
        assert transition.to == END
        assert transition.ending is not None
        if transition.ending.reason == "declared":
            kind: Kind = "success" if transition.ending.status == "SUCCESS" else "failure"
            return self._sign(name, kind, (Line(kind),), number)
        words = {"uncovered": "no branch", "error": "the run fails", "visits": "the run stalls"}
        return self._sign(name, "broken", (Line(words[transition.ending.reason]),), number)

    def _sign(self, name: str, kind: Kind, lines: Iterable[Line], number: int) -> str:
        self.signs[name] = Node(name, kind, tuple(lines), is_dead=self._is_dead(number))
        return name

    def _is_near(self, number: int, target: int) -> bool:
        """Return whether an edge is drawn to its target: of many edges to one step, only the nearest is."""
        if not self._is_crowded(target):
            return True
        return number == min(self.other_sources[target], key=lambda source: (abs(source - target), source))

    def _into(self, number: int) -> str:
        return f"s{number}fork" if isinstance(self.flow.steps[number], ParallelStep) else f"s{number}"

    def _label(self, transition: Transition, step: AnyStep, merged: Iterable[str], *, is_dead: bool) -> Iterator[Line]:
        """Yield the lines of text along an edge."""
        if transition.kind == "failed":
            yield Line("on error", "error")
        elif transition.kind == "visits":
            yield Line(f"after {visits_words(step.max_visits or 0)}", "faint")
        elif transition.kind == "uncovered":
            yield Line("otherwise", "error")
        elif isinstance(step, ConditionStep):
            if isinstance(transition.branch, int):
                case = (step.cases or ())[transition.branch - 1]
                yield from _wrapped_lines(case.name or f"case {transition.branch}", "name")
                yield from _wrapped_lines(case.when, "text")
            else:
                yield Line(str(transition.branch), "name")
            if names := self.required.get((step.id, transition.branch)):
                yield from _wrapped_lines("required by: " + ", ".join(names), "rule")
        else:
            words = {"skipped": "also when it fails", "fallback": "also after a time-out"}
            yield from (Line(words[kind], "faint") for kind in sorted(merged))
        if is_dead:
            yield Line("never taken", "faint")


def _edge_kind(transition: Transition) -> EdgeKind:
    if transition.kind in ("failed", "uncovered"):
        return "error"
    return "visits" if transition.kind == "visits" else "branch" if transition.kind == "branch" else "next"


def _wrapped_lines(text: str, tone: Tone) -> tuple[Line, ...]:
    return tuple(Line(line, tone) for line in wrapped(text))


def _add_name(found: dict[Any, list[str]], key: Any, name: str) -> None:
    names = found.setdefault(key, [])
    if name not in names:
        names.append(name)
