"""Golden: diagrams kept as files, written anew by `STEPWARD_WRITE_FIXTURES=1`; Mermaid text against a small grammar."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from diagram_programs import large_program
from golden_diagrams import EVERYTHING, GOLDEN, KEPT
from stepward.validator.analysis.facts import ProgramFacts
from stepward.validator.cli import main
from stepward.validator.diagram.drawing import draw
from stepward.validator.diagram.mermaid import to_mermaid
from stepward.validator.diagram.picture import Box, Edge, Line, Node, Note, Picture
from stepward.validator.diagram.stubs import with_stubs
from stepward.validator.report.text import safe
from stepward.vm import Program

FORMATS = {"dot": "dot", "mermaid": "mmd"}


def drawn(program: Path | str, format_: str, folder: Path) -> str:
    path = program
    if isinstance(program, str):
        path = folder / "p.yaml"
        path.write_text(program)
    result = CliRunner().invoke(main, ["graph", "--isolated", f"--format={format_}", str(path)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("name", ["everything", *GOLDEN])
def test_a_diagram_is_the_one_that_was_looked_at(name: str, format_: str, tmp_path: Path) -> None:
    found = drawn(GOLDEN.get(name, EVERYTHING), format_, tmp_path)
    kept = KEPT / f"{name}.{FORMATS[format_]}"
    if os.environ.get("STEPWARD_WRITE_FIXTURES"):
        kept.parent.mkdir(exist_ok=True)
        kept.write_text(found, encoding="utf-8")
    assert found == kept.read_text(encoding="utf-8")


def test_every_kept_diagram_has_its_program() -> None:
    assert {path.stem for path in KEPT.iterdir()} == {"everything", *GOLDEN}


# -- a grammar of Mermaid, written from its documentation and sharing nothing with what writes it ----------------------

LABEL = r'"((?:<b>|</b>|<br/>|#\d+;|[^"#&<>;:`*%|\\{}\[\]~^@])*)"'
SHAPES = [
    r"\(\(%s\)\)",
    r"\(\[%s\]\)",
    r"\(%s\)",
    r"\[\[%s\]\]",
    r"\[/%s\\\]",
    r"\[/%s/\]",
    r"\[%s\]",
    r"\{\{%s\}\}",
    r">%s\]",
]
NODE = re.compile(r"(\w+)(?:" + "|".join(shape % LABEL for shape in SHAPES) + ")")
EDGE = re.compile(rf"(\w+) (?:-->|-\.->|==>)(?:\|{LABEL}\|)? (\w+)")
SUBGRAPH = re.compile(rf"subgraph (\w+) \[{LABEL}\]")
STYLE = r"[a-z-]+:[#\w. ]+(?:,[a-z-]+:[#\w. ]+)*"
KEYWORDS = {"end", "graph", "flowchart", "subgraph", "style", "class", "click", "default", "direction", "linkStyle"}


class Chart:
    """What a Mermaid text says; refuses what the grammar does not have."""

    def __init__(self, text: str) -> None:
        directive, head, *lines = text.splitlines()
        assert directive.startswith("%%{init: {")
        assert directive.endswith("}}}%%")
        assert head in ("flowchart TD", "flowchart LR")
        self.labels: dict[str, str] = {}
        self.edges: list[tuple[str, str, str]] = []
        self.classes: dict[str, list[str]] = {}
        defined: set[str] = set()
        linked: list[int] = []
        depth = 0
        for line in map(str.strip, lines):
            if found := NODE.fullmatch(line):
                self._name(found[1], next(part for part in found.groups()[1:] if part is not None))
            elif found := EDGE.fullmatch(line):
                self.edges.append((found[1], found[3], decoded(found[2] or "")))
            elif found := SUBGRAPH.fullmatch(line):
                self._name(found[1], found[2])
                depth += 1
            elif line == "end":
                depth -= 1
            elif found := re.fullmatch(rf"classDef (\w+) {STYLE}", line):
                defined.add(found[1])
            elif found := re.fullmatch(r"class ([\w,]+) (\w+)", line):
                self.classes[found[2]] = found[1].split(",")
            elif found := re.fullmatch(rf"linkStyle ([\d,]+) {STYLE}", line):
                linked += map(int, found[1].split(","))
            else:
                pytest.fail(f"no line of Mermaid: {line}")
        assert depth == 0
        assert defined == set(self.classes)
        assert {name for names in self.classes.values() for name in names} <= set(self.labels)
        assert {end for edge in self.edges for end in edge[:2]} <= set(self.labels)
        assert all(number < len(self.edges) for number in linked)
        assert len(set(linked)) == len(linked)

    def _name(self, name: str, label: str) -> None:
        assert name not in self.labels, f"{name} twice"
        assert name not in KEYWORDS
        self.labels[name] = decoded(label)


def decoded(label: str) -> str:
    """Return the text that a reader sees, its lines apart."""
    lines = re.sub(r"</?b>", "", label).split("<br/>")
    return "\n".join(re.sub(r"#(\d+);", lambda found: chr(int(found[1])), line) for line in lines).replace("\u200b", "")


@pytest.mark.parametrize("name", ["everything", *GOLDEN])
def test_mermaid_text_follows_the_grammar_and_shows_every_step(name: str, tmp_path: Path) -> None:
    chart = Chart(drawn(GOLDEN.get(name, EVERYTHING), "mermaid", tmp_path))
    program = Program.load(GOLDEN[name]) if name in GOLDEN else Program.from_yaml(EVERYTHING)
    for number, step in enumerate(program.layout.steps):
        assert step.id in chart.labels[f"s{number}"]
    entry = "s0fork" if program.steps[0].type == "parallel" else "s0"
    assert ("start", entry) in {edge[:2] for edge in chart.edges}
    if name == "gold_bonus":
        assert chart.classes["walked"] == ["s0", "s3", "s4", "s5", "s7", "s8"]
        assert chart.labels["s8"].startswith("path 6 · SW401\nlarge")
    if name == "expense_approval":
        assert [chart.labels[dead].split("\n")[1] for dead in chart.classes["dead"]] == ["board_review"]


def test_a_large_program_keeps_within_what_pages_draw_by_default() -> None:
    """Mermaid draws no text of over 50,000 characters and no more than 500 edges, unless it is set up otherwise."""
    facts = ProgramFacts(Program.from_dict(large_program(150)))
    text = to_mermaid(with_stubs(draw(facts)))
    assert len(text) < 50_000
    assert len(Chart(text).edges) < 500


HOSTILE = [
    'a"b', "a]b", "a)b", "a}b", "a|b", "a-->b", "end", "subgraph x", "%% comment", "%%{init: {}}%%", "a;b", "#35;",
    "&lt;", "<script>", "`code`", "**bold**", "__x__", "_x_", "1. list", "- list", "+ list", "# head", "$$x$$",
    "fa:fa-ban", "https://example.com", "www.x@y.z", "click s0 call f()", "style s0 fill:#f00;", "~~~",
    "a\\nb", "\u202e\x07", "日本", "",
]  # fmt: skip


def charts_of(text: str) -> Iterator[tuple[Chart, str]]:
    line = Line(text)
    picture = Picture(
        text,
        (Note(("notes", f"  {text}")),),
        (Node("start", "start"), Node("s0", "write", (line,)), Box("s1", (line,), (Node("s1p0", "llm", (line,)),))),
        (Edge("start", "s0"), Edge("s0", "s1fork", "branch", (line,))),
    )
    chart = Chart(to_mermaid(picture))
    yield chart, chart.labels["s0"]
    yield chart, chart.labels["s1"]
    yield chart, chart.labels["s1p0"]
    yield chart, chart.edges[-1][2]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_text_stays_a_label(text: str) -> None:
    for chart, label in charts_of(text):
        assert label.strip() == safe(text).strip()
        assert len(chart.edges) == 4


@given(st.text(max_size=30))
def test_any_text_stays_a_label(text: str) -> None:
    for _, label in charts_of(text):
        assert label.strip() == safe(text).replace("\u200b", "").strip()
