"""Slow: the studio in a real browser: a live run lights its steps, the operator acts, two browsers see the same."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator

import pytest

from browser import AXE, CAN_BROWSE, WHY_NOT, Browser, browser, serious_faults
from review_pages import HOSTILE, NAME
from studios import HOSTILE_ID, TOKEN, Studio, hostile_program, served, until

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not CAN_BROWSE, reason=WHY_NOT)]


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    with served(tmp_path_factory.mktemp("studio")) as opened:
        opened.run("small", 7)
        yield opened


@pytest.fixture(scope="module")
def window() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


def opened(window: Browser, studio: Studio, *, acts: bool = False) -> None:
    window.open("about:blank")
    window.open(f"{studio.origin}/{f'#token={TOKEN}' if acts else ''}")
    until(window, "document.getElementById('live').textContent === 'live'")


def choose(window: Browser, run: str) -> None:
    until(
        window, "[...document.querySelectorAll('#live-list .run-row')].find(e => e.dataset.run === arguments[0])", run
    )
    window.run(
        "[...document.querySelectorAll('#live-list .run-row')].find(e => e.dataset.run === arguments[0]).click()", run
    )
    until(window, "document.querySelector('#chosen-run article')?.dataset.run === arguments[0]", run)
    until(window, "document.querySelector('#picture .step') !== null")


WATCH = """
window.seen = [];
new MutationObserver(() => {
  const step = document.querySelector("#picture .step.here");
  if (step && window.seen.at(-1) !== step.dataset.step) { window.seen.push(step.dataset.step); }
}).observe(document.getElementById("picture"), { subtree: true, attributes: true, childList: true });
"""


def test_a_live_run_lights_its_steps_in_order(window: Browser, studio: Studio) -> None:
    opened(window, studio)
    window.run(WATCH)
    studio.tools.pause = 1.5
    driver = threading.Thread(target=studio.run, args=("live", 20))
    driver.start()
    try:
        choose(window, "live")
        until(window, "document.querySelector('#chosen-run .verdict') !== null")
        until(window, "window.seen.at(-1) === 'done'")
    finally:
        driver.join()
        studio.tools.pause = 0.0
    assert window.run("return window.seen") == ["look", "large", "pay", "done"]
    assert "Verified" in window.run("return document.querySelector('#chosen-run .verdict').textContent")
    assert window.log() == []


def test_a_run_is_replayed_at_the_speed_that_is_asked_for(window: Browser, studio: Studio) -> None:
    opened(window, studio)
    choose(window, "small")
    window.run(WATCH)
    window.run("document.querySelector('#chosen-run .speed').value = '20'")
    window.click("#chosen-run .play")
    until(window, "window.seen.length && document.querySelector('#chosen-run .play').textContent === 'play'")
    assert window.run("return window.seen") == ["look", "large", "pay", "done"]
    assert window.log() == []


def test_a_run_that_is_left_while_it_plays_lights_nothing_in_the_next_one(window: Browser, studio: Studio) -> None:
    studio.run("left", 8)
    studio.run("stopped", 80)
    opened(window, studio)
    choose(window, "left")
    window.run("document.querySelector('#chosen-run .speed').value = '5'")
    window.click("#chosen-run .play")
    choose(window, "stopped")
    until(window, "document.querySelector('#picture .here')?.dataset.step === 'ask'")
    time.sleep(1)  # it would have gone on to `done`
    taken = window.run("return [...document.querySelectorAll('#picture .taken')].map(e => e.dataset.step)")
    assert taken == ["look", "large", "ask"]
    assert window.log() == []


def test_a_failure_is_offered_at_the_steps_where_it_can_act(window: Browser, studio: Studio) -> None:
    opened(window, studio, acts=True)
    choose(window, "small")
    offered = "return [...document.querySelector('.act.disturb select[name=step]').options].map(e => e.value)"
    assert window.run(offered) == ["", "look", "large", "pay", "done"]
    window.run("const one = document.querySelector('.act.disturb select'); one.value = 'time-out';"
               "one.dispatchEvent(new Event('change', { bubbles: true }))")  # fmt: skip
    assert window.run(offered) == ["", "look"]


def answer(window: Browser, text: str) -> None:
    window.run("document.querySelector('.act.resume textarea').value = arguments[0]", text)
    window.run("document.querySelector('.act.resume button').click()")


def test_an_answer_is_sent_once_however_often_its_button_is_pressed(window: Browser, studio: Studio) -> None:
    studio.run("twice", 61)
    opened(window, studio, acts=True)
    choose(window, "twice")
    until(window, "!document.querySelector('.act.resume button').disabled")
    window.run("document.getElementById('by').value = 'bea'")
    window.run("document.querySelector('.act.resume textarea').value = 'true'")
    window.run("const one = document.querySelector('.act.resume button'); one.click(); one.click()")
    until(window, "document.querySelector('#chosen-run article').dataset.status === 'SUCCESS'")
    kinds = [json.loads(entry.record)["kind"] for entry in studio.journal.read("twice")]
    assert "refused" not in kinds


def test_cancel_asks_first(window: Browser, studio: Studio) -> None:
    studio.run("kept", 62)
    opened(window, studio, acts=True)
    choose(window, "kept")
    until(window, "!document.querySelector('.act.cancel button').disabled")
    window.run("document.getElementById('by').value = 'bea'")
    window.run("document.querySelector('.act.cancel button').click()")
    assert "for good?" in window.run("return document.querySelector('.act.cancel output').textContent")
    window.run("document.querySelector('.act.cancel .no').click()")
    assert studio.machine.get_sync("kept").status == "SUSPENDED"
    window.run("document.querySelector('.act.cancel button').click()")
    window.run("document.querySelector('.act.cancel .yes').click()")
    until(window, "document.querySelector('#chosen-run article').dataset.status === 'CANCELLED'")


def test_the_run_is_in_the_address_and_back_works(window: Browser, studio: Studio) -> None:
    studio.run("address", 63)
    opened(window, studio, acts=True)
    choose(window, "small")
    choose(window, "address")
    assert window.run("return location.hash") == "#run=address"
    window.run("history.back()")
    until(window, "document.querySelector('#chosen-run article')?.dataset.run === 'small'")
    window.run("location.reload()")
    until(window, "document.querySelector('#chosen-run article')?.dataset.run === 'small'")
    window.run("history.back()")
    until(window, "document.querySelector('#picture .hint')?.textContent.startsWith('Choose a run')")


def test_a_speed_that_can_not_be_is_refused_and_a_position_is_that_of_the_list(window: Browser, studio: Studio) -> None:
    opened(window, studio)
    choose(window, "small")
    for speed in ("-3", "0", ""):
        window.run("document.querySelector('#chosen-run .speed').value = arguments[0]", speed)
        window.click("#chosen-run .play")
        assert window.run("return document.querySelector('#chosen-run .play').textContent") == "play", speed
    last = studio.journal.read("small")[-1].seq
    assert window.run("return document.querySelector('#chosen-run .bar output').textContent") == (
        f"record {last} of 0–{last}"
    )


def test_on_a_phone_the_page_goes_to_the_run_that_is_chosen(window: Browser, studio: Studio) -> None:
    window.resize(390, 844)
    try:
        opened(window, studio)
        choose(window, "small")
        until(window, "document.querySelector('#picture .here') !== null")
        inside = "(box => box.top >= 0 && box.bottom <= innerHeight)"
        until(window, f"{inside}(document.querySelector('#picture .here').getBoundingClientRect())")
        until(window, f"{inside}(document.querySelector('#chosen-run h3').getBoundingClientRect())")
    finally:
        window.resize(1280, 800)


def test_who_only_watches_can_not_act_and_the_operator_can(window: Browser, studio: Studio) -> None:
    studio.run("asked", 60)
    opened(window, studio)
    choose(window, "asked")
    assert until(window, "document.querySelector('.act.resume button').disabled")
    opened(window, studio, acts=True)
    assert TOKEN not in window.run("return location.href"), "a token does not stay in the address"
    choose(window, "asked")
    until(window, "!document.querySelector('.act.resume button').disabled")
    answer(window, "true")
    assert "Write your name" in window.run("return document.querySelector('.act.resume output.bad').textContent")
    window.run("document.getElementById('by').value = 'bea'")
    answer(window, "{")
    until(window, "document.querySelector('.act.resume output.bad')?.textContent.includes('as JSON')")
    window.run("document.querySelector('.act.resume textarea').value = 'true'")
    with browser() as other:
        opened(other, studio)
        choose(other, "asked")
        window.click(".act.resume button")
        for one in (window, other):
            until(one, "document.querySelector('#chosen-run article').dataset.status === 'SUCCESS'")
            assert "resumed: by bea; true" in one.run("return document.querySelector('#chosen-run ol').textContent")
        assert other.log() == []
    assert ["409" in line for line in window.log()] == [True], "the answer that could not be read"


FAILURES = {
    "kill": "detected: the machine, or a verification, told of it. Promise: ✓ held: no effect happens twice.",
    "time-out": "Promise: ✓ held: no effect is lost, and none is reported that did not happen.",
    "forged-reply": "blocked: the machine refused it. Promise: ✓ held: data stays data",
    "twice": "Promise: ✓ held: one id belongs to one run",
    "corrupted-record": "Promise: ✓ held: a changed journal is detected.",
    "skipped-step": "Promise: ✓ held: no transition is taken that the program does not have.",
    "clock-jump": "Promise: ✓ held: reading a run again gives the same state.",
}


def test_each_failure_shows_its_outcome_and_promise_in_every_browser(window: Browser, studio: Studio) -> None:
    entries = studio.journal.read("small")
    opened(window, studio, acts=True)
    choose(window, "small")
    for number, (what, words) in enumerate(FAILURES.items(), 1):
        window.run("document.querySelector('.act.disturb select').value = arguments[0]", what)
        until(window, "!document.querySelector('.act.disturb button').disabled")
        window.run("document.querySelector('.act.disturb button').click()")
        until(window, "document.querySelector('#sandbox article')?.dataset.sandbox === arguments[0]", str(number))
        text = window.run("return document.querySelector('#sandbox article').textContent")
        assert words in text
        assert "This happened in the memory of the studio" in text
    opened(window, studio)
    until(window, "document.querySelectorAll('#sandbox-list button').length === arguments[0]", len(FAILURES))
    listed = window.run("return document.querySelector('#sandbox-list').textContent")
    assert all(words in listed for words in ("kill the process at pay", "detected", "blocked", "absorbed"))
    assert studio.journal.read("small") == entries
    assert window.log() == []


def test_hostile_programs_and_outputs_are_text(window: Browser, studio: Studio) -> None:
    studio.machine.run_sync(hostile_program(), run_id=HOSTILE_ID)
    opened(window, studio)
    choose(window, HOSTILE_ID)
    text = window.run("return document.body.textContent")
    assert all(one in text for one in (HOSTILE, HOSTILE_ID, NAME))
    assert window.run("return document.querySelectorAll('img, #chosen-run script').length") == 0
    assert window.run("return document.title") == "Stepward studio"
    assert window.log() == []


def test_a_token_is_taken_from_the_address_of_a_page_that_is_open(window: Browser, studio: Studio) -> None:
    opened(window, studio)
    choose(window, "small")
    window.run("location.hash = `#run=small&token=${arguments[0]}`", TOKEN)
    until(window, "document.getElementById('may-act').textContent === 'You can act.'")
    assert window.run("return location.hash") == "#run=small"


def test_the_list_is_filtered(window: Browser, studio: Studio) -> None:
    opened(window, studio)
    until(window, "document.querySelectorAll('#live-list .run-row').length > 1")
    window.run("const field = document.getElementById('live-text'); field.value = 'SMALL';"
               "field.dispatchEvent(new Event('input'))")  # fmt: skip
    shown = "return [...document.querySelectorAll('#live-list .run-row')].map(e => e.dataset.run)"
    assert window.run(shown) == ["small"]
    window.run("const field = document.getElementById('live-text'); field.value = 'no such run';"
               "field.dispatchEvent(new Event('input'))")  # fmt: skip
    assert "is like this" in window.run("return document.getElementById('live-count').textContent")
    window.click("#live-all")
    assert len(window.run(shown)) > 1


@pytest.mark.skipif(not AXE, reason="axe-core is not there: STEPWARD_AXE names its file")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_and_nothing_is_wider_than_a_phone(
    window: Browser, studio: Studio, scheme: str
) -> None:
    window.prefer(scheme)
    opened(window, studio, acts=True)
    choose(window, "small")
    assert serious_faults(window, scheme) == []
    window.resize(390, 844)
    wide = window.run("return document.documentElement.scrollWidth")
    window.resize(1280, 800)
    assert wide <= 390
