"""What a program or a policy declares about a tool."""

from __future__ import annotations

from typing import Literal

from stepward.vm.language.node import Node
from stepward.vm.language.types import TypeSpec

Effect = Literal["none", "read", "write"]


class ToolSpec(Node):
    """The facts about one tool. What is not said is taken for the worst: it writes, and twice is not once.

    `echoes` says whether its output may repeat what it is given.
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


# Nothing is to be validated here, and a validator that is built on import would cost every start.
UNKNOWN_TOOL = ToolSpec.model_construct()
"""What is taken for true of a tool that nobody declares."""
