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
            "In the list Runs, choose RUNNING as the status. There is a new one every few seconds.",
            "Choose the first run of the list.",
        ),
        "The diagram is its program. The step where the run is now has a pink glow, those behind it a green one. "
        "Beside it, each record appears as the machine writes it. When the run has ended, its last step stays lit.",
        "live-list",
    ),
    Station(
        "Answer a question",
        (
            "In the list Waits for somebody, choose a run that is SUSPENDED.",
            "Write your name at the top of the page. Then read the question beside the diagram.",
            "Answer as the example below the field shows, with “approved” true or false as you like.",
        ),
        "The run goes on from the step where it waited, and one of its records has your name. Answer something else, "
        "and it is refused: the page says what is wrong.",
        "waiting-list",
        acts=True,
    ),
    Station(
        "See a run again",
        (
            "Choose SUCCESS as the status, and a run.",
            "Beside the diagram, write 5 records a second, and press “play”. Then step with “back” and “on”.",
        ),
        "The diagram shows the way of the run, and Values here what each name stood for at that moment. Below the "
        "records stands that they are verified.",
        "chosen-run",
    ),
    Station(
        "Kill the process",
        (
            "Stay with that run, or choose one that is SUCCESS.",
            "Beside the diagram, choose the failure “kill the process”, and press “Try it on a copy”.",
        ),
        "The page goes to Sandboxes. There stands what happened to the copy: the process died after a step was "
        "performed, and before that was recorded. Another machine found the run, and no effect happened twice. The run "
        "itself did not change.",
        "chosen-run",
        acts=True,
    ),
    Station(
        "Change the past",
        (
            "Go back to the run. As the failure, choose “skip a step in the records”, and try it on a copy.",
            "Then try “corrupt a record” in the same way.",
        ),
        "A verification names the record where the damage begins, and a machine refuses to go on. That was all: below "
        "Analysis, Measures and plots change as runs end, and each program has its proofs.",
        "chosen-run",
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
