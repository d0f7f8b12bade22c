"""A kit for tests of workflows: fake tools, a scripted model, a fake clock, and a bench with all three.

Its fixtures for pytest are in `stepward.testing.plugin`, which pytest loads by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepward.vm.late import late

if TYPE_CHECKING:
    from stepward.testing.bench import Bench as Bench
    from stepward.testing.fakes import FakeClock as FakeClock
    from stepward.testing.fakes import FakeError as FakeError
    from stepward.testing.fakes import FakeTools as FakeTools
    from stepward.testing.fakes import ToolCall as ToolCall
    from stepward.testing.fakes import by_argument as by_argument
    from stepward.testing.fakes import takes as takes
    from stepward.validator.testing import assert_valid as assert_valid
    from stepward.vm.machine.models import ScriptedModel as ScriptedModel

_HOMES = {
    "Bench": "stepward.testing.bench",
    "FakeClock": "stepward.testing.fakes",
    "FakeError": "stepward.testing.fakes",
    "FakeTools": "stepward.testing.fakes",
    "ScriptedModel": "stepward.vm.machine.models",
    "ToolCall": "stepward.testing.fakes",
    "assert_valid": "stepward.validator.testing",
    "by_argument": "stepward.testing.fakes",
    "takes": "stepward.testing.fakes",
}

__all__ = list(_HOMES)
__getattr__, __dir__ = late(globals(), "", _HOMES)
