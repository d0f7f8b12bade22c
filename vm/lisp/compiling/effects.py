"""Which forms have effects: they call a tool, or end the program, so that they become steps."""

from __future__ import annotations

from stepward.vm.lisp.compiling.texts import parts
from stepward.vm.lisp.forms import Form, Parens, Short, Symbol

_LATER = frozenset({"fn", "for", "loop", "defn", "defn-"})
"""Forms whose inner forms are evaluated later or often: a `fail` in them is that of one evaluation."""


class Effects:
    """The effects of the forms of a program. `functions` are the names of its functions that have some."""

    def __init__(self) -> None:
        self.functions: set[str] = set()
        self._known: dict[int, tuple[Form, bool]] = {}

    def are_in(self, form: Form) -> bool:
        """Return whether a form has effects."""
        found = self._known.get(id(form))
        if found is None:
            found = self._known[id(form)] = form, self._has_effect(form, is_later=False)
        return found[1]

    def _has_effect(self, form: Form, *, is_later: bool) -> bool:
        if isinstance(form, Symbol):
            is_end = form.name == "return" or (form.name == "fail" and not is_later)
            return form.namespace == "tool" or is_end or form.name in self.functions
        head = form.items[0] if isinstance(form, Parens) and form.items else None
        later = is_later or isinstance(form, Short) or (isinstance(head, Symbol) and head.name in _LATER)
        return any(self._has_effect(one, is_later=later) for one in parts(form))

    def add_function(self, name: str) -> None:
        """Note that a function of the program has effects: so have its calls."""
        self.functions.add(name)
        self._known.clear()
