"""PTC-Lisp, the small language that a model writes: reader, values, functions, and evaluation within limits.

Everything that is imported from here is public; the modules below are not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepward.vm.late import late

if TYPE_CHECKING:
    from stepward.vm.lisp.evaluation import Outcome as Outcome
    from stepward.vm.lisp.evaluation import evaluate as evaluate
    from stepward.vm.lisp.faults import LispError as LispError
    from stepward.vm.lisp.limits import Limits as Limits

_HOMES = {"Outcome": "evaluation", "evaluate": "evaluation", "LispError": "faults", "Limits": "limits"}

__all__ = ["Limits", "LispError", "Outcome", "evaluate"]

__getattr__, __dir__ = late(globals(), "stepward.vm.lisp.", _HOMES)
