"""The other sides, where they are installed: llm-nano-vm in memory, LangGraph and DBOS on SQLite.

`pip install 'stepward[peers]'` brings the first, `pip install 'stepward[machine-peers]'` the others.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, TypedDict

NOT_INSTALLED: Final = "not installed"
NANO, LANGGRAPH, DBOS = "llm-nano-vm", "LangGraph", "DBOS"
_MODULES: Final = {NANO: ("nano_vm",), LANGGRAPH: ("langgraph", "langgraph.checkpoint.sqlite"), DBOS: ("dbos",)}

Step = Callable[[int], None]


def is_installed(peer: str) -> bool:
    """Return whether everything that a peer needs is there."""
    return all(_is_found(module) for module in _MODULES[peer])


def _is_found(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of the package around it
        return False


def nano(data: dict[str, Any], tools: dict[str, Any], steps: int) -> Callable[[], Awaitable[None]]:
    """Return what runs a program on llm-nano-vm; it passes over the fields that it does not have."""
    from nano_vm.models import Program
    from nano_vm.vm import ExecutionVM

    program = Program.from_dict(data)
    machine = ExecutionVM(None, tools)

    async def run() -> None:
        trace = await machine.run(program, {})
        assert trace.status.name == "SUCCESS"
        assert len(trace.steps) == steps

    return run


class Count(TypedDict):
    """The state of the graph: how many of its nodes were done."""

    done: int


class LangGraphRuns:
    """A graph of nodes in a row, compiled with the SQLite checkpointer: `durability` is as its documentation has it.

    `sync` writes each checkpoint before the next node starts; `async`, the default, while it runs.
    """

    def __init__(self, path: Path, steps: int, step: Step, durability: str = "sync") -> None:
        from langgraph.checkpoint.sqlite import SqliteSaver
        from langgraph.graph import END, START, StateGraph

        self.path = path
        self.durability = durability
        self._steps = steps
        graph = StateGraph(Count)
        names = [f"step_{number}" for number in range(steps)]
        for number, name in enumerate(names):
            graph.add_node(name, _node(number, step))
        for before, after in zip([START, *names], [*names, END], strict=True):
            graph.add_edge(before, after)
        self._opened = SqliteSaver.from_conn_string(str(path))
        self.graph = graph.compile(checkpointer=self._opened.__enter__())

    def run(self, run: str) -> None:
        self._invoke(run, {"done": 0})

    def resume(self, run: str) -> None:
        """Go on with a run that was killed, from its last checkpoint."""
        self._invoke(run, None)

    def _invoke(self, run: str, given: Any) -> None:
        config = {"configurable": {"thread_id": run}}
        ended = self.graph.invoke(given, config, durability=self.durability)
        assert ended["done"] == self._steps

    def persisted(self, run: str) -> int:
        """Return how many steps of a run are on the disk: its checkpoints but for the input's and the start's."""
        with closing(sqlite3.connect(self.path)) as connection:
            query = "SELECT count(*) FROM checkpoints WHERE thread_id = ?"
            return int(connection.execute(query, (run,)).fetchone()[0]) - 2

    def close(self) -> None:
        self._opened.__exit__(None, None, None)


def _node(number: int, step: Step) -> Callable[[Count], Count]:
    def node(state: Count) -> Count:
        step(number)
        return {"done": state["done"] + 1}

    return node


class DBOSRuns:
    """A workflow function that calls a step function so many times, each of which DBOS writes down when it is done."""

    def __init__(self, path: Path, steps: int, step: Step) -> None:
        from dbos import DBOS, SetWorkflowID

        self.path = path
        self._dbos, self._named = DBOS, SetWorkflowID
        logging.getLogger("dbos").setLevel(logging.ERROR)
        url = f"sqlite:///{path}"
        DBOS(config={"name": "benchmark", "system_database_url": url, "run_admin_server": False, "log_level": "ERROR"})

        @DBOS.step()
        def one(number: int) -> None:
            step(number)

        @DBOS.workflow()
        def workflow() -> int:
            for number in range(steps):
                one(number)
            return steps

        self._workflow = workflow
        self._steps = steps
        DBOS.launch()  # recovers what was killed, too

    def run(self, run: str) -> None:
        with self._named(run):
            assert self._workflow() == self._steps

    def resume(self, run: str) -> None:
        """Wait for a run that was killed: it is recovered by the launch."""
        assert self._dbos.retrieve_workflow(run).get_result() == self._steps

    def persisted(self, run: str) -> int:
        """Return how many steps of a run are on the disk."""
        with closing(sqlite3.connect(self.path)) as connection:
            query = "SELECT count(*) FROM operation_outputs WHERE workflow_uuid = ?"
            return int(connection.execute(query, (run,)).fetchone()[0])

    def close(self) -> None:
        self._dbos.destroy()
