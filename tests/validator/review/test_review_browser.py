"""Slow: the review page in a real browser: no error, no text of a user is run, choosing, stepping, the keyboard."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from browser import CAN_BROWSE, WHY_NOT, Browser, browser
from review_pages import HOSTILE, NAME, bypassed, hostile, journal_of_two_runs, write_report

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not CAN_BROWSE, reason=WHY_NOT)]


@pytest.fixture(scope="module")
def window() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


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


def test_what_a_reviewer_needs_is_visible_without_scrolling(window: Browser, tmp_path: Path) -> None:
    opened(window, write_report(tmp_path, bypassed()))
    for words in ("guardrail-bypassed", "Leaves the safe path at", "Do: "):
        script = """
        const inside = Array.from(document.querySelectorAll('.finding *'));
        const found = inside.find(e => e.textContent.includes(arguments[0]));
        const box = found.getBoundingClientRect();
        return box.top >= 0 && box.bottom <= window.innerHeight && box.height > 0"""
        assert window.run(script, words) is True


def test_all_can_be_done_with_the_keyboard(window: Browser, tmp_path: Path) -> None:
    opened(window, write_report(tmp_path, bypassed()))
    window.run("document.querySelector('.diagram .step').focus()")
    step = window.run("return document.activeElement.dataset.step")
    window.press("\ue007")
    assert classes(window, "picked") == [step]
    order = []
    window.run("document.activeElement.blur(); window.scrollTo(0, 0)")
    for _ in range(12):
        window.press("\ue004")
        order.append(window.run("return document.activeElement.className?.baseVal ?? document.activeElement.className"))
    assert "pick error" in order
    assert "step" in " ".join(order)


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
