"""Where things are, whatever folder a test lies in."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

ROOT: Final = next(folder for folder in Path(__file__).parents if (folder / "pyproject.toml").exists())
TESTS: Final = ROOT / "tests"
SUPPORT: Final = Path(__file__).parent
DATA: Final = TESTS / "data"
PROGRAMS: Final = ROOT / "specs/programs"
GOOD: Final = PROGRAMS / "good"
BAD: Final = PROGRAMS / "bad"
STEPWARD: Final = Path(sys.executable).parent / "stepward"
