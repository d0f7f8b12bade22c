"""The manifest: what a program or a policy declares about a tool."""

from __future__ import annotations

from typing import Literal

from stepward.vm.language.node import Node
from stepward.vm.language.types import TypeSpec

Effect = Literal["none", "read", "write"]


class ToolSpec(Node):
    """The facts about one tool. The defaults assume the worst: it writes, and it is not idempotent.

    `echoes` says whether its output may repeat its arguments.
    """

    effect: Effect = "write"
    idempotent: bool = False
    args: dict[str, TypeSpec] | None = None
    returns: TypeSpec | None = None
    suspends: bool = False
    echoes: bool = True

    @property
    def writes_once(self) -> bool:
        """Whether the tool writes and must not be performed twice."""
        return self.effect == "write" and not self.idempotent


# Constructed, not validated: building a validator on import would slow down every start.
UNKNOWN_TOOL = ToolSpec.model_construct()
"""The facts that are assumed of a tool that nobody declares."""
