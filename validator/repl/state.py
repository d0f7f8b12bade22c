"""What the turns of a session have left: values, functions, the last results, and what was done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from stepward.validator.repl.gate import Called
from stepward.validator.repl.memory import Inputs, Made, Recalled, calls_in, recalled
from stepward.validator.repl.values import hidden_texts, type_of
from stepward.vm.journal.canonical import opened
from stepward.vm.lisp.compiling.document import Turn
from stepward.vm.lisp.compiling.starting_point import StartingPoint

if TYPE_CHECKING:
    from stepward.vm.language.policy import Policy
    from stepward.vm.machine.history import History

NAME: Final = "turn"
"""The name of the programs of turns."""

LAST: Final = 3
"""How many of the last values have a name: `*1`, `*2`, `*3`."""

MIN_HIDDEN: Final = 4
"""Characters of the shortest hidden text that is looked for in what is shown: a shorter one is in many words."""


@dataclass
class State:
    """What the turns so far have left. `facts` has the types of the tools.

    `before` is the run of the last turn that has ended, `number` that of the last turn, `left` the steps that are left.
    """

    facts: Policy
    policies: tuple[Policy, ...]
    returns: Mapping[str, Any] | None = None
    left: int | None = None
    values: dict[str, Any] = field(default_factory=dict)
    functions: dict[str, str] = field(default_factory=dict)
    last: tuple[Any, ...] = ()
    made: list[Made] = field(default_factory=list)
    called: list[Called] = field(default_factory=list)
    hidden: set[str] = field(default_factory=set)
    number: int = 0
    before: History | None = None
    is_over: bool = False

    async def compiled(self, text: str) -> tuple[Recalled, Mapping[str, Any]]:
        """Return the program of the next turn, and its inputs.

        Raises a Fault for a text that can't be compiled, KeyError for a name that has no value, ErasedError for a value
        that is gone, RecursionError.
        """
        lasts = {f"*{place}": value for place, value in enumerate(self.last, 1)}
        known = {**self.values, **lasts}
        start = StartingPoint(
            {name: type_of(value) for name, value in known.items()}, self.functions, self.returns, self.left
        )

        def inputs(turn: Turn, results: Mapping[int, Any]) -> Mapping[str, Any]:
            raw = {one: known[of] if isinstance(of, str) else results[of] for one, of in turn.sources.items()}
            return {one: opened(value) for one, value in raw.items()}

        typed_inputs: Inputs = inputs
        found = await recalled(f"{NAME}.clj", text, start, self.made, typed_inputs, self.facts)
        return found, inputs(found.turn, found.results)

    def take_over(self, number: int, turn: Turn, history: History) -> None:
        """Take over what a turn that has ended has left: a failed one nothing but what its tools did."""
        self.note_hidden(*(event.body.get("output") for event in history.events))
        calls = calls_in(history, turn)
        self.called += [Called(number, one.tool, one.site[0]) for one in calls]
        self.before = history
        self.left = None if self.left is None else self.left - history.state.steps
        if history.state.status != "SUCCESS":
            self.made = [*self.made, *calls]
            return
        output = history.state.output
        for name in turn.functions:
            self.values.pop(name, None)
        for name in output["defined"]:
            self.functions.pop(name, None)
        self.values |= output["defined"]
        self.functions |= turn.functions
        self.last = (output["value"], *self.last)[:LAST]
        self.made = []
        self.is_over = bool(output["returned"])

    def note_hidden(self, *values: Any) -> None:
        """Note the texts of values that are hidden wherever they come back."""
        self.hidden |= {text for value in values for text in hidden_texts(value) if len(text) >= MIN_HIDDEN}
