"""Mistakes in the machine that a campaign has to find, each as edits of the package; `planted.py` plants them.

Each set but the first was planted by a reader of the machine's code and its pages who had not seen the attacks. The
edits of a fifth and a twelfth set were not kept.
"""

from __future__ import annotations

from typing import Final

from mistakes.eighteenth import EIGHTEENTH
from mistakes.eighth import EIGHTH
from mistakes.eleventh import ELEVENTH
from mistakes.fifteenth import FIFTEENTH
from mistakes.first import FIRST
from mistakes.fourteenth import FOURTEENTH
from mistakes.fourth import FOURTH
from mistakes.nineteenth import NINETEENTH
from mistakes.ninth import NINTH
from mistakes.planted import Planted
from mistakes.second import SECOND
from mistakes.seventeenth import SEVENTEENTH
from mistakes.seventh import SEVENTH
from mistakes.sixteenth import SIXTEENTH
from mistakes.sixth import SIXTH
from mistakes.tenth import TENTH
from mistakes.third import THIRD
from mistakes.thirteenth import THIRTEENTH
from mistakes.twentieth import TWENTIETH
from mistakes.twenty_fifth import TWENTY_FIFTH
from mistakes.twenty_first import TWENTY_FIRST
from mistakes.twenty_fourth import TWENTY_FOURTH
from mistakes.twenty_second import TWENTY_SECOND
from mistakes.twenty_third import TWENTY_THIRD

__all__ = ["SETS", "Planted"]

SETS: Final = {
    "first": FIRST,
    "second": SECOND,
    "third": THIRD,
    "fourth": FOURTH,
    "sixth": SIXTH,
    "seventh": SEVENTH,
    "eighth": EIGHTH,
    "ninth": NINTH,
    "tenth": TENTH,
    "eleventh": ELEVENTH,
    "thirteenth": THIRTEENTH,
    "fourteenth": FOURTEENTH,
    "fifteenth": FIFTEENTH,
    "sixteenth": SIXTEENTH,
    "seventeenth": SEVENTEENTH,
    "eighteenth": EIGHTEENTH,
    "nineteenth": NINETEENTH,
    "twentieth": TWENTIETH,
    "twenty-first": TWENTY_FIRST,
    "twenty-second": TWENTY_SECOND,
    "twenty-third": TWENTY_THIRD,
    "twenty-fourth": TWENTY_FOURTH,
    "twenty-fifth": TWENTY_FIFTH,
}
"""The sets by name."""
