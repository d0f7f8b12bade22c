"""Diagrams: a program as DOT text, and its rendering by a `dot` on the path or the one that comes along."""

from __future__ import annotations

import datetime
import html
import re
import shutil
import subprocess
import sys
import sysconfig
import textwrap
from collections import Counter
from collections.abc import Iterator
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, Final

from stepward.validator.analysis.context import Context
from stepward.validator.gate.settings import AdvisedError
from stepward.validator.report.text import safe, width
from stepward.vm.language.flow import END, MISSING, Transition
from stepward.vm.language.guardrails import (
    AllOf,
    AnyOf,
    AnyRequirement,
    AnyRule,
    AtMostOnce,
    Exclusive,
    FollowedBy,
    Never,
    Requires,
)
from stepward.vm.language.program import Program
from stepward.vm.language.selectors import matches
from stepward.vm.language.steps import (
    AnyStep,
    BaseStep,
    ConditionStep,
    EndStep,
    LlmCall,
    ParallelStep,
    Routed,
    SetStep,
    ToolCall,
)

if TYPE_CHECKING:
    from graphviz import Digraph

FORMATS: Final = ("svg", "png", "dot")
TIME_LIMIT_SECONDS: Final = 120

_WRAP: Final = 34
_MAX_ERROR_EDGES: Final = 6
_FONT: Final = "Helvetica"
_CLAUSE: Final = re.compile(r" (?=(?:and|or) )")
_EM_INCHES: Final = 11 / 72
_CHARACTER_EM: Final = 0.64
"""Width of a character, counted for the widest usual font: whoever shows the picture may not have the one we name."""

_MODEL: Final = {"shape": "box", "style": "rounded,filled", "fillcolor": "#e8e4fb", "color": "#5b4bb4"}
_READ: Final = {"shape": "box", "style": "filled", "fillcolor": "#eef4fb", "color": "#3a6ea5"}
_WRITE: Final = {"shape": "box", "style": "filled,bold", "fillcolor": "#ffe3c2", "color": "#c25a00", "penwidth": "2"}
_CONDITION: Final = {
    "shape": "diamond",
    "style": "filled",
    "fillcolor": "#fff8d6",
    "color": "#8a7400",
    "margin": "0.02",
}
_SET: Final = {"shape": "note", "style": "filled", "fillcolor": "#f3f3f3", "color": "#666666"}
_GOOD_END: Final = {
    "shape": "box",
    "style": "rounded,filled",
    "peripheries": "2",
    "fillcolor": "#dcf3dc",
    "color": "#2d7d2d",
}
_BAD_END: Final = {**_GOOD_END, "fillcolor": "#fbdcdc", "color": "#b02a2a"}
_BROKEN: Final = {"shape": "octagon", "style": "filled", "fillcolor": "#fbdcdc", "color": "#b02a2a"}
_BAR: Final = {"shape": "box", "style": "filled", "fillcolor": "#444444", "height": "0.06", "width": "1.2", "label": ""}
_DEAD: Final = {"style": "dashed", "fillcolor": "white", "color": "#aaaaaa", "fontcolor": "#888888", "penwidth": "1"}
_ERROR: Final = {"style": "dashed", "color": "#b02a2a", "fontcolor": "#b02a2a"}
_STUB: Final = {"shape": "plaintext", "fontcolor": "#b02a2a", "height": "0.2", "margin": "0.05,0.02"}
_ASIDE: Final = {"style": "dotted", "color": "#666666", "fontcolor": "#666666"}


class DiagramError(AdvisedError):
    """A diagram can't be drawn."""


def render(source: str, format: str) -> bytes:
    """Return a diagram in one of FORMATS; raises DiagramError when nothing here can draw it."""
    if format == "dot":
        return source.encode()
    command = [_program(), f"-T{format}"]
    try:
        done = subprocess.run(
            command, input=source.encode(), capture_output=True, timeout=TIME_LIMIT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        message = f"the diagram was not drawn within {TIME_LIMIT_SECONDS} seconds"
        raise DiagramError(message, "write `-o diagram.dot`, and draw it with another layout") from None
    if done.returncode != 0 or not done.stdout:
        why = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise DiagramError(f"`{command[0]}` did not draw the diagram: {why[-1] if why else 'it says nothing'}", "")
    return done.stdout


def _program() -> str:
    """Return what draws: `dot` on the path, else the one that is installed beside this interpreter."""
    beside = [FilePath(sys.executable).parent, FilePath(sysconfig.get_path("scripts"))]
    found = shutil.which("dot") or next(
        (path for folder in beside if (path := shutil.which("graphviz-pure", path=str(folder)))), None
    )
    found = found or shutil.which("graphviz-pure")
    if found is None:
        raise DiagramError("there is no `dot` to draw with", "install Graphviz, or `pip install graphviz-pure`")
    return found


def to_dot(program: Program) -> str:
    """Return a program's diagram as DOT text, the same text for the same program."""
    return _Drawing(program).dot()


# -- the drawing -------------------------------------------------------------------------------------------------------


class _Drawing:
    def __init__(self, program: Program) -> None:
        self.context = Context(program, (), datetime.datetime.now(datetime.UTC).date())
        self.flow = self.context.flow
        self.guards = self._guards()
        fails = Counter(
            way.to for ways in self.flow.transitions for way in ways if way.kind == "failed" and way.to >= 0
        )
        # An edge from everywhere to one place hides all others, so each gets a sign beside its start instead.
        self.crowded = frozenset(target for target, count in fails.items() if count > _MAX_ERROR_EDGES)
        self.graph = self._empty_graph()

    def dot(self) -> str:
        """Return the whole as DOT text."""
        self.graph.node("start", label="", shape="circle", style="filled", fillcolor="#444444", width="0.16")
        self.graph.edge("start", _into(0, self.flow.steps[0]))
        for number, step in enumerate(self.flow.steps):
            if isinstance(step, ParallelStep):
                self._parallel(number, step)
            else:
                self._node(f"s{number}", step, is_dead=not self.flow.reachable[number])
        for number, step in enumerate(self.flow.steps):
            self._edges(number, step)
        return str(self.graph.source)

    def _empty_graph(self) -> Digraph:
        from graphviz import Digraph

        program = self.context.program
        title = f'<font point-size="16"><b>{html.escape(safe(program.name))}</b></font>'
        lines = [title, *(html.escape(safe(_roomy(line))) for line in self._rule_lines())]
        label = "<" + "".join(f'{line}<br align="left"/>' for line in lines) + ">"
        common = {"fontname": _FONT, "fontsize": "11"}
        return Digraph(
            "program",
            graph_attr={"label": label, "labelloc": "t", "labeljust": "l", "fontname": _FONT, "fontsize": "12",
                        "nodesep": "0.35", "ranksep": "0.4", "pad": "0.3"},
            node_attr={**common, "margin": "0.14,0.07"},
            edge_attr={**common, "fontsize": "10", "arrowsize": "0.8"},
        )  # fmt: skip

    def _rule_lines(self) -> Iterator[str]:
        if self.context.program.guardrails:
            yield " "
            yield "guardrails"
        for rule in self.context.program.guardrails:
            yield from textwrap.wrap(
                f"{rule.name}: {_rule_words(rule)}", 90, initial_indent="  ", subsequent_indent="      "
            )
        yield " "

    def _guards(self) -> dict[str, list[str]]:
        """Return the guardrails that protect each step or sub-step, by its id."""
        guards: dict[str, list[str]] = {}
        for rule in self.context.program.guardrails:
            for selector in _protected(rule):
                for hit in matches(selector, self.context.meaning):
                    guards.setdefault(hit.part.id, []).append(rule.name)
        return guards

    # -- nodes -----------------------------------------------------------------------------------------------------

    def _node(self, name: str, step: BaseStep, *, is_dead: bool, into: Digraph | None = None) -> None:
        style = {**self._style(step), **(_DEAD if is_dead else {})}
        lines = [line for text in self._lines(step) for line in _wrapped(text)]
        head = [f"<b>{html.escape(line)}</b>" for line in _wrapped(safe(step.id))]
        body = [html.escape(line) for line in lines]
        longest = max(map(_columns, [*_wrapped(safe(step.id)), *lines]))
        inches = longest * _CHARACTER_EM * _EM_INCHES + 0.28
        if isinstance(step, ConditionStep):
            inches *= 1.6  # a diamond has half of its width to either side of the text's middle
        (into or self.graph).node(name, label=f"<{'<br/>'.join([*head, *body])}>", width=f"{inches:.2f}", **style)

    def _style(self, step: BaseStep) -> dict[str, str]:
        if isinstance(step, LlmCall):
            return _MODEL
        if isinstance(step, ToolCall):
            return _WRITE if self.context.meaning.tool(step.tool).effect == "write" else _READ
        if isinstance(step, ConditionStep):
            return _CONDITION
        if isinstance(step, SetStep):
            return _SET
        return _GOOD_END if isinstance(step, EndStep) and step.outcome == "success" else _BAD_END

    def _lines(self, step: BaseStep) -> Iterator[str]:
        """Yield what stands below the id of a step."""
        if isinstance(step, LlmCall):
            yield f"llm → ${step.output_key}" if step.output_key else "llm"
            if step.allowed_outputs:
                yield " | ".join(step.allowed_outputs)
        elif isinstance(step, ToolCall):
            yield f"{step.tool} → ${step.output_key}" if step.output_key else step.tool
            yield self._effect(step.tool)
        elif isinstance(step, SetStep):
            yield from (f"{name} = {value}" for name, value in step.set.items())
        elif isinstance(step, EndStep):
            yield f"end: {step.outcome}"
        if getattr(step, "max_visits", None) is not None:
            yield f"at most {step.max_visits} visits"  # type: ignore[attr-defined]
        if names := self.guards.get(step.id):
            yield "rules: " + ", ".join(dict.fromkeys(names))

    def _effect(self, tool: str) -> str:
        spec = self.context.meaning.tool(tool)
        words = {"write": "WRITES", "read": "reads", "none": "no effect"}[spec.effect]
        if tool not in self.context.meaning.manifest:
            words += " (not declared)"
        elif spec.effect == "write":
            words += ", idempotent" if spec.idempotent else ", not idempotent"
        return words + (", suspends" if spec.suspends else "")

    def _parallel(self, number: int, step: ParallelStep) -> None:
        """Draw a box with a bar from which the sub-steps start and one at which they join."""
        is_dead = not self.flow.reachable[number]
        names = self.guards.get(step.id, ())
        lines = [f"{step.id} (parallel)", *([f"rules: {', '.join(names)}"] if names else [])]
        label = "".join(_escaped(_roomy(line)) + "\\l" for line in lines)
        with self.graph.subgraph(name=f"cluster_s{number}") as box:
            box.attr(
                label=label, labeljust="l", style="rounded", color="#aaaaaa" if is_dead else "#444444", fontsize="11"
            )
            box.node(f"s{number}fork", **_BAR)
            for sub, part in enumerate(step.parallel_steps):
                self._node(f"s{number}p{sub}", part, is_dead=is_dead, into=box)
            box.node(f"s{number}join", **_BAR)
            for sub in range(len(step.parallel_steps)):
                box.edge(f"s{number}fork", f"s{number}p{sub}", arrowsize="0.6")
                box.edge(f"s{number}p{sub}", f"s{number}join", arrowsize="0.6")

    # -- edges -----------------------------------------------------------------------------------------------------

    def _edges(self, number: int, step: AnyStep) -> None:
        start = f"s{number}join" if isinstance(step, ParallelStep) else f"s{number}"
        ways = [way for way in self.flow.transitions[number] if way.is_drawn or way.kind == "uncovered"]
        for way in ways:
            if way.kind == "end" or (way.kind in ("fallback", "skipped")):
                continue  # an `end` step is its own picture; the others go the way of success and are told there
            also: set[str] = {other.kind for other in ways if other.kind in ("fallback", "skipped")}
            label, style = self._told(way, step, also if way.kind == "success" else set())
            self.graph.edge(start, self._target(number, way), label=_edge_label(label), **style)

    def _target(self, number: int, way: Transition) -> str:
        name = f"s{number}{way.kind}{way.branch or ''}"
        if way.to >= 0 and (way.kind != "failed" or way.to not in self.crowded):
            return _into(way.to, self.flow.steps[way.to])
        if way.to >= 0:
            self.graph.node(name, label=f"<to <b>{html.escape(safe(self.flow.steps[way.to].id))}</b>>", **_STUB)
            return name
        if way.to == MISSING:
            missing: Any = self.flow.steps[number]
            for part in way.field:
                missing = missing[part] if isinstance(part, int) else getattr(missing, part)
            self.graph.node(name, label=_escaped(f"missing: {missing}"), **_BROKEN)
        elif way.kind == "uncovered":
            self.graph.node(name, label="uncovered", **_BROKEN)
        else:
            assert way.to == END
            assert way.ending is not None
            is_good = way.ending.status == "SUCCESS"
            style = {**(_GOOD_END if is_good else _BAD_END), "height": "0.3", "margin": "0.1,0.05"}
            self.graph.node(name, label="success" if is_good else "failure", **style)
        return name

    def _told(self, way: Transition, step: AnyStep, also: set[str]) -> tuple[str, dict[str, str]]:
        """Return the label and the style of an edge."""
        if way.kind == "failed":
            return "on error", _ERROR
        if way.kind == "visits":
            assert isinstance(step, Routed | ConditionStep)
            return f"after {step.max_visits} visits", _ASIDE
        if way.kind == "uncovered":
            return "otherwise", _ERROR
        if isinstance(step, ConditionStep):
            return _branch_words(way, step), {}
        words = {"skipped": "also when it fails", "fallback": "also after a time-out"}
        return "\n".join(words[kind] for kind in sorted(also)), {}


def _into(number: int, step: AnyStep) -> str:
    return f"s{number}fork" if isinstance(step, ParallelStep) else f"s{number}"


def _branch_words(way: Transition, step: ConditionStep) -> str:
    if isinstance(way.branch, int):
        case = (step.cases or ())[way.branch - 1]
        return f"{case.name or f'case {way.branch}'}\n{case.when}"
    return f"then\n{step.condition}" if way.branch == "then" else "otherwise"


# -- words -------------------------------------------------------------------------------------------------------------


def _rule_words(rule: AnyRule) -> str:
    if isinstance(rule, Requires):
        return f"{rule.protects.text()} only after {_requirement_words(rule.requires)}"
    if isinstance(rule, Never):
        return f"never {rule.never.text()}" + (f" when {rule.when}" if rule.when else "")
    if isinstance(rule, AtMostOnce):
        return f"{rule.at_most_once.text()} at most once"
    if isinstance(rule, FollowedBy):
        return f"{rule.followed_by.first.text()} is followed by {rule.followed_by.then.text()}"
    return f"not both {rule.exclusive[0].text()} and {rule.exclusive[1].text()}"


def _requirement_words(requirement: AnyRequirement) -> str:
    if isinstance(requirement, AllOf | AnyOf):
        parts, word = (requirement.all_of, " and ") if isinstance(requirement, AllOf) else (requirement.any_of, " or ")
        return "(" + word.join(map(_requirement_words, parts)) + ")"
    return requirement.text()


def _protected(rule: AnyRule) -> list[Any]:
    if isinstance(rule, Requires):
        return [rule.protects]
    if isinstance(rule, FollowedBy):
        return [rule.followed_by.first]
    if isinstance(rule, Exclusive):
        return list(rule.exclusive)
    return [rule.never if isinstance(rule, Never) else rule.at_most_once]


def _wrapped(text: str) -> list[str]:
    """Return the lines of a text; nothing is left out, a word that is too long is broken."""
    clauses = _CLAUSE.sub("\n", safe(text.replace("\n", " ")))
    parts = clauses.split("\n") if len(text) > _WRAP else [text]
    return [line for part in parts for line in _folded(part)] or [""]


def _folded(text: str) -> list[str]:
    # A name stays whole where it fits on a line.
    is_tight = any(len(word) > _WRAP for word in text.split())
    return textwrap.wrap(text, _WRAP, break_on_hyphens=is_tight)


def _roomy(line: str) -> str:
    """Return a line with room at its end, for fonts that are wider than the one that was reckoned with."""
    return line + " " * (len(line) // 6 + 2)


def _columns(line: str) -> int:
    return sum(width(character, 0) for character in line)


def _edge_label(text: str) -> str:
    """Return a label with room at both ends: fonts differ, and it must not touch what is beside it."""
    lines = [line for part in text.split("\n") if part for line in _wrapped(part)]
    return "\\n".join(f"{pad}{_escaped(line)}{pad}" for line in lines for pad in [" " * (1 + len(line) // 12)])


def _escaped(text: str) -> str:
    return safe(text).replace("\\", "\\\\")
