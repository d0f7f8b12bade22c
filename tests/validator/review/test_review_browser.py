"""Slow: the review page in a real browser: no error, no text of a user is run, choosing, stepping, the keyboard."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from browser import AXE, CAN_BROWSE, WHY_NOT, Browser, browser, serious_faults
from otlp_fleets import HEALTHY, write_fleet
from review_pages import HOSTILE, NAME, bypassed, hostile, journal_of_two_runs, large, write_report
from stepward.validator.cli import main
from stepward.vm import ExecutionVM, Program, SQLiteJournal

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not CAN_BROWSE, reason=WHY_NOT)]


@pytest.fixture(scope="module")
def window() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def large_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(tmp_path_factory.mktemp("large"), large())


def opened(window: Browser, page: Path) -> None:
    window.open(page.as_uri())
    assert window.log() == []


def classes(window: Browser, name: str) -> list[str]:
    script = "return Array.from(document.querySelectorAll(arguments[0])).map(e => e.dataset.step)"
    found: list[str] = window.run(script, f".program .diagram .{name}")
    return found


def test_a_hostile_program_is_shown_and_not_run(window: Browser, tmp_path: Path) -> None:
    opened(window, write_report(tmp_path, hostile()))
    assert window.run("return document.title") == "Stepward report"
    assert window.run("return document.querySelector('h2').textContent").startswith(NAME)
    assert HOSTILE in window.run("return document.body.textContent")
    assert window.run("return document.querySelectorAll('script').length") == 2
    assert window.log() == []


def test_a_finding_shows_its_step_and_a_run_moves_the_mark(window: Browser, tmp_path: Path) -> None:
    opened(window, write_report(tmp_path, bypassed()))
    window.click(".pick")
    assert classes(window, "picked") == ["pay"]
    assert window.run("return Array.from(document.querySelectorAll('.finding')).filter(e => !e.hidden).length") == 1
    seen = []
    for _ in range(3):
        seen += classes(window, "here") or [""]
        window.click(".finding:not([hidden]) .bar button:nth-child(2)")
    assert seen == ["", "check", "pay"]
    values = window.run("return document.querySelector('.finding:not([hidden]) dl.state').textContent")
    assert values.startswith("amount")
    window.click(".finding:not([hidden]) .bar button:nth-child(1)")
    assert classes(window, "here") == ["check"]
    assert window.log() == []


VISIBLE = """
const found = Array.from(document.querySelectorAll(arguments[0])).find(
  e => e.textContent.includes(arguments[1]) && e.getClientRects().length);
if (!found) { return "missing"; }
const box = found.getBoundingClientRect();
if (box.top < 0 || box.bottom > innerHeight || box.left < 0 || box.right > innerWidth) { return "outside"; }
// What lies on top at its corners: a frame that scrolls may hide what lies in the window.
const inside = [[box.left + 2, box.top + 2], [box.right - 2, box.bottom - 2]].every(([x, y]) => {
  const top = document.elementFromPoint(x, y);
  return top && (found.contains(top) || top.contains(found)) && !top.matches("body, main, section");
});
return inside ? "visible" : "hidden";
"""


@pytest.mark.parametrize(
    ("program", "guardrail", "parts"),
    [
        (bypassed(), "look-first", "Leaves the safe path at check."),
        (None, "g0", "this path avoids it where branch `then` of `c0` goes to `t0`"),  # no path of it is safe
    ],
)
def test_what_a_reviewer_needs_is_visible_at_1280x800_without_scrolling(
    window: Browser, tmp_path: Path, large_page: Path, program: dict[str, Any] | None, guardrail: str, parts: str
) -> None:
    window.resize(1280, 800)
    opened(window, large_page if program is None else write_report(tmp_path, program))
    assert window.run("return [innerWidth, innerHeight]") == [1280, 800]
    assert window.run("return document.documentElement.scrollHeight") >= 800, "there is more to scroll to"
    assert window.run(VISIBLE, ".finding .message", guardrail) == "visible"
    assert window.run(VISIBLE, ".finding .help", "Do: route every path") == "visible"
    assert window.run(VISIBLE, ".finding p", parts) == "visible"
    assert window.run("return [scrollY, document.querySelector('.chosen').scrollTop]") == [0, 0]
    assert window.run(VISIBLE, ".diagram .step.picked", "") == "visible", "so is the step"


def test_each_finding_of_many_shows_its_step_in_diagram_and_source(window: Browser, large_page: Path) -> None:
    window.resize(1280, 800)
    opened(window, large_page)
    for number in (30, 1, 17):
        button = f".program li:nth-child({number}) > .pick"
        step = window.run("return document.querySelector(arguments[0]).dataset.step", button)
        window.run("document.querySelector(arguments[0]).scrollIntoView()", button)
        window.click(button)
        assert classes(window, "picked") == [step]
        assert window.run(VISIBLE, ".diagram .step.picked", "") == "visible"
        assert window.run(VISIBLE, ".finding:not([hidden]) .message", f"`{step}`") == "visible"
        lines = window.run("return Array.from(document.querySelectorAll('.line.picked')).map(e => e.dataset.step)")
        assert set(lines) == {step}
    assert window.log() == []


FOCUS = """
const at = document.activeElement;
const all = Array.from(document.querySelectorAll("a[href], button, input, select, summary, [tabindex]"));
const shown = all.filter(e => e.getClientRects().length && !e.disabled && e.tabIndex >= 0);
return [shown.indexOf(at), shown.length, getComputedStyle(at).outlineStyle, at.className.baseVal ?? at.className];
"""


def test_all_can_be_reached_with_the_keyboard_in_the_order_of_the_page(window: Browser, tmp_path: Path) -> None:
    window.resize(1280, 800)
    opened(window, write_report(tmp_path, bypassed()))
    order, seen = [], []
    for _ in range(window.run(FOCUS)[1]):
        window.press("\ue004")
        at, _, outline, name = window.run(FOCUS)
        order.append(at)
        seen.append(name)
        assert outline != "none", f"nobody sees the focus of {name}"
    assert order == list(range(len(order)))
    kinds = [next(i for i, name in enumerate(seen) if kind in name) for kind in ("pick", "step", "step-name")]
    assert kinds == sorted(kinds), "findings, then the diagram, then what was chosen"


def test_enter_picks_a_step_of_the_diagram(window: Browser, tmp_path: Path) -> None:
    opened(window, write_report(tmp_path, bypassed()))
    window.run("document.querySelector('.diagram .step').focus()")
    step = window.run("return document.activeElement.dataset.step")
    window.press("\ue007")
    assert classes(window, "picked") == [step]


def test_a_run_of_a_chain_is_shown_with_the_others(window: Browser, tmp_path: Path) -> None:
    program, journal = journal_of_two_runs(tmp_path)
    with closing(SQLiteJournal(str(journal))) as opened_journal:
        machine = ExecutionVM(journal=opened_journal, checker=None)
        steps = [{"id": name, "type": "set", "set": {"x": 1}} for name in "ab"]
        short = Program.from_dict({"max_steps": 1, "steps": steps})
        machine.run_sync(short, {}, run_id="chain")
        machine.continue_run_sync("chain", short, grant={"steps": 1})
    opened(window, write_report(tmp_path, program, "--journal", str(journal)))
    for row, shown in (("chain", ["chain", "chain~1"]), ("small-1", ["small-1"]), ("chain~1", ["chain", "chain~1"])):
        window.click(f".run-row[data-run='{row}']")
        script = "return Array.from(document.querySelectorAll('.run:not([hidden])')).map(e => e.dataset.run)"
        assert window.run(script) == shown
    assert "goes on where that has ended" in window.run("return document.querySelector('.run .boundary').textContent")
    assert window.log() == []


@pytest.mark.skipif(not AXE, reason="axe-core is not there: STEPWARD_AXE names its file")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(window: Browser, tmp_path: Path, scheme: str) -> None:
    program, journal = journal_of_two_runs(tmp_path)
    fleet_page = tmp_path / "fleet.html"
    spans = write_fleet(tmp_path / "spans.json", HEALTHY, 1, 12, 100)
    assert CliRunner().invoke(main, ["analyze", str(spans), "-o", str(fleet_page)]).exit_code == 0
    window.prefer(scheme)
    window.resize(1280, 800)
    for page in (
        lambda: write_report(tmp_path, bypassed()),
        lambda: write_report(tmp_path, program, "--journal", str(journal)),
        lambda: fleet_page,
    ):
        opened(window, page())
        assert serious_faults(window, scheme) == []


def test_runs_are_filtered_and_shown_with_their_path(window: Browser, tmp_path: Path) -> None:
    program, journal = journal_of_two_runs(tmp_path)
    opened(window, write_report(tmp_path, program, "--journal", str(journal)))
    assert window.run("return document.querySelectorAll('.run-row').length") == 2
    window.run(
        "const field = document.getElementById('runs-text'); field.value = 'small';"
        "field.dispatchEvent(new Event('input'))"
    )
    assert window.run("return document.querySelectorAll('.run-row').length") == 1
    window.click(".run-row")
    taken = window.run(
        "return Array.from(document.querySelectorAll('.run:not([hidden]) .taken')).map(e => e.dataset.step)"
    )
    assert taken == ["check", "small"]
    assert window.log() == []
