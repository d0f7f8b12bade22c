"""What a path leaves out where a formula cut the loops of its system, in words for a reader of the path."""

from __future__ import annotations

from typing import Final

from stepward.validator.engine.smt.plans import plan
from stepward.validator.engine.systems.system import BAD, Path, System
from stepward.validator.engine.values.domains import Names
from stepward.vm.expressions.fields import written
from stepward.vm.language.flow import Flow
from stepward.vm.language.steps import Stage

MAX_NAMES: Final = 4
"""The most variables that are named."""


def skipped_rounds(flow: Flow, system: System, path: Path) -> str:
    """Return which rounds a path leaves out, and whose values are open behind them; nothing for a path without loops.

    The path enters each loop once, as if other rounds had been before.
    """
    forgotten = plan(system).forgotten
    heads = [step.node for step in path.steps if step.node != BAD and step.node in forgotten]
    if not heads:
        return ""
    read = {name[:1] for name in system.references}
    open_roots: list[Names] = sorted(
        {root for head in heads for root in forgotten[head] if len(root) == 1 and root in read}
    )
    steps = dict.fromkeys(_name(flow, system, head) for head in heads)
    loops = _joined([f"`{step}`" for step in steps])
    names = _joined([f"`${written(root)}`" for root in open_roots[:MAX_NAMES]])
    if not names:
        return f"it leaves out rounds of the loop at {loops}"
    return f"it leaves out rounds of the loop at {loops}, and they may leave any value in {names} that is not excluded"


def _name(flow: Flow, system: System, head: int) -> str:
    """Return the step at which a loop is: the one of the items, where a round begins with an item."""
    import networkx as nx

    back = nx.descendants(system.digraph, head).intersection(system.digraph.predecessors(head))
    steps = [flow.steps[system.edges[node][0].compressed.step] for node in (head, *sorted(back))]
    return next((step.owner for step in steps if isinstance(step, Stage)), steps[0].id)


def _joined(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
