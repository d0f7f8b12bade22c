"""The steps of a called program with names that no other step of the caller has: `ask` is `charge/ask` there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from stepward.vm.errors import ExpressionError
from stepward.vm.expressions.inner_names import as_word
from stepward.vm.expressions.lexer import tokens
from stepward.vm.expressions.template import positions
from stepward.vm.language.guardrails import AnyRule
from stepward.vm.language.node import Node
from stepward.vm.language.record import Record
from stepward.vm.values import FrozenMap

_IDS = frozenset(["id", "next_step", "error_step", "then", "otherwise", "output_key", "as", "index_as"])
_EXPRESSIONS = frozenset(["condition", "when"])
_TEMPLATES = frozenset(["prompt", "system", "args", "output", "items", "seconds", "until"])


def own_name(id: str) -> str:
    """Return the name that a step, a sub-step or a branch has in its own program: `ask` of `charge/ask`."""
    return id.rpartition("/")[2]


class Prefix(NamedTuple):
    """Puts a prefix before the ids and names of a called program."""

    prefix: str
    language: int = 2

    def step(self, record: Any) -> Any:
        """Return a step, or a part of one, of the program."""
        changes: dict[str, Any] = {}
        for name, value in vars(record).items():
            new = self._field(name, value)
            if new is not value:
                changes[name] = new
        return record.replace(**changes)

    def _field(self, name: str, value: Any) -> Any:
        if value is None:
            return None
        if name in _IDS:
            return self.prefix + value
        if name == "depends_on":
            return tuple(self.prefix + one for one in value)
        if name in _EXPRESSIONS:
            return self.expression(value)
        if name in _TEMPLATES:
            return self.template(value)
        if name in ("set", "carry"):
            return FrozenMap((self.prefix + key, self._assigned(one)) for key, one in value.items())
        if name == "branches":
            return FrozenMap((self.prefix + key, self.step(one)) for key, one in value.items())
        if name == "guardrails":
            return tuple(map(self.rule, value))
        if isinstance(value, Record):
            return self.step(value)
        if isinstance(value, tuple) and value and isinstance(value[0], Record):
            return tuple(map(self.step, value))
        return value

    def _assigned(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.expression(value)
        return self.template(value) if self.language > 1 else value

    def rule(self, rule: AnyRule) -> AnyRule:
        """Return a guardrail of the program, or of a policy for it."""
        renamed: AnyRule = self._node(rule)
        return renamed.model_copy(update={"name": self.prefix + rule.name})

    def _node(self, node: Any) -> Any:
        """Return a part of a guardrail: `step` is an id, and `when` a condition."""
        if isinstance(node, tuple):
            return tuple(map(self._node, node))
        if not isinstance(node, Node):
            return node
        update: dict[str, Any] = {}
        for name in node.model_fields_set:
            value = getattr(node, name)
            if name == "step":
                update[name] = self.prefix + value
            elif name == "when" and value is not None:
                update[name] = self.expression(value, keeps="args")
            elif isinstance(value, Node | tuple):
                update[name] = self._node(value)
        return node.model_copy(update=update)

    def expression(self, text: str, keeps: str = "") -> str:
        """Return the text of an expression; one that is none stays as it is, and is reported so.

        `keeps` is a name that is no name of the program.
        """
        try:
            found = [(one.start, one.value) for one in tokens(text) if one.kind == "reference"]
        except ExpressionError:
            return text
        return self._replaced(text, [one for one in found if one[1][0] != keeps])

    def template(self, value: Any) -> Any:
        """Return a value in whose texts there are references, at any depth."""
        return _mapped(value, lambda text: self._replaced(text, list(positions(text))))

    def _replaced(self, text: str, found: list[tuple[int, tuple[str, ...]]]) -> str:
        for start, names in reversed(found):
            end = start + 1 + len(names[0])
            text = f"{text[:start]}${as_word(self.prefix + names[0])}{text[end:]}"
        return text


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value) if "$" in value else value
    if isinstance(value, dict):
        return FrozenMap((key, _mapped(item, change)) for key, item in value.items())
    return tuple(_mapped(item, change) for item in value) if isinstance(value, tuple) else value
