"""Forks processes on a machine without one defence; a helper that is run as a script, no tests stand here.

python tests/support/killed_child.py PATCH
"""

from __future__ import annotations

import sys

import pytest

import canaries_crashes
from stepward.sabotage.campaigns.killed import serve

if __name__ == "__main__":
    with pytest.MonkeyPatch.context() as patch:
        getattr(canaries_crashes, sys.argv[1])(patch)
        serve()
