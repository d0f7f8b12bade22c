"""Makes the picture of a program and of the findings of a check."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeGuard, assert_never

from stepward.validator.analysis.facts import ProgramFacts
from stepward.validator.diagram.forks import beside
from stepward.validator.diagram.marks import Marks
from stepward.validator.diagram.notes import notes_of
from stepward.validator.diagram.picture import MAX_BADGES, Badge, Box, Edge, EdgeKind, Kind, Line, Node, Picture, Tone
from stepward.validator.diagram.words import Body, body_word, lines_of, sub_step_lines, visits_words, whole_of, wrapped
from stepward.vm.language.guardrails import (
    AnyGuard,
    AnySelector,
    BranchSelector,
    FollowedBy,
    Requires,
    guards,
    protected,
)
from stepward.vm.language.selectors import Match, matches
from stepward.vm.language.steps import (
    AnyPart,
    AnyStep,
    BaseStep,
    ComputeStep,
    ConditionStep,
    EndStep,
    ForEachStep,
    LlmCall,
    ParallelStep,
    SetStep,
    Stage,
    ToolCall,
    WaitStep,
)
from stepward.vm.language.transitions import ANY, END, MISSING, Transition

_HINT: Final = 1_500
"""Characters of a hint."""

_NUMBERS: Final = 5


def draw(facts: ProgramFacts, marks: Marks | None = None, *, is_brief: bool = False) -> Picture:
    """Return the whole picture of a program, with the marks of a check on it if there are any.

    `is_brief` says that it will be collapsed, and shortens its notes.
    """
    return _Drawing(facts, marks or Marks()).picture(is_brief=is_brief)


class _Drawing:
    def __init__(self, facts: ProgramFacts, marks: Marks) -> None:
        self.facts, self.meaning, self.flow = facts, facts.meaning, facts.flow
        self.marks = marks
        self.walked = marks.walk.transitions if marks.walk is not None else frozenset()
        self.guarded, self.required = self._rules()
        self.badges = self._badges()
        self.signs: dict[str, Node] = {}

    def picture(self, *, is_brief: bool) -> Picture:
        """Return the whole picture."""
        start = Node("start", "start")
        nodes: list[Node | Box] = [start]
        edges = [Edge("start", self._into(0), is_walked=self._is_walked(self.flow.steps[0]))]
        for number, step in enumerate(self.flow.steps):
            nodes.append(self._box(number, step) if _is_box(step) else self._step(number, step))
            # Targets that are no steps are made with the edge: a sign, an ending, a missing step.
            edges += self._edges(number, step)
            nodes += self.signs.values()
            self.signs = {}
        program = self.facts.program
        notes = tuple(notes_of(self.meaning, self.marks, is_brief=is_brief))
        return Picture(program.name, notes, tuple(nodes), tuple(edges))

    # -- the whole program ---------------------------------------------------------------------------------------------

    def _rules(self) -> tuple[dict[str, list[str]], dict[tuple[str, Any], list[str]]]:
        """Return the guardrails that protect each step, by its id, and those that require each step or branch."""
        guarded: dict[str, list[str]] = {}
        required: dict[tuple[str, Any], list[str]] = {}
        everywhere = range(len(self.flow.steps))
        of_all = ((rule, everywhere) for rule, _ in self.meaning.rules)
        of_bodies = ((rule, self.flow.layout.inside(owner)) for rule, owner in self.meaning.body_rules)
        for rule, steps in (*of_all, *of_bodies):
            selectors = protected(rule)[:1] if isinstance(rule, FollowedBy) else protected(rule)
            found_parts = [match for selector in selectors for match in self._matches(selector, steps)]
            for match in found_parts:
                _add_name(guarded, match.part.id, rule.name)
            for guard in guards(rule.requires) if found_parts and isinstance(rule, Requires) else ():
                for match in self._matches(guard, steps):
                    branch = None
                    if isinstance(guard, BranchSelector):
                        assert isinstance(match.part, ConditionStep)
                        branch = match.part.branch_names[guard.branch]
                    _add_name(required, (match.part.id, branch), rule.name)
            if found_parts and isinstance(rule, FollowedBy):
                for match in self._matches(rule.followed_by.then, steps):
                    _add_name(required, (match.part.id, None), rule.name)
        return guarded, required

    def _matches(self, selector: AnySelector | AnyGuard, steps: range) -> list[Match]:
        """Return what a selector matches among the steps to which its guardrail applies."""
        return [match for match in matches(selector, self.meaning) if match.step in steps]

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
            if seen[step] > MAX_BADGES:
                continue
            text = f"{code} ×{count}" if count > 1 else code
            if seen[step] == MAX_BADGES and sum(one[0] == step for one in counts) > MAX_BADGES:
                text += " …"
            found.setdefault(step, []).append(Badge(text, "error" if severity == "error" else "warning"))
        return {step: tuple(badges) for step, badges in found.items()}

    # -- nodes ---------------------------------------------------------------------------------------------------------

    def _step(self, number: int, step: AnyStep) -> Node:
        return self._node(f"s{number}", step, (), is_dead=self._is_dead(number))

    def _node(self, name: str, step: AnyPart, more: Iterable[Line], *, is_dead: bool) -> Node:
        spec = self.meaning.tool(step.tool) if isinstance(step, ToolCall) else None
        is_declared = not isinstance(step, ToolCall) or step.tool in self.meaning.manifest
        about = lines_of(step, spec, is_declared=is_declared, body=self._body_of(step))
        lines = (*about, *self._rule_lines(step), *more)
        kind = self._kind(step)
        return Node(
            name,
            kind,
            (*lines, Line("no run gets here", "faint")) if is_dead else lines,
            self.badges.get(step.id, ()),
            self._hint(step, lines),
            is_dead,
            self._is_walked(step),
            step.id,
            self._rule_names(step),
            writes=int(kind == "write"),
        )

    def _kind(self, step: AnyPart) -> Kind:
        match step:
            case LlmCall():
                return "llm"
            case ToolCall():
                return "write" if self.meaning.tool(step.tool).effect == "write" else "read"
            case ConditionStep():
                return "condition"
            case SetStep() | ComputeStep() | WaitStep():
                return "set"
            case ForEachStep() | Stage() | ParallelStep():
                return "loop"
            case EndStep():
                return "item" if self._ends_item(step) else step.outcome
            case _:
                assert_never(step)

    def _ends_item(self, step: AnyPart) -> bool:
        """Return whether a step ends the present item of a `for_each` step, and not the run."""
        return isinstance(step, EndStep) and self.flow.layout.owner(self.flow.position[step.id]) is not None

    def _body_of(self, step: AnyPart) -> Body | None:
        """Return to what kind of body an end belongs, or what comes behind a body; None where it is of no body."""
        layout = self.flow.layout
        if isinstance(step, Stage):
            return None if step.role == "joined" else body_word(self._owner_of(step))
        owner = layout.owner(self.flow.position[step.id]) if isinstance(step, EndStep) else None
        return None if owner is None else body_word(layout.steps[owner])

    def _owner_of(self, stage: Stage) -> AnyStep:
        layout = self.flow.layout
        return layout.steps[layout.body_of(self.flow.position[stage.id]).owner]

    def _box(self, number: int, step: ParallelStep) -> Box:
        is_dead = self._is_dead(number)
        parts = tuple(
            self._node(f"s{number}p{sub}", part, sub_step_lines(part), is_dead=is_dead)
            for sub, part in enumerate(step.parallel_steps)
        )
        lines = (
            *lines_of(step, None),
            *self._rule_lines(step),
            *([Line("no run gets here", "faint")] if is_dead else ()),
        )
        badges, is_walked = self.badges.get(step.id, ()), self._is_walked(step)
        rules, order = self._rule_names(step), self.meaning.orders.get(number)
        needs = () if order is None else order.needs
        return Box(f"s{number}", lines, parts, badges, is_dead, is_walked, step.id, rules, needs=needs)

    def _rule_names(self, step: BaseStep) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*self.guarded.get(step.id, ()), *self.required.get((step.id, None), ())]))

    def _rule_lines(self, step: BaseStep) -> Iterator[Line]:
        if names := self.guarded.get(step.id):
            yield from _wrapped_lines("rules: " + ", ".join(names), "rule")
        if names := self.required.get((step.id, None)):
            yield from _wrapped_lines("required by: " + ", ".join(names), "rule")

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

    # -- edges ---------------------------------------------------------------------------------------------------------

    def _edges(self, number: int, step: AnyStep) -> Iterator[Edge]:
        start = f"s{number}join" if _is_box(step) else f"s{number}"
        transitions = list(beside(self.flow, number))
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
            end = self._end(number, transition)
            rules = tuple(self.required.get((step.id, transition.branch), ())) if transition.branch is not None else ()
            yield Edge(start, end, _edge_kind(transition), lines, is_dead or self._is_dead(number), is_walked, rules)

    def _is_drawn(self, number: int, index: int, transition: Transition) -> bool:
        if transition.kind in ("fallback", "skipped"):
            return False  # they are written on the edge of success
        if transition.kind == "end":
            return transition.to >= 0  # an `end` step that ends the run is a node
        return transition.is_drawn or transition.kind == "uncovered" or (number, index) in self.walked

    def _end(self, number: int, transition: Transition) -> str:
        if transition.to >= 0:
            return self._into(transition.to)
        name = f"s{number}{transition.kind}{transition.branch or ''}"
        if transition.to == MISSING:
            missing = self.flow.target_at(number, transition.field)
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

    def _into(self, number: int) -> str:
        return f"s{number}fork" if _is_box(self.flow.steps[number]) else f"s{number}"

    def _label(self, transition: Transition, step: AnyStep, merged: Iterable[str], *, is_dead: bool) -> Iterator[Line]:
        """Yield the lines of text along an edge."""
        if transition.kind == "failed":
            errors = transition.errors
            yield Line("on error" if errors is None or ANY in errors else f"on {', '.join(errors)}", "error")
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


def _is_box(step: AnyStep) -> TypeGuard[ParallelStep]:
    """Return whether a step is drawn as a box around its sub-steps."""
    return isinstance(step, ParallelStep) and not step.branches


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
