"""What scenes of histories are made of: tools that answer by a script, and requests that are noted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import ExitStack
from functools import lru_cache
from typing import Any, Final, TypeVar

from stepward.sabotage.drawn.machine import raised
from stepward.sabotage.playing.case import KEY_SEED
from stepward.sabotage.playing.points import Killed
from stepward.sabotage.playing.world import TooLate
from stepward.sabotage.recorded.shared.environment import Environment, Process
from stepward.sabotage.recorded.shared.given import ReplyTable, finds_nothing
from stepward.vm import InDoubt, ModelReply, Policy, Program, Run, SigningKey, Suspend, ToolContext
from stepward.vm.journal.copying import copy_runs
from stepward.vm.journal.records import read_record
from stepward.vm.journal.store import Switch
from stepward.vm.journal.verify import verify
from stepward.vm.machine.models import ModelRequest
from stepward.vm.machine.plan import Plan
from stepward.vm.machine.replay import replayer
from stepward.vm.machine.stored_due import stored_due
from stepward.vm.machine.worker import Worker
from stepward.vm.telemetry.outline import outline_of
from stepward.vm.telemetry.spans import Spans

T = TypeVar("T")

KEY: Final = SigningKey.from_seed(KEY_SEED)

_NUMBER: Final = {"type": "number"}
TOOLS: Final[Mapping[str, Mapping[str, Any]]] = {
    "look": {"effect": "read", "args": {"x": _NUMBER}, "returns": _NUMBER, "errors": ["Lacking", "Busy"]},
    "pay": {"effect": "write", "idempotent": False, "args": {"x": _NUMBER}, "returns": _NUMBER, "errors": ["Lacking"]},
    "mail": {"effect": "write", "idempotent": True, "args": {"x": _NUMBER}, "returns": _NUMBER, "errors": ["Busy"]},
    "ask": {"effect": "read", "args": {"x": _NUMBER}, "returns": _NUMBER, "suspends": True},
    "sign": {"effect": "write", "idempotent": False, "args": {"x": _NUMBER}, "returns": _NUMBER, "suspends": True},
}
"""The tools of all programs. Each takes a number, and returns one."""


@lru_cache(64)
def _built(text: str) -> Program:
    return Program.from_dict(json.loads(text))


class Story(Environment):
    """An environment in which each call does what the script of its step says, one word after the other, then succeeds.

    `fail`, `busy` and `lack` are errors, `doubt` is a write that may have happened, `late` is one behind its timeout,
    `wait` suspends the run, as `payload` does and an object with the field `of`, and `die` kills the process. `error`
    and `verdict` are an error and a doubt that say `words`. Anything else is the output.
    """

    def __init__(self, seed: str, stack: ExitStack, options: Mapping[str, Any]) -> None:
        super().__init__(seed, stack, options)
        self.script: dict[str, list[Any]] = {}
        self.policies: list[Policy] = []
        self.more: dict[str, Any] = {"checker": finds_nothing}
        self.tokens: list[str] = []
        self.found: dict[str, Run] = {}
        """The runs as the last requests have left them."""
        self.words = "no words"
        """What errors say, and doubts, that have none of their own."""
        self.is_bare = False
        """Whether the machines have no tools."""

    def has(self, name: str) -> bool:
        """Return whether there is a tool."""
        return super().has(name) and not self.is_bare

    def do(self, what: str, work: Coroutine[Any, Any, T]) -> T | None:
        """Note what comes of a request; keep the run that it returns, and forget the others, which may have changed."""
        found = super().do(what, work)
        self.found = {found.id: found} if isinstance(found, Run) else {}
        return found

    async def call(self, name: str, args: Mapping[str, Any], context: ToolContext) -> Any:
        """Answer as the script says."""
        self.notes.add(f"call {name}", args, context)
        scripted = self._next(context.step)
        if scripted == "wait":
            return Suspend({"of": context.step})
        if scripted == "payload" or (isinstance(scripted, Mapping) and "of" in scripted):
            return Suspend(scripted)
        self._maybe_raise(scripted, context.step)
        return args.get("x", 0) if scripted is None else scripted

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Reply as the script says: the content, or the content with tokens and cost."""
        self.notes.add("ask", *request)
        scripted = self._next(request.step)
        self._maybe_raise(scripted, request.step)
        return (
            ModelReply(*scripted)
            if isinstance(scripted, tuple)
            else ModelReply("well" if scripted is None else scripted, 5, 2)
        )

    def _next(self, step: str) -> Any:
        scripted = self.script.get(step.rpartition("/")[2])
        return scripted.pop(0) if scripted else None

    def _maybe_raise(self, scripted: Any, step: str) -> None:
        match scripted:
            case "fail":
                raise ValueError("it failed")
            case "lack":
                raise raised(("Lacking",), "nothing there")
            case "busy":
                raise raised(("Busy",), "try later")
            case "doubt":
                raise InDoubt("nobody knows")
            case "error":
                raise raised(("Lacking",), f"not for {self.words}")
            case "verdict":
                raise InDoubt(f"did {self.words} go?")
            case "late":
                raise TooLate
            case "die":
                self.is_dead = True
                raise Killed(step)

    # -- requests ------------------------------------------------------------------------------------------------------

    def process(self, **more: Any) -> Process:
        """Return a machine with the present policies."""
        return self.machine(self.policies, KEY, **{**self.more, **more})

    def program(self, data: Mapping[str, Any]) -> Program | None:
        """Return a program with the tools of all, or None, with a note of why there is none."""
        whole = {"name": "p", "language": 2, "inputs": {}, "tools": TOOLS, **data}
        try:
            return _built(json.dumps(whole))
        except Exception as error:
            self.notes.add_error(error)
            return None

    def policy(self, name: str, **data: Any) -> Policy | None:
        """Add a policy; return it, or None if there is none of this kind."""
        try:
            added = Policy.from_dict({"policy": name, **data})
        except Exception as error:
            self.notes.add_error(error)
            return None
        self.policies = [*(one for one in self.policies if one.policy != name), added]
        return added

    def start(self, data: Mapping[str, Any], inputs: Mapping[str, Any], run: str = "r", **more: Any) -> Run | None:
        """Run a program."""
        program = self.program(data)
        return (
            None if program is None else self.do(f"run {run}", self.process().run(program, inputs, run_id=run, **more))
        )

    def go_on(self, run: str, data: Mapping[str, Any], reads: Any, **more: Any) -> Run | None:
        """Continue a run by a program."""
        program = self.program(data)
        if program is None:
            return None
        return self.do(f"continue {run}", self.process().continue_run(run, program, reads, after_failure=True, **more))

    def move(self, run: str, data: Mapping[str, Any], *, by: str | None = None, **more: Any) -> None:
        """Move a run that waits to a version of its program."""
        program = self.program(data)
        if program is not None:
            self.do(f"migration {run}", self.process().migration(run, program, **more))
            self.do(f"migrate {run}", self.process().migrate(run, program, by=by, **more))

    def read(self, run: str) -> Run | None:
        """Return a run as it is, without a note; None if there is none."""
        try:
            return self.found.get(run) or self.quiet(self.process().get(run))
        except Exception as error:
            self.notes.add_error(error)
            return None

    def answer(self, run: str, payload: Any = 1, by: str | None = None, at: int = 0) -> None:
        """Answer a call of a run that waits: the first one, or that of a number."""
        found = self.read(run)
        for suspended in found.suspensions[at : at + 1] if found is not None else ():
            self.tokens.append(suspended.token)
            self.do(f"resume {run} {payload!r} {by}", self.process().resume(suspended.token, payload, by=by))

    def settle(self, run: str, verdict: Any, output: Any = None, by: str | None = None, at: int = 0) -> None:
        """Settle a write of a run that is in doubt: the first one, or that of a number."""
        found = self.read(run)
        for doubt in found.doubts[at : at + 1] if found is not None else ():
            work = self.process().reconcile(run, doubt.place, verdict, output, by=by)
            self.do(f"reconcile {run} {doubt.place} {verdict} {output!r} {by}", work)

    def recover(self, run: str) -> None:
        """Recover a run, once its lease is over."""
        self.do(f"recover {run}", self.process().recover(run))

    def work(self, *data: Mapping[str, Any]) -> None:
        """Let a worker drive what is due."""
        programs = [program for one in data if (program := self.program(one)) is not None]
        names = {program.name or "": frozenset({Plan(program, self.policies).digest}) for program in programs}
        worker = Worker(self.process(), names, self.notes.add)
        self.do("work", worker.work(asyncio.Event(), once=True))

    def at(self, microseconds: int) -> None:
        """Let time pass."""
        self.clock.time += microseconds
        self.notes.add("at", self.clock.time)

    def chain(self) -> None:
        """Note the runs, and those before each."""
        for row in self.store.rows():
            self.do(f"before {row.run}", self.process().before(row.run))
        self.do("due", self.process().due())

    def end(self) -> None:
        """Note the records and the state of each run, and what a verifier says of the last one and those before it."""
        rows = list(self.store.rows())
        for row in rows:
            self.notes.add("run", row.run, row.program, row.status, row.seq, row.started, row.updated)
            for entry in self.store.read(row.run):
                self.notes.add(entry.record)
            self.notes.add(sorted(self.store.vault.get(row.run).items()))
            found = self.read(row.run)
            if found is not None:
                self.notes.add(found, found.spent, found.continues)
        for row in rows[-1:]:
            self.verify(row.run)

    def brief(self) -> None:
        """Note the records of each run, and the spans that come of them."""
        for row in self.store.rows():
            entries = list(self.store.read(row.run))
            self.notes.add("run", row.run, row.program, row.status, row.seq, row.started, row.updated)
            self.notes.add(*(entry.record for entry in entries))
            self.notes.add(sorted(self.store.vault.get(row.run).items()))
            spans = Spans(row.run, lambda digest: outline_of(self.store.document(digest) or b""))
            self.notes.add([spans.add(read_record(entry)) for entry in entries])

    def verify(self, run: str) -> None:
        """Note what a verifier says of a run and those before it."""
        check = replayer(self.store, run, plans=self.plans())
        self.notes.add(verify(self.store, run, keys=(KEY.public,), replay=check))

    def after(self) -> None:
        """Note what the runs have become, and what is kept of those that are gone."""
        for row in self.store.rows():
            last = self.store.read(row.run)[-1]
            self.notes.add("run", row.run, row.status, row.seq, last.record, len(self.store.vault.get(row.run)))
        self.notes.add("pruned", sorted((run, self.store.kept(run)) for run in self.store.pruned()))


# -- what may become of the runs of a story ----------------------------------------------------------------------------


def _erase(story: Story, run: str) -> None:
    story.do(f"erase {run}", story.process().erase(run, by="ann"))


def _cancel(story: Story, run: str) -> None:
    story.do(f"cancel {run}", story.process().cancel(run, by="bob"))


def _copy(story: Story, run: str) -> None:
    del run
    source, copied = story.store, story.new_store()
    story.notes.add([tuple(one) for one in copy_runs(source, copied, stored_due(source))])
    story.notes.add([tuple(one) for one in copy_runs(source, copied, stored_due(source))])
    story.store = copied
    story.chain()


def _prune(story: Story, run: str) -> None:
    """Ask for the runs that ended before the end of one, and one microsecond later; prune those before `run`."""
    ended = story.do("prunable", story.process().prunable(story.clock.time / 1e6 + 1)) or []
    for one in ended[-1:]:
        story.do("prunable at its end", story.process().prunable(one.ended))
        story.do("prunable just behind it", story.process().prunable(one.ended + 0.000001))
    found = next((row.updated for row in story.store.rows() if row.run == run), story.clock.time / 1e6)
    story.do("prunable p", story.process().prunable(found + 1, program="p"))
    story.do("prunable q", story.process().prunable(found + 1, program="q"))
    story.do("prune", story.process().prune(found + 0.000001, by="ann"))
    story.do("prune", story.process().prune(found + 1e6))
    story.do(f"get {run}", story.process().get(run))
    story.do(f"cancel {run}", story.process().cancel(run))


def _verify(story: Story, run: str) -> None:
    store = story.store
    story.notes.add(verify(store, run, keys=(KEY.public,), replay=replayer(store, run)))


def _switch(story: Story, run: str) -> None:
    del run
    for name in ("tool:pay", "program:p", "program:inner"):
        story.store.switch(Switch(name, True, story.clock.time / 1e6, "by hand", "bob"))
    story.do("recover all", story.process().recover_all())
    for name in ("tool:pay", "program:p"):
        story.store.switch(Switch(name, False, story.clock.time / 1e6, "mended", "ann"))
    story.do("recover all", story.process().recover_all())
    story.notes.add([tuple(one) for one in story.store.switches()])


def _again(story: Story, run: str) -> None:
    """Answer calls again that were answered, and settle what is not in doubt."""
    for token in story.tokens:
        story.do("resume", story.process().resume(token, 1))
    story.do("reconcile", story.process().reconcile(run, "pay1", "done", 1))
    story.do("recover", story.process().recover(run))


AFTERMATHS: Final[Sequence[Callable[[Story, str], None]]] = (
    _prune,
    _erase,
    _copy,
    _prune,
    _again,
    _cancel,
    _verify,
    _switch,
)
"""What others do with a run afterwards."""


def afterwards(story: Story, number: int) -> None:
    """Show the store, do with one of the runs what comes at a number, and say what it has become."""
    story.end()
    runs = [row.run for row in story.store.rows()]
    if runs:
        turn, rest = divmod(number, len(AFTERMATHS))
        run = runs[rest % len(runs)] if turn % 2 else runs[-1 - turn // 2 % len(runs)]
        AFTERMATHS[(turn + rest) % len(AFTERMATHS)](story, run)
        story.after()


def with_cache(story: Story) -> None:
    """Give the machines a cache of replies."""
    story.more["cache"] = ReplyTable()


def tool_step(id: str, tool: str, x: Any = 1, **more: Any) -> dict[str, Any]:
    """Return a step that calls a tool."""
    return {"id": id, "type": "tool", "tool": tool, "args": {"x": x}, **more}


Played = Callable[..., None]
"""Plays a case: it takes the story, the columns of the case, and the id of its run."""


def cases_of(*tables: tuple[Played, Sequence[tuple[Any, ...]]]) -> list[tuple[Played, tuple[Any, ...]]]:
    """Return the cases of tables, each with what plays it."""
    return [(play, one) for play, cases in tables for one in cases]


def play_cases(story: Story, cases: Sequence[tuple[Played, tuple[Any, ...]]]) -> None:
    """Play cases, each with a run of its own."""
    for at, (play, one) in enumerate(cases):
        play(story, *one, f"r{at}")
    story.brief()
    story.verify("r0")
