"""The guided tour of the studio: five stations, each with something to do and something to see."""

from __future__ import annotations

from typing import Final, NamedTuple
from xml.etree.ElementTree import Element

from stepward.validator.review.elements import add_all, element


class Station(NamedTuple):
    """One station: its title, what to do, what one then sees, and the id of the part of the page that it is about."""

    title: str
    do: tuple[str, ...]
    see: str
    target: str
    acts: bool = False


STATIONS: Final = (
    Station(
        "Watch a run go on",
        (
            "In the list Runs, at the left, choose RUNNING as the status.",
            "Choose the first run. There is a new one every few seconds.",
        ),
        "The diagram is its program. The step where it is has a pink glow, those behind it a green one, and at the "
        "right each record appears as the machine writes it.",
        "live-list",
    ),
    Station(
        "Answer a question",
        (
            "In the list Waits for somebody, choose a run that is SUSPENDED.",
            "Write your name at the top of the page. At the right, read the question and the type of the answer.",
            'Answer {"approved": true, "approver": "me"}, or whatever the type asks for.',
        ),
        "The run goes on from the step where it waited, and one of its records has your name. An answer of another "
        "type is refused, and says why.",
        "waiting-list",
        acts=True,
    ),
    Station(
        "See a run again",
        (
            "Choose SUCCESS as the status, and a run.",
            "At the right, write 5 records a second, and press play. Then step with back and on.",
        ),
        "The diagram shows the way of the run, and Values here what each name stood for at that moment. Below the "
        "records stands that they are verified.",
        "chosen-run",
    ),
    Station(
        "Kill the process",
        (
            "Stay with that run. As the failure, choose “kill the process”.",
            "Press “Try it on a copy”.",
        ),
        "Under Sandboxes stands what happened to the copy: the process died after a step was performed, and before "
        "that was recorded. Another machine found the run, and did nothing twice. The run itself did not change.",
        "sandboxes",
        acts=True,
    ),
    Station(
        "Change the past",
        (
            "Go back to the run. As the failure, choose “skip a step in the records”, and try it on a copy.",
            "Then try “corrupt a record”.",
        ),
        "A verification names the record where the damage begins, and a machine refuses to go on. At last, open "
        "Measures and plots under Analysis: they change as runs end.",
        "sandboxes",
        acts=True,
    ),
)


def tour_section() -> Element:
    """Return the section of the tour; the script shows one station at a time, and all are there without it."""
    stations = [_station(one, number) for number, one in enumerate(STATIONS, 1)]
    return element(
        "section",
        element("h2", "A tour of five stations"),
        add_all(element("div", id="stations"), stations),
        id="tour",
        class_="tour",
    )


def _station(one: Station, number: int) -> Element:
    steps = [element("li", text) for text in one.do]
    token = "You only watch: for this station, open the second address that the studio has printed, or give its token."
    return element(
        "article",
        element("h3", f"{number} of {len(STATIONS)}: {one.title}"),
        element("p", token, class_="only-watching bad") if one.acts else None,
        add_all(element("ol"), steps),
        element("p", element("b", "You see: "), one.see),
        class_="station",
        data_spot=one.target,
    )
