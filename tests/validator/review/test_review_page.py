"""Fast: the review page as a file: what is on it, that it needs nothing else, and that no text of a user is markup."""

from __future__ import annotations

import base64
import json
import re
import sqlite3
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from xml.etree.ElementTree import Element, fromstring

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from paths import ROOT
from review_pages import HOSTILE, NAME, bypassed, hostile, journal_of_two_runs, large, write_report
from stepward.validator.cli import main
from stepward.validator.diagram.picture import Picture
from stepward.validator.diagram.rendering import NotDrawnError
from stepward.validator.review import programs
from stepward.validator.review.elements import element, html, plain_text
from stepward.vm import Program, SQLiteJournal


class Parsed(HTMLParser):
    """The elements of a page with their attributes, and its texts; those of scripts and styles by themselves."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.codes: list[tuple[str, str]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.cdata_elem:
            self.codes.append((self.cdata_elem, data))
        else:
            self.texts.append(data)


def parsed(page: Path) -> Parsed:
    return Parsed(page.read_text(encoding="utf-8"))


def test_the_page_needs_nothing_else_and_allows_only_its_own_script_and_style(tmp_path: Path) -> None:
    program, journal = journal_of_two_runs(tmp_path)
    page = parsed(write_report(tmp_path, program, "--journal", str(journal)))
    names = {name for _, attributes in page.elements for name in attributes}
    assert not {name for name in names if name.startswith("on") or name in {"style", "src", "srcset", "action"}}
    addresses = [attributes["href"] or "" for _, attributes in page.elements if "href" in attributes]
    assert addresses
    assert all(address.startswith("#") for address in addresses)
    (policy,) = [
        one["content"] or "" for tag, one in page.elements if one.get("http-equiv") == "Content-Security-Policy"
    ]
    style = next(text for tag, text in page.codes if tag == "style")
    script = next(text for tag, text in page.codes if tag == "script" and text.startswith("//"))
    for name, text in (("style-src", style), ("script-src", script)):
        digest = base64.b64encode(sha256(text.encode()).digest()).decode()
        assert f"{name} 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert "url(" not in style
    assert "@import" not in style


def test_a_hostile_program_is_text(tmp_path: Path) -> None:
    page = parsed(write_report(tmp_path, hostile()))
    assert not {tag for tag, _ in page.elements} & {"img", "b onmouseover"}
    assert [tag for tag, _ in page.elements].count("script") == 2
    text = "".join(page.texts)
    assert NAME in text
    assert HOSTILE in text
    assert "<b onmouseover=alert(1)>" in text


@given(st.text(max_size=30), st.text(max_size=30))
def test_no_text_and_no_attribute_is_ever_markup(text: str, value: str) -> None:
    page = Parsed(html(element("p", text, element("i", title=value))))
    assert [tag for tag, _ in page.elements] == ["p", "i"]
    assert "".join(page.texts).strip("\n") == plain_text(text).strip("\n")
    assert set(page.elements[1][1]) <= {"title"}


def test_a_finding_has_its_help_its_run_and_where_it_leaves_the_safe_path(tmp_path: Path) -> None:
    page = write_report(tmp_path, bypassed()).read_text(encoding="utf-8")
    text = re.sub(r"<[^>]*>", "", page)
    assert "SW401 guardrail-bypassed" in text
    assert "Do: route every path to `pay` through tool `look`" in text
    assert "Leaves the safe path at check." in text
    assert "rejected: guardrail `look-first` forbids `pay` to start" in text
    assert page.count('data-step="pay"') > 3


def test_every_example_has_its_section_and_the_exit_status_is_that_of_check(tmp_path: Path) -> None:
    bad = ROOT / "specs/programs/bad/SW401"
    output = tmp_path / "r.html"
    result = CliRunner().invoke(main, ["report", str(bad), "--isolated", "-o", str(output)])
    assert result.exit_code == 1
    page = parsed(output)
    sections = [one for tag, one in page.elements if tag == "section"]
    assert len(sections) == len(list(bad.glob("*.yaml")))
    assert len([one for tag, one in page.elements if tag == "svg"]) == len(sections)
    good = ROOT / "specs/programs/good/customer_refund.yaml"
    assert CliRunner().invoke(main, ["report", str(good), "--isolated", "-o", str(output)]).exit_code == 0


def test_without_a_program_the_exit_status_is_that_of_check(tmp_path: Path) -> None:
    for command in (["check", str(tmp_path)], ["report", str(tmp_path), "-o", str(tmp_path / "r.html")]):
        result = CliRunner().invoke(main, [*command, "--isolated"])
        assert (result.exit_code, "nothing to check: there is no program in" in result.output) == (3, True)


def test_a_file_that_is_no_program_is_told_and_hides_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "programs"
    folder.mkdir()
    (folder / "a.json").write_text(json.dumps(bypassed()))
    (folder / "b.json").write_text(json.dumps({"name": "b", "steps": [{"id": "x", "type": "nothing"}]}))
    output = tmp_path / "r.html"
    assert CliRunner().invoke(main, ["report", str(folder), "--isolated", "-o", str(output)]).exit_code == 1
    text = "".join(parsed(output).texts)
    assert "Files without a program to draw" in text
    assert "`nothing`" in text
    assert "guardrail-bypassed" in text


def test_two_programs_of_one_file_have_each_their_own_findings(tmp_path: Path) -> None:
    file = tmp_path / "two.yaml"
    good = {"name": "fine", "inputs": {}, "steps": [{"id": "e", "type": "end"}]}
    file.write_text(f"{json.dumps(bypassed())}\n---\n{json.dumps(good)}\n")
    text = "".join(parsed(write_report(tmp_path, file)).texts)
    assert text.count("guardrail-bypassed") == 1
    assert "fine (0)" in text
    assert "bypass (1)" in text


def test_runs_are_listed_without_their_records_and_nothing_sensitive_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, journal = journal_of_two_runs(tmp_path)
    text = write_report(tmp_path, program, "--journal", str(journal)).read_text(encoding="utf-8")
    assert "ann@example.com" not in text
    assert 'data-run="small-1"' in text
    assert "[sensitive]" in text
    read = SQLiteJournal.read
    asked: list[str] = []
    monkeypatch.setattr(SQLiteJournal, "read", lambda self, run, *rest: (asked.append(run), read(self, run, *rest))[1])
    with sqlite3.connect(journal) as connection:
        rows = connection.execute("SELECT * FROM runs WHERE run = 'small-1'").fetchall()
        columns = [one[1] for one in connection.execute("PRAGMA table_info(runs)")]
        values = dict(zip(columns, rows[0], strict=True))
        assert len(rows) == 1
        marks = ", ".join("?" * len(columns))
        copies = ({**values, "run": f"copy-{number}", "number": 10 + number} for number in range(10_000))
        connection.executemany(f"INSERT INTO runs VALUES ({marks})", (tuple(copy.values()) for copy in copies))
    page = write_report(tmp_path, program, "--journal", str(journal), "--records", "0", "--run", "large-1")
    assert set(asked) == {"large-1", "large-1~1"}, "the run, and whether there is one that continues it"
    data = next(text for tag, text in parsed(page).codes if tag == "script" and text.startswith("["))
    assert len(json.loads(data)) == 10_002


def test_measures_of_the_runs_that_ended_last_are_shown(tmp_path: Path) -> None:
    program, journal = journal_of_two_runs(tmp_path, more=18)
    with sqlite3.connect(journal) as connection:
        connection.execute("UPDATE records SET record = 'damaged' WHERE run = 'more-3'")
    shown = write_report(tmp_path, program, "--journal", str(journal), "--records", "1").read_text(encoding="utf-8")
    assert "19 runs that ended last" in shown
    assert "Measures of all its runs" in shown[shown.index('id="measures"') :]
    without = write_report(tmp_path, program, "--journal", str(journal), "--records", "0").read_text(encoding="utf-8")
    assert 'id="measures"' not in without


def test_a_campaign_is_shown(tmp_path: Path) -> None:
    attack = {
        "name": "replay", "family": "crash", "outcome": "breach", "cases": 3, "events": 40, "why_not": None,
        "breach": {"invariant": "kept", "what": "<i>twice</i>"},
    }  # fmt: skip
    summary = {"ran": 1, "attacks": 1, "breaches": 1, "cases": 3, "events": 40}
    data = {"version": 1, "program": "bypass", "seed": 7, "attacks": [attack], "summary": summary}
    (tmp_path / "s.json").write_text(json.dumps(data))
    page = parsed(write_report(tmp_path, bypassed(), "--sabotage", str(tmp_path / "s.json")))
    text = "".join(page.texts)
    assert "kept: <i>twice</i>" in text
    assert "1 of 1 attacks ran for bypass: 1 breaches, 3 cases, 40 events, seed 7" in text
    assert "i" not in {tag for tag, _ in page.elements}


def test_the_file_that_a_campaign_writes_is_shown(tmp_path: Path) -> None:
    """The page knew an earlier version of the file alone, and refused each that is written today."""
    from stepward.sabotage.campaign import Orders, attack_program
    from stepward.validator.report.matrix import to_data

    attacks = ("reply-outside-the-set", "token-twice", "odd-receipts")
    matrix = attack_program(Program.from_dict(bypassed()), orders=Orders(examples=2, attacks=attacks, specimens=True))
    (tmp_path / "s.json").write_text(json.dumps(to_data(matrix, {})))
    text = "".join(parsed(write_report(tmp_path, bypassed(), "--sabotage", str(tmp_path / "s.json"))).texts)
    assert "3 of 3 attacks ran (0 on bypass, 2 only on built-in programs, 1 on what they make themselves): 0 br" in text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--sabotage", "none.json"], "`none.json` can't be read"),
        (["--sabotage", "program.json"], "`program.json` is no result of a campaign"),
        (["--sabotage", "half.json"], "`half.json` is no result of a campaign"),
        (["--journal", "none.db"], "there is no journal at `none.db`"),
        (["--run", "r"], "--run is for the runs of a journal"),
        (["-o", "none/r.html"], "`none/r.html` can't be written"),
    ],
)
def test_what_can_not_be_used_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("program.json").write_text(json.dumps(bypassed()))
    half = {"version": 1, "program": "p", "seed": 1, "attacks": [{"name": "a"}], "summary": {}}
    Path("half.json").write_text(json.dumps(half))
    result = CliRunner().invoke(main, ["report", "program.json", "--isolated", *options])
    assert result.exit_code == 2
    assert words in result.output


def test_a_page_of_150_steps_and_30_findings_is_below_3_megabytes(tmp_path: Path) -> None:
    page = write_report(tmp_path, large())
    assert "".join(parsed(page).texts).count("guardrail-bypassed") == 30
    assert page.stat().st_size < 3_000_000


ODD = [*"\x01\x08\x1b\x7f\u200b\u2028\u202e\ufdd0\ufeff\ufffe\uffff", "\U0001fffe", "\U000e0041"]


@pytest.mark.parametrize("odd", ODD, ids=ascii)
def test_a_program_with_any_character_is_drawn(tmp_path: Path, odd: str) -> None:
    branch = {
        "id": "c" if odd.isspace() else f"c{odd}",
        "type": "condition",
        "condition": f"$a == '{odd}'",
        "then": "e",
        "otherwise": "f",
    }
    ends = [{"id": "e", "type": "end"}, {"id": "f", "type": "end", "outcome": "failure", "output": odd}]
    file = tmp_path / "odd.json"
    inputs = {"a": {"type": "string", "maxLength": 5}}
    file.write_text(json.dumps({"name": f"x{odd}", "inputs": inputs, "steps": [branch, *ends]}))
    drawn = CliRunner().invoke(main, ["graph", "--isolated", str(file), "-o", str(tmp_path / "odd.svg")])
    assert drawn.exit_code == 0, drawn.output
    fromstring((tmp_path / "odd.svg").read_bytes())


def test_a_diagram_that_fails_costs_no_other_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = programs.drawn

    def fails(picture: Picture) -> Element:
        if picture.title.startswith("one"):
            raise NotDrawnError("`dot` did not draw the diagram: no", "")
        return draw(picture)

    monkeypatch.setattr(programs, "drawn", fails)
    for name in ("one", "two"):
        (tmp_path / f"{name}.json").write_text(json.dumps({"name": name, "steps": [{"id": "e", "type": "end"}]}))
    page = tmp_path / "r.html"
    done = CliRunner().invoke(main, ["report", "--isolated", str(tmp_path), "-o", str(page)])
    assert done.exit_code == 2, done.output
    assert "`dot` did not draw the diagram: no" in done.stderr
    text = page.read_text(encoding="utf-8")
    assert text.count("The diagram could not be drawn.") == 1
    assert "steps of two" in text
