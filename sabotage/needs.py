"""What many attacks need of a program."""

from __future__ import annotations

from typing import Final

from stepward.sabotage.attack import Need

TOOL: Final = Need("no step calls a tool", lambda target: len(target.models) < len(target.calls))
MODEL: Final = Need("no step calls a model", lambda target: target.models)
WRITE: Final = Need("no tool writes", lambda target: target.writes)
WAIT: Final = Need("no tool suspends", lambda target: target.waits)
INTENT: Final = Need("no call has an intent", lambda target: any(call.has_intent for call in target.calls.values()))
SENSITIVE: Final = Need("no value is sensitive", lambda target: target.plan.has_sensitive)
BODIES: Final = Need("no step has a body", lambda target: target.plan.bodies)
FORKS: Final = Need("no step has branches", lambda target: target.program.layout.forks)
