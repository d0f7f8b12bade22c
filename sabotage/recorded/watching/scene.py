"""Scenes of runs that are watched: spans and metrics, from runs as they go on and from records that are read later."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from random import Random
from typing import Any, Final

from stepward.sabotage.drawn.cases import drawn_case
from stepward.sabotage.drawn.machine import DrawnCase, Parted
from stepward.sabotage.drawn.world import DrawnWorld
from stepward.sabotage.operations.tasks import SECRET, drawn_plain
from stepward.sabotage.recorded.notes import Notes
from stepward.sabotage.recorded.operations.scene import KINDS
from stepward.sabotage.recorded.shared.context import Acts, SceneContext, constants, thing
from stepward.sabotage.recorded.shared.environment import Environment, Process, SceneProgram
from stepward.sabotage.recorded.watching import span_tables
from stepward.sabotage.recorded.watching.observing import Meter, observe, read_environments
from stepward.vm import Run
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.journal.records import Record, read_record
from stepward.vm.journal.store import Append, Journal, Lease
from stepward.vm.machine.admission import Finding
from stepward.vm.machine.events import RUNNING
from stepward.vm.machine.plan import Plan
from stepward.vm.telemetry import following, names
from stepward.vm.telemetry.courses import branch_of, frame_of
from stepward.vm.telemetry.following import Followed
from stepward.vm.telemetry.ids import span_id_of, trace_id_of
from stepward.vm.telemetry.metrics import Metrics
from stepward.vm.telemetry.outline import outline_of
from stepward.vm.telemetry.said import said_by
from stepward.vm.telemetry.spans import Span, Spans
from stepward.vm.telemetry.watching import WatchedJournal

# -- runs --------------------------------------------------------------------------------------------------------------

THEMES: Final = ("bodies", "branches", "items", "joins", "all", "calls", "flows", "time", "order", "errors", "rounds")
PROGRAMS: Final = 4
"""The programs of a theme, which are drawn once in a process."""

PLAIN: Final = 60
"""Programs of a few steps, of which many wait for somebody."""


@cache
def _case(theme: str, number: int) -> tuple[DrawnCase, Plan] | None:
    if theme == "plain":
        program = drawn_plain(Random(f"watched {number}"), 0, KINDS).built()
        return DrawnCase(program, f"watched {number}", inputs={"card": SECRET}), Plan(program)
    try:
        case = drawn_case(theme, f"watched {number}")
    except Parted:
        return None
    return None if case is None else (case, Plan(case.program, case.policies))


class Watched:
    """A drawn program in an environment, and the requests about its runs."""

    def __init__(self, context: SceneContext, seed: str, observer: Any = None) -> None:
        self.context = context
        self.chance = context.chance
        self.env = Environment(seed, context.stack, context.options)
        self.observer = observer
        self.runs: dict[str, SceneProgram] = {}
        self.machines: dict[str, Process] = {}
        self.found: dict[str, Run] = {}
        """What is known of the runs that go on."""
        self.env.may_die = self.chance.random() < 0.3

    def start(self, run: str) -> None:
        """Run a program of chance."""
        found = None
        while found is None:
            is_plain = self.chance.random() < 0.4
            theme, among = ("plain", PLAIN) if is_plain else (self.chance.choice(THEMES), PROGRAMS)
            found = _case(theme, self.chance.randrange(among))
        case, plan = found
        secrets = case.secrets or (SECRET,) * is_plain
        world = DrawnWorld(plan, f"{self.env.seed} {run}", case.manner, secrets, case.limits.output_bytes)
        chosen = SceneProgram(case, plan, world)
        self.env.programs.append(chosen)
        self.runs[run] = chosen
        inputs = self.env.inputs(chosen)
        by = self.chance.choice((None, "ann"))
        self._keep(run, self.env.do("run", self._machine(run).run(case.program, inputs, run_id=run, by=by)))

    def _keep(self, run: str, found: Any) -> None:
        """Keep what is known of a run."""
        if not isinstance(found, Run):
            if self.env.store.head(run) is None:
                return
            found = self.env.quiet(self._machine(run).get(run))
        self.found[run] = found
        if found.is_over:
            del self.found[run]
            if self.chance.random() < 0.1:
                self.env.do("erase", self._machine(run).erase(run))

    def _machine(self, run: str) -> Process:
        """Return a machine for a run: mostly that of before, if its process has not died."""
        found = self.machines.get(run)
        if found is None or self.env.is_dead or self.chance.random() < 0.3:
            case = self.runs[run].case
            more = {} if self.observer is None else {"observer": self.observer}
            found = self.machines[run] = self.env.machine(case.policies_with(0), limits=case.limits, **more)
        return found

    def go_on(self, run: str) -> None:
        """Ask something of a run."""
        env, chance, found = self.env, self.chance, self.found[run]
        result: Any = None
        world, by = self.runs[run].world, chance.choice((None, "bob"))
        if chance.random() < 0.06:
            result = env.do("cancel", self._machine(run).cancel(run, by=by))
        elif found.doubts and chance.random() < 0.9:
            doubt, verdict = chance.choice(found.doubts), chance.choice(("done", "done", "not_done", "abandon"))
            output = self._payload(world, doubt.place)
            result = env.do("reconcile", self._machine(run).reconcile(run, doubt.place, verdict, output, by=by))  # type: ignore[arg-type]
        elif found.suspensions and chance.random() < 0.9:
            suspended = chance.choice(found.suspensions)
            result = env.do(
                "resume", self._machine(run).resume(suspended.token, self._payload(world, suspended.step), by=by)
            )
        else:
            env.clock.time = max(env.clock.time + 10**8, int((found.due or 0) * 1e6) + chance.choice((-1, 0, 1)))
            env.do("recover", self._machine(run).recover(run))
        self._keep(run, result)

    def _payload(self, world: DrawnWorld, step: str) -> Any:
        calls = [call for call in world.calls if call == step or step.startswith((f"{call}[", f"{call},"))]
        return world.value(calls[0], self.chance) if calls and self.chance.random() < 0.9 else "odd"

    def play(self, most: int) -> None:
        """Start runs, and go on with them in turn."""
        for number in range(self.chance.choice((1, 1, 2))):
            self.start(f"r{number}")
        for _ in range(most):
            if self.found:
                self.go_on(self.chance.choice(sorted(self.found)))


def watch_runs(context: SceneContext) -> None:
    """Watch runs while they go on, and export their spans later."""
    context.swap(following, "time", _ticking(context.chance))
    with observe(context) as seen:
        watched = Watched(context, f"watched {context.chance.random()}", seen.telemetry)
        watched.play(7)
        store = watched.env.store
        context.notes.add("flushed", seen.telemetry.flush())
        for run in ("r0", "r1"):
            context.do(run, lambda run=run: seen.telemetry.export(store, run))


def _ticking(chance: Random) -> Any:
    """Return a module of time whose clock goes on by chance."""
    times = [0.0]
    ticks = (0.0, 0.0, 0.001, 0.4, 0.999, 1.0, 1.001)

    def monotonic() -> float:
        times[0] += chance.choice(ticks)
        return times[0]

    return thing(monotonic=monotonic)


# -- spans from records ------------------------------------------------------------------------------------------------


def _stored(context: SceneContext, most: int = 6) -> Watched:
    """Return runs that nobody has watched."""
    watched = Watched(context, f"stored {context.chance.random()}")
    watched.play(most)
    return watched


def make_spans(context: SceneContext) -> None:
    """Make the spans of runs from their records, with values and without, some records missing or changed."""
    watched, chance = _stored(context), context.chance
    store = watched.env.store
    for run in sorted(watched.runs):
        outline = outline_of(watched.runs[run].plan.document)
        context.notes.add(outline)
        records = [read_record(entry) for entry in store.read(run)]
        known = {watched.runs[run].plan.digest: outline}
        spans = Spans(run, known.__getitem__, values=chance.random() < 0.3)
        for record in records:
            for span in context.quiet(lambda record=record, spans=spans: spans.add(record)) or ():
                context.notes.add(span)
        context.notes.add(spans.following, spans.trace_id, spans.root_id)
        if not records:
            continue
        again = Spans(run, known.__getitem__)
        chance.shuffle(records) if chance.random() < 0.3 else records.pop(chance.randrange(len(records)))
        for record in records[:8]:
            changed = record._replace(at=record.at + chance.choice((0, 0, -(10**9))))
            context.do("odd", lambda changed=changed, again=again: again.add(changed))


def follow_stores(context: SceneContext) -> None:
    """Follow runs whose entries come in parts, late, from others, or from several runs at once."""
    watched, chance = _stored(context), context.chance
    store = watched.env.store
    context.swap(following, "time", _ticking(chance))
    for name, values in (("MAX_RUNS", (1, 2, 1024)), ("MAX_WAITING", (1, 2, 3, 128)), ("MAX_OUTLINES", (1, 2, 256))):
        context.swap(following, name, chance.choice(values))
    notes = context.notes

    class Told(_Through):
        def read(self, run: str, first: int = 0) -> Any:
            notes.add("reads", run, first)
            return self.store.read(run, first)

        def document(self, digest: str) -> bytes | None:
            notes.add("document", digest[:8])
            return self.store.document(digest) if chance.random() < 0.97 else None

    followed = Followed(Told(store), values=chance.random() < 0.5)  # type: ignore[arg-type]
    queues = {run: list(store.read(run)) for run in sorted(watched.runs) if store.head(run) is not None}
    while any(queues.values()):
        run = chance.choice([name for name, entries in queues.items() if entries])
        number = chance.choice((1, 1, 2, 3, 5))
        part, queues[run] = queues[run][:number], queues[run][number:]
        mine = {entry.digest for entry in part if chance.random() < 0.9}
        if chance.random() < 0.9:
            followed.mine.update(mine)
        if chance.random() < 0.1:
            continue
        status = RUNNING if queues[run] and chance.random() < 0.9 else chance.choice(("SUCCESS", "SUSPENDED", RUNNING))
        append = Append(run, part[0].seq - 1, tuple(part), status, 0.0, durable=True)
        context.do("follow", lambda append=append: followed.follow(append))
        if chance.random() < 0.7:
            followed.mine.difference_update(mine)
    context.do("rest", followed.rest)
    context.do("rest again", followed.rest)
    context.notes.add(sorted(followed._runs), len(followed._outlines), len(followed.mine))


class _Through:
    def __init__(self, store: Journal) -> None:
        self.store = store


class _Weak(MemoryJournal):
    """A store that may refuse."""

    refuses = False

    def create(self, append: Append, program: str, holder: str, ttl: float) -> Lease | None:
        if self.refuses:
            raise OSError
        return super().create(append, program, holder, ttl)

    def append(self, append: Append, fence: int | None) -> None:
        if self.refuses:
            raise OSError
        super().append(append, fence)


def watch_stores(context: SceneContext) -> None:
    """Watch a store that takes entries or refuses them."""
    watched, chance, store, mine = _stored(context, 0), context.chance, _Weak(), set[bytes]()
    notes = context.notes
    journal = WatchedJournal(store, lambda append: notes.add("saw", append.run, len(append.entries), len(mine)), mine)
    notes.add(journal.blocks, store.blocks)
    lease = None
    for entry in watched.env.store.read("r0")[:14]:
        store.refuses = chance.random() < 0.2
        append = Append("r0", entry.seq - 1, (entry,), RUNNING, float(entry.seq), durable=False)
        if lease is None or chance.random() < 0.1:
            lease_made = context.quiet(lambda append=append: journal.create(append, "p", "me", 10.0))
            lease = lease or lease_made
            notes.add("made", lease_made is not None)
        else:
            context.do("append", lambda append=append, lease=lease: journal.append(append, lease and lease.fence))
        notes.add(len(mine), len(store.read("r0")))


# -- parts -------------------------------------------------------------------------------------------------------------

_MEMBERS: Final = (("e", 1, 1, 0), ("e", 1, 2, 3), ("b", 1, 1, "left"), ("c", 2, 1, 1), ("b", 1, 1, "right"))
_BODIES: Final[tuple[Any, ...]] = (
    *({}, {"inputs": {"a": 1, "b": "é"}}, {"output": None}, {"output": "#v0:00", "values": {"x": ["#a", "##b"]}}),
    *({"request": {"q": "?"}, "why": "w"}, {"output": {"a": [1]}, "tool": "t", "args": {"x": "y"}}),
)


def name_ids(context: SceneContext) -> None:
    """Show ids, frames, branches and values of records by hand."""
    chance = context.chance
    for run in ("", "r0", "é", f"r{chance.random()}"):
        context.notes.add(
            trace_id_of(run), span_id_of(run, chance.randrange(9), chance.choice(("run", "step a", "call a")))
        )
    for _ in range(6):
        frame = tuple(chance.sample(_MEMBERS, chance.choice((0, 1, 2, 3))))
        beside = chance.sample(("e", "c", "x"), chance.choice((0, 1, 2)))
        body = {**chance.choice(_BODIES), **({"frame": list(map(list, frame))} if chance.random() < 0.8 else {})}
        note = chance.choice(({}, {"by": "ann"}, {"started": 5, "took": 7}))
        record = Record(1, "attempt", body, note, 10, "")
        context.notes.add(branch_of(frame, beside), frame_of(record))
        intent = chance.choice(
            (None, Record(0, "intent", {"tool": chance.choice(("t", "")), "args": {"a": "#s"}}, {}, 0, ""))
        )
        context.do(
            "said", lambda record=record, intent=intent: said_by(record, chance.choice(("", "tool", "llm")), intent)
        )


def count_spans(context: SceneContext) -> None:
    """Count spans and findings by hand."""
    chance = context.chance
    metrics = Metrics(Meter(context.notes))  # type: ignore[arg-type]
    among: dict[str, tuple[Any, ...]] = {
        **{names.WORKFLOW: ("p",), names.REASON: ("error",), names.ERROR: ("failed",), names.TOOL: ("pay",)},
        **{names.TOOL_TYPE: ("function",), names.RESPONSE_MODEL: ("m",), names.TOKENS: (0, 5, 1.5, "5")},
        **{names.COST: (0.5, -0.5, 1, "1", 0.0), names.RUN: ("r",)},
    }
    operations = (names.INVOKE_WORKFLOW, names.EXECUTE_TOOL, names.CHAT, "other", None)
    for _ in range(6):
        attributes = context.some(among, 0.6) | {
            names.STATUS: chance.choice(("SUCCESS", "SUSPENDED", "IN_DOUBT", "FAILED"))
        }
        operation = chance.choice(operations)
        attributes |= {} if operation is None else {names.OPERATION: operation}
        if chance.random() < 0.05:
            del attributes[names.STATUS]
        start = chance.choice((0, 10**6))
        span = Span(1, 2, None, "n", False, start, start + chance.choice((0, 1, 1_500_000)), attributes)
        context.quiet(lambda span=span: metrics.count([span]))
    metrics.count_findings("p", _findings(chance))


def _findings(chance: Random) -> Sequence[Finding]:
    rows = [("SW101", "error"), ("SW202", "warning")]
    return [thing(code=code, severity=severity) for code, severity in chance.sample(rows, chance.choice((0, 1, 2)))]


def check_watched(context: SceneContext) -> None:
    """Watch checkers, and observers whose exporters, meters or libraries fail."""
    chance = context.chance
    from stepward.vm.telemetry import telemetry as module

    with observe(context, fails=chance.choice((0.0, 0.5, 1.0))) as seen:
        program, policies, found = _case("all", 0) or (None, None), (), _findings(chance)
        checker = seen.telemetry.checks(lambda *_: iter(found))
        context.do("checks", lambda: len(list(checker(thing(name="p"), policies))))
        seen.telemetry.count_findings("q", found)
        del program
        context.do("export", lambda: seen.telemetry.export(MemoryJournal(), "nobody"))
        for error in (ValueError("v"), KeyError("k"), ValueError("w")):
            seen.telemetry._complain(error)
        context.notes.add(
            seen.telemetry.flush(chance.choice((1.0, 5.0))), seen.telemetry.close(), seen.telemetry.close()
        )
    context.swap_item(sys.modules, "stepward.vm.telemetry.sending", None)
    try:
        module.Telemetry()
    except Exception as error:
        before, _, after = str(error).partition("(")
        context.notes.add(type(error).__name__, before, after.partition(")")[2])


MODULES: Final = tuple(
    f"telemetry.{name}"
    for name in (
        *("courses", "environment", "following", "ids", "metrics", "names", "outline", "said", "sending", "spans"),
        *("telemetry", "watching"),
    )
)


SCENES: Final = Acts(
    (
        *(watch_runs, watch_runs, make_spans, make_spans, follow_stores, watch_stores),
        *(name_ids, count_spans, check_watched, read_environments, constants(MODULES, 4)),
    ),
    number=2,
    tables=span_tables.TABLES,
    scenes=260,
)


def scene(seed: str, options: Mapping[str, Any]) -> Notes:
    """Play the scene of a seed on machines with these options, and return what came."""
    with ExitStack() as stack:
        log = logging.getLogger("opentelemetry")
        stack.callback(log.setLevel, log.level)
        log.setLevel(logging.CRITICAL + 1)
        return SCENES.scene(seed, options)
