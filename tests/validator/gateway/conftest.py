"""The fixtures of the gateway's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateways import House


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)
