"""What one studio is made of: a journal, what is shown of it, the operator's means, and programs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element

from stepward.validator.result import AdvisedError
from stepward.validator.review.elements import add_all, element
from stepward.validator.review.sections import program_section

if TYPE_CHECKING:
    from stepward.validator.review.programs import ProgramView
    from stepward.validator.studio.acting import Operator
    from stepward.validator.studio.analysis import Analysis
    from stepward.validator.studio.live import Live
    from stepward.validator.studio.sandboxes import Sandboxes
    from stepward.validator.studio.views import Views


class Programs:
    """Programs by the name of their file. Each is checked when somebody first asks for it, and then kept."""

    def __init__(self, files: Sequence[str], check: Callable[[str], Sequence[ProgramView]]) -> None:
        self.files = tuple(files)
        self._check = check
        self._known: dict[str, Element] = {}
        self._lock = threading.Lock()

    def part(self, file: str) -> Element:
        """Return a file's programs with findings and verdicts; raises AdvisedError for a file that is not served."""
        if file not in self.files:
            raise AdvisedError(f"the studio has no program `{file}`")
        with self._lock:  # one check at a time: it takes a whole core
            if file not in self._known:
                number = self.files.index(file)
                sections = [
                    program_section(view, 1_000 * (number + 1) + index) for index, view in enumerate(self._check(file))
                ]
                self._known[file] = add_all(element("div"), sections)
            return self._known[file]


@dataclass(frozen=True)
class StudioParts:
    """The parts of a studio; `page` is the text of its page."""

    page: str
    live: Live
    views: Views
    analysis: Analysis
    programs: Programs
    operator: Operator
    sandboxes: Sandboxes
