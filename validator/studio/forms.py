"""The forms for what somebody can do about a run: answer, settle, pick up, cancel, and disturb a copy of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final
from xml.etree.ElementTree import Element

from stepward.validator.report.trace import trace_data
from stepward.validator.review.elements import add_all, coded, element
from stepward.validator.studio.answers import advice_on, example_text
from stepward.validator.studio.copies import calls_of
from stepward.vm.machine.events import RUNNING
from stepward.vm.values import to_json

if TYPE_CHECKING:
    from stepward.validator.studio.disturbances import Disturbance
    from stepward.vm.language.types import TypeSpec
    from stepward.vm.machine.history import History
    from stepward.vm.machine.run import Doubt, Run

WATCHING: Final = (
    "You only watch. To act, open the second address that the studio has printed, or give its token at the top of the "
    "page."
)

VERDICTS: Final = {"done": "it happened", "not_done": "it did not: do it again", "abandon": "give up the run"}


def waits_of(run: Run, found: History) -> Iterator[Element]:
    """Yield a form for each thing that somebody can do about a run; the script sends it with the operator's token."""
    calls = calls_of(found)
    if not run.is_over:
        yield element("p", WATCHING, class_="only-watching")
    for waits in run.suspensions:
        yield _answer_form(run, waits.step, *_last_question(found, waits.step), calls[waits.step].returns)
    for doubt in run.doubts:
        yield _settle_form(run, doubt, calls[doubt.step].returns)
    if run.status == RUNNING:
        words = element("p", "If nobody drives this run any more, another machine can go on with it.")
        yield _form("recover", run.id, "", words, "Pick it up")
    if not run.is_over:
        asks = "Cancel it for good? It can't go on after that."
        yield _form("cancel", run.id, "", "Cancel the run", asks=asks)


def _last_question(found: History, step: str) -> tuple[int, Any]:
    """Return the record in which a step has asked somebody last, and what it asks, without sensitive values."""
    questions = [
        (number, record["body"].get("request"))
        for number, record in enumerate(trace_data(found))
        if record["body"].get("kind") == "suspended" and record["body"].get("step") == step
    ]
    return questions[-1] if questions else (0, None)


def _answer_form(run: Run, step: str, since: int, request: Any, returns: TypeSpec | None) -> Element:
    head = element("p", element("b", element("code", step), " waits for somebody"), class_="asks")
    example = example_text(returns)
    field = element("textarea", name="payload", rows=2, placeholder=f"for example {example}" if example else None)
    hint = element("small", *coded(f"{_capital(advice_on(returns))}."))
    answer = element("label", "Answer ", field)
    form = _form("resume", run.id, step, head, *_question(request), answer, hint, "Answer")
    form.set("data-since", str(since))  # the same step may wait again, for another answer
    return form


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _question(request: Any) -> Iterator[Element]:
    """Yield what a step asks: the text under `question`, and the rest by its names; anything else as JSON."""
    if request is None:
        return
    if not isinstance(request, Mapping):
        yield element("blockquote", request if isinstance(request, str) else to_json(request))
        return
    rest = dict(request)
    if isinstance(rest.get("question"), str):
        yield element("blockquote", rest.pop("question"))
    parts = [part for name, value in rest.items() for part in (element("dt", name), element("dd", _shown(value)))]
    if parts:
        yield add_all(element("dl"), parts)


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else to_json(value)


def _settle_form(run: Run, doubt: Doubt, returns: TypeSpec | None) -> Element:
    head = element("p", element("b", element("code", doubt.place), " is in doubt: "), doubt.why, class_="asks")
    known = add_all(
        element("dl"),
        [element("dt", "tool"), element("dd", doubt.tool), element("dt", "key"), element("dd", doubt.key)],
    )
    look = element("p", "Nobody knows whether it happened. Look there under its key, and say what you found.")
    options = [element("option", words, value=value) for value, words in VERDICTS.items()]
    choice = element("label", "What you found ", add_all(element("select", name="verdict"), options))
    example = example_text(returns)
    field = element("textarea", name="payload", rows=2, placeholder=f"for example {example}" if example else None)
    output = element("label", "What it returned, if it happened ", field)
    hint = element("small", *coded(f"{_capital(advice_on(returns))}."))
    return _form("reconcile", run.id, doubt.place, head, look, known, choice, output, hint, "Settle")


def _form(what: str, run: str, step: str, *parts: Element | str, asks: str | None = None) -> Element:
    """Return a form for an action on a run; the last part is the text of its button.

    `asks` is a question that the script asks first.
    """
    *others, text = parts
    bar = element("div", element("button", text, type="submit"), element("output"), class_="filters")
    attributes = {"class_": f"act {what}", "data_act": what, "data_run": run, "data_step": step, "data_asks": asks}
    return element("form", *others, bar, **attributes)


def disturb_form(found: History, disturbances: Mapping[str, Disturbance]) -> Element:
    """Return the form that disturbs a copy of a run, with the steps at which each disturbance can act.

    The script offers the steps of the one that is chosen. One that can act nowhere can't be chosen, and says why.
    """
    kinds = []
    for name, one in disturbances.items():
        places = one.places(found)
        is_of_use = bool(places) or not one.nowhere
        words = one.words if is_of_use else f"{one.words}: {one.nowhere}"
        steps = json.dumps(places)
        kinds.append(element("option", words, value=name, data_steps=steps, disabled=None if is_of_use else "disabled"))
    bar = element(
        "div",
        element("label", "Failure ", add_all(element("select", name="what"), kinds)),
        element("label", "at ", element("select", element("option", "where it fits", value=""), name="step")),
        element("button", "Try it on a copy", type="submit"),
        element("output"),
        class_="filters",
    )
    hint = element("small", "In a sandbox: the run itself stays as it is, and no tool is called.")
    notice = element("p", WATCHING, class_="only-watching") if found.state.is_over else None
    about = {"data_act": "disturb", "data_address": "/disturb", "data_run": found.run}
    return element("form", notice, bar, hint, class_="act disturb", **about)
