"""The bad programs in every format, which the tests of several formats read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from commands import check
from layers import impatient
from paths import BAD
from stepward.validator.report import OUTPUTS


@pytest.fixture(scope="session")
def bad(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the bad programs in every format, all written in one run."""
    folder = tmp_path_factory.mktemp("formats")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(BAD)
        impatient(patch)
        outputs = [f"--{name}-output={folder / name}" for name in OUTPUTS]
        written = check("--isolated", "--output-format=github", f"--output-file={folder / 'github'}", *outputs)
    assert (written.exit_code, written.output) == (1, "")
    return folder


@pytest.fixture(scope="session")
def found(bad: Path) -> list[dict[str, Any]]:
    """The findings on the bad programs, as the JSON has them."""
    return list(json.loads((bad / "json").read_text())["findings"])
