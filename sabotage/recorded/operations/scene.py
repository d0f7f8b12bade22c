"""Scenes of requests: random programs run in one store, and everything is asked of them at random times."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import ExitStack
from random import Random
from typing import Any, Final

from stepward.sabotage.campaigns.specimen_programs import SPECIMENS, specimen_target
from stepward.sabotage.drawn.machine import DrawnCase
from stepward.sabotage.operations.tasks import POLICIES, SECRET, drawn_plain
from stepward.sabotage.playing.case import KEY_SEED
from stepward.sabotage.recorded.notes import Notes
from stepward.sabotage.recorded.operations.showing import show_store
from stepward.sabotage.recorded.shared.environment import Environment, Process, SceneProgram
from stepward.sabotage.recorded.shared.given import ReplyTable, finds_errors, finds_nothing, many_values
from stepward.vm import Policy, Program, Run, SigningKey
from stepward.vm.journal.copying import copy_runs
from stepward.vm.journal.signing import VerifyKey
from stepward.vm.journal.store import Switch
from stepward.vm.machine.authority import Envelope
from stepward.vm.machine.state import Limits
from stepward.vm.machine.stored_due import stored_due
from stepward.vm.machine.turns import TurnRequest, steps_left, turn_name, turn_policies
from stepward.vm.machine.worker import Worker

PEOPLE: Final = ("ann", "bob", None)
THEMES: Final = (
    *("all", "all", "secrets", "policies", "policies", "people", "people", "waivers", "budgets", "order", "errors"),
    *("bodies", "branches", "calls", "calls", "items", "flows", "joins", "rounds", "time", "time", "sizes", "rules"),
)
MOST_RUNS: Final = 5
OPERATIONS: Final = 18
LEASE: Final = 60_000_000
LIMITS: Final = ((200, 400, 6), (60, 100_000, 60), (100_000, 300, 60), (100_000, 100_000, 3))
"""Bytes of an output and of a state, and steps of a run."""

EDGES: Final = (-1_000_000, -1, 0, 1, 1_000_000)
"""Microseconds from the end of a wait, a deadline or a lease."""

PAYLOADS: Final = (None, 7, "well", True, {"a": 1}, ["x"], SECRET)
KINDS: Final = ("get", "pay", "mail", "think", "ask", "sign", "set", "beg", "rest", "each", "rests", "both")


def scene(seed: str, options: Mapping[str, Any]) -> Notes:
    """Play the scene of a seed on machines with these options, and return what came."""
    with ExitStack() as stack:
        env = Environment(seed, stack, options, in_files=Random(f"files {seed}").random() < IN_FILES)
        _Scene(env).play()
        return env.notes


IN_FILES: Final = 0.04
"""The share of scenes whose stores are files."""


class _Scene:
    """The requests of one scene. `runs` are those that were started, the oldest first."""

    def __init__(self, env: Environment) -> None:
        self.env = env
        self.chance = env.chance
        self.checker = self.chance.choice((None, None, finds_nothing, finds_nothing, finds_errors))
        self.key = SigningKey.from_seed(KEY_SEED) if self.chance.random() < 0.5 else None
        self.later = 0
        self.extra = [POLICIES[name] for name in sorted(POLICIES) if self.chance.random() < 0.15]
        self.trusted: tuple[VerifyKey, ...] = ()
        self.limits = Limits(*self.chance.choice(LIMITS)) if self.chance.random() < 0.15 else None
        self.lease_seconds = self.chance.choice((60, 60, 60, 10))
        self.retry_delay = self.chance.choice((_doubled, _doubled, _none))
        self.breaks_after = self.chance.choice((None, None, None, 1, 2))
        self.runs: list[str] = []
        self.found: dict[str, Run] = {}
        """What was read of each run last."""
        self.tokens: list[str] = []
        self.copy = env.new_store()
        self.cache = ReplyTable() if self.chance.random() < 0.5 else None
        env.meanwhile = self._meanwhile

    def play(self) -> None:
        """Draw programs, ask everything of their runs, and show the store at the end."""
        for number in range(self.chance.choice((1, 1, 2))):
            self._draw(str(number))
        self.start()
        self._read()
        for _ in range(OPERATIONS):
            states = {_state(run) for run in self.found.values()} | {""}
            some = [name for name, (_, state) in _OPERATIONS.items() if state in states or self.chance.random() < 0.1]
            name = self.chance.choices(some, [_OPERATIONS[one][0] for one in some])[0]
            getattr(self, name)()
            self._read()
        show_store(self.env, self._machine(), self.key)

    def _draw(self, name: str) -> None:
        """Add a program: a list of tasks, a specimen, one of many sensitive values, or one of a theme."""
        kind = self.chance.choices(("tasks", "specimen", "values", "theme"), (25, 15, 5, 55))[0]
        if kind == "theme" and self.env.add(self.chance.choice(THEMES), name) is not None:
            return
        match kind:
            case "specimen":
                target = specimen_target(self.chance.choice(SPECIMENS))
                case = DrawnCase(target.program, f"{self.env.seed} {name}", target.policies)
            case "values":
                case = many_values(self.chance, f"{self.env.seed} {name}")
            case _:
                program = drawn_plain(self.chance, 10 * len(self.env.programs), KINDS).built()
                case = DrawnCase(program, f"{self.env.seed} {name}", inputs={"card": SECRET})
        self.env.add_case(case)

    # -- machines ------------------------------------------------------------------------------------------------------

    def _machine(self, scene_program: SceneProgram | None = None, policies: Sequence[Policy] | None = None) -> Process:
        """Return a machine with these policies, or those of a program."""
        scene_program = scene_program or self.chance.choice(self.env.programs)
        if policies is None:
            policies = [*scene_program.case.policies_with(self.later), *self.extra]
        more: dict[str, Any] = {"breaks_after": self.breaks_after, "limits": self.limits or scene_program.case.limits}
        more |= {"trusted": self.trusted, "lease_seconds": self.lease_seconds, "retry_delay": self.retry_delay}
        more |= {"checker": self.checker, "cache": self.cache}
        return self.env.machine(policies, self.key, **more)

    def _by(self) -> str | None:
        return self.chance.choice(PEOPLE)

    def _run(self, state: str = "") -> str:
        """Return one of the runs, mostly one in a state."""
        fitting = [name for name, run in self.found.items() if _state(run) == state]
        if fitting and self.chance.random() < 0.9:
            return self.chance.choice(fitting)
        return self.chance.choice(self.runs) if self.runs and self.chance.random() < 0.97 else "nobody"

    def _ask(self, what: str, work: Any) -> None:
        """Make a request, and note its result."""
        self.env.do(what, work)

    def _read(self) -> None:
        """Read the runs that have changed."""
        store, machine = self.env.store, self._machine()
        self.runs = [row.run for row in store.rows()]
        self.found = {name: run for name, run in self.found.items() if name in self.runs}
        for name in self.runs:
            head, before = store.head(name), self.found.get(name)
            if before is None or head is None or before.head != head.digest.hex():
                self.found[name] = found = self.env.quiet(machine.get(name))
                self.tokens += [
                    suspended.token for suspended in found.suspensions if suspended.token not in self.tokens
                ]

    # -- requests ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start a run, queue one, or start one again."""
        scene_program, by = self.chance.choice(self.env.programs), self._by()
        inputs = dict(self.env.inputs(scene_program))
        if inputs and self.chance.random() < 0.1:
            inputs[self.chance.choice(sorted(inputs))] = self.chance.choice(PAYLOADS)
        is_again = self.runs and (len(self.runs) >= MOST_RUNS or self.chance.random() < 0.15)
        run = self._run() if is_again else f"r{len(self.runs)}"
        self.env.notes.add("inputs", inputs)
        if self.chance.random() < 0.25:
            self._ask(
                f"queue {run} {by}",
                self._machine(scene_program).queue(scene_program.case.program, inputs, run_id=run, by=by),
            )
        else:
            envelope = self._envelope()
            accept = self.chance.choice(((), (), ("SW998",)))
            work = self._machine(scene_program).run(
                scene_program.case.program, inputs, run_id=run, by=by, envelope=envelope, accept=accept
            )
            self._ask(f"run {run} {by} {envelope} {accept}", work)

    def _envelope(self) -> Envelope | None:
        caller = self.chance.choice((None, None, None, "ann", "gate"))
        return None if caller is None else Envelope(caller, "gate 1", settles_own=self.chance.random() < 0.3)

    def pass_time(self) -> None:
        """Let time pass to the edge of a wait, a deadline, the time of a run or a lease, or for a while."""
        clock = self.env.clock
        dues = [row.expires for row in self.env.store.rows() if row.expires]
        dues += [run.due for run in self.found.values() if run.due]
        edges = [int(due * 1e6) + edge for due in dues for edge in EDGES]
        later = [edge for edge in edges if edge > clock.time]
        clock.time = self.chance.choice(later) if later else clock.time + self.chance.choice((1, 10**6, 10**8, 10**12))
        self.env.notes.add("at", clock.time)

    def resume(self) -> None:
        """Answer a call that waits, or one that does not any more, or none."""
        waiting = [suspended.token for run in self.found.values() for suspended in run.suspensions]
        tokens = waiting if waiting and self.chance.random() < 0.85 else self.tokens
        token = self.chance.choice(tokens or ["nothing"])
        if self.chance.random() < 0.04:
            token = token[:-1] + "x"
        payload, by = self._payload(), self._by()
        self._ask(f"resume {token} {payload!r} {by}", self._machine().resume(token, payload, by=by))

    def _payload(self) -> Any:
        """Return a value, mostly of the type of a call that may suspend."""
        calls = [
            call
            for scene_program in self.env.programs
            for call in scene_program.world.calls.values()
            if call.may_suspend
        ]
        if not calls or self.chance.random() < 0.3:
            return self.chance.choice(PAYLOADS)
        call = self.chance.choice(calls)
        world = next(
            scene_program.world for scene_program in self.env.programs if scene_program.world.calls.get(call.id) is call
        )
        return world.value(call.id, self.chance)

    def reconcile(self) -> None:
        """Settle a write, mostly one that is in doubt."""
        found = [(name, doubt.place) for name, run in self.found.items() for doubt in run.doubts]
        if found and self.chance.random() < 0.95:
            run, place = self.chance.choice(found)
        else:
            calls = [name for scene_program in self.env.programs for name in scene_program.world.calls] or ["nothing"]
            run, place = self._run(), self.chance.choice(calls)
        verdict: Any = self.chance.choice(("done", "done", "not_done", "not_done", "abandon", "maybe"))
        output, by = self._payload(), self._by()
        work = self._machine().reconcile(run, place, verdict, output, by=by)
        self._ask(f"reconcile {run} {place} {verdict} {output!r} {by}", work)

    def cancel(self) -> None:
        """Cancel a run."""
        run, by = self._run(), self._by()
        self._ask(f"cancel {run} {by}", self._machine().cancel(run, by=by))

    def erase(self) -> None:
        """Erase a run."""
        run, by = self._run(), self._by()
        self._ask(f"erase {run} {by}", self._machine().erase(run, by=by))

    def recover(self) -> None:
        """Recover a run, or all of them."""
        if self.chance.random() < 0.5:
            run = self._run()
            self._ask(f"recover {run}", self._machine().recover(run))
        else:
            self._ask("recover all", self._machine().recover_all())

    def work(self) -> None:
        """Let a worker drive what is due."""
        some = self.chance.sample(self.env.programs, self.chance.randint(1, len(self.env.programs)))
        digests: dict[str, frozenset[str]] = {}
        for scene_program in some:
            name = scene_program.case.program.name
            digests[name] = digests.get(name, frozenset()) | {scene_program.plan.digest}
        worker = Worker(self._machine(some[0]), digests, self._say)
        self.env.may_die = False
        self._ask("work", worker.work(asyncio.Event(), once=True))
        self.env.may_die = True
        self.env.notes.add({name: count for name, count in vars(worker.counts).items() if name != "seen"})

    def _say(self, what: str, about: Mapping[str, Any]) -> None:
        self.env.notes.add(what, about)

    def continue_run(self) -> None:
        """Continue a run by another program."""
        run, scene_program = self._run("further"), self.chance.choice(self.env.programs)
        reads = {}
        for name in scene_program.plan.input_types:
            names = self._names(run)
            if names:
                reads[name] = name if name in names and self.chance.random() < 0.7 else self.chance.choice(names)
        most = {"steps": (0, 1, 5, 50), "tokens": (0, 5), "cost": (0, 3), "time": (0, 6)}
        grant = {name: amount for name, among in most.items() if (amount := self.chance.choice(among))}
        more: dict[str, Any] = {"after_failure": self.chance.random() < 0.6, "by": self._by(), "head": self._head(run)}
        more["max_continuations"] = self.chance.choice((3, 3, 1, 0))
        work = self._machine(scene_program).continue_run(
            run, scene_program.case.program, reads, grant=grant, envelope=self._envelope(), **more
        )
        self._ask(f"continue {run} {reads} {grant} {more}", work)

    def _head(self, run: str) -> str | None:
        """Return the head of a run, mostly, an old one, or none."""
        found = self.found.get(run)
        if found is None or self.chance.random() < 0.6:
            return None
        entries = self.env.store.read(run)
        return found.head if self.chance.random() < 0.8 else self.chance.choice(entries).digest.hex()

    def _names(self, run: str) -> list[str]:
        found = self.found.get(run)
        return [] if found is None else sorted(found.view("trace"))

    def migrate(self) -> None:
        """Move a run that waits to a new version of its program, whose texts or last steps are others."""
        run, scene_program = self._run("waits"), self.chance.choice(self.env.programs)
        data = scene_program.case.program.to_dict()
        steps = data["steps"] = list(map(dict, data["steps"]))
        match self.chance.choice(("same", "text", "more", "less")):
            case "text":
                steps[:] = [{**step, **({"prompt": "other"} if "prompt" in step else {})} for step in steps]
            case "more":
                steps.append({"id": "appended", "type": "end"})
            case "less" if len(steps) > 1:
                steps.pop()
        work: Callable[..., Any] = self._machine(scene_program).migrate
        if self.chance.random() < 0.3:
            work = self._machine(scene_program).migration
        self.env.notes.add("version")
        try:
            program = Program.from_dict(data)
        except Exception as error:
            self.env.notes.add_error(error)
            return
        grant = self.chance.choice(({}, {"steps": 5}))
        more: dict[str, Any] = {"by": self._by(), "head": self._head(run)} if work.__name__ == "migrate" else {}
        self._ask(f"{work.__name__} {run} {grant} {more}", work(run, program, grant=grant, **more))

    def take_turn(self) -> None:
        """Take a turn of a session, behind the last one or, now and then, behind an earlier one."""
        scene_program, by = self.chance.choice(self.env.programs), self._by()
        try:
            before = self.env.quiet(self._machine(scene_program).turns("session"))
        except Exception as error:
            self.env.notes.add_error(error)
            return
        if self.chance.random() < 0.1:
            before = before[:-1]
        data = {**scene_program.case.program.to_dict(), "max_steps": self.chance.choice((5, 20, 20))}
        turn, policies = (
            TurnRequest("the first", {"a": 1}, max_steps=data["max_steps"]),
            [*scene_program.case.policies_with(self.later)],
        )
        try:
            if before:
                turn, data = TurnRequest(f"turn {len(before)}"), {**data, "max_steps": steps_left(before[-1])}
                policies = [*turn_policies(before[-1].plan.policies, before[-1])]
            program = Program.from_dict({name: value for name, value in data.items() if value is not None})
        except Exception as error:  # a program with rules of its own is no turn
            self.env.notes.add_error(error)
            return
        machine, name = self._machine(scene_program, policies), turn_name("session", len(before) + 1)
        last = before[-1] if before else None
        self._ask(
            f"turn {name} {by}", machine.take_turn(name, program, self.env.inputs(scene_program), turn, last, by=by)
        )

    def prune(self) -> None:
        """Prune runs that ended before some time."""
        before = self.env.clock.time / 1e6 + self.chance.choice((-100, 0, 1))
        work = self._machine().prune if self.chance.random() < 0.6 else self._machine().prunable
        name = self.chance.choice((None, None, self.chance.choice(self.env.programs).case.program.name))
        self._ask(f"{work.__name__} {name}", work(before, program=name))

    def look(self) -> None:
        """List runs, those that are due, and those of a chain."""
        machine, run = self._machine(), self._run()
        self._ask("due", machine.due())
        self._ask("before", machine.before(run))
        status = self.chance.choice((None, ["RUNNING"], ["SUCCESS", "FAILED"]))
        since = self.chance.choice([None, *(row.started for row in self.env.store.rows())])
        name = self.chance.choice((None, None, self.chance.choice(self.env.programs).case.program.name))
        limit = self.chance.choice((None, None, 1, 2))
        rows = self.env.quiet(machine.runs(status, program=name, since=since, limit=limit))
        self.env.notes.add("rows", [(row.run, row.program, row.status, row.seq, row.started) for row in rows])

    def switch(self) -> None:
        """Close a breaker that is open, or open one."""
        store, now = self.env.store, self.env.clock.time / 1e6
        opened = sorted(store.opened())
        tools = sorted({call.tool for chosen in self.env.programs for call in chosen.world.calls.values() if call.tool})
        if opened and self.chance.random() < 0.8:
            switched = store.switch(Switch(self.chance.choice(opened), False, now, "it works", "ann"))
        else:
            name = self.chance.choice([*(f"tool:{tool}" for tool in tools), "program:p0"])
            switched = store.switch(Switch(name, True, now, "by hand", "bob"))
        self.env.notes.add("switch", switched, [tuple(one) for one in store.switches()])

    def copy_all(self) -> None:
        """Copy all runs to another store, and maybe go on there."""
        source = self.env.store
        self.env.notes.add("copied", [tuple(one) for one in copy_runs(source, self.copy, stored_due(source))])
        if self.chance.random() < 0.4:
            self.env.store, self.copy = self.copy, self.env.new_store()

    def both(self) -> None:
        """Make two requests at once of one machine."""
        run, token, machine = self._run("waits"), (self.tokens or ["nothing"])[-1], self._machine()
        works: list[Callable[[], Any]] = [
            lambda: machine.resume(token, self._payload()),
            lambda: machine.recover(run),
            lambda: machine.cancel(run),
            lambda: machine.get(run),
            lambda: machine.erase(run),
            machine.recover_all,
        ]
        one = self.chance.choice(works)
        two = one if self.chance.random() < 0.5 else self.chance.choice(works)
        self.env.may_die = False
        self._ask(f"both {works.index(one)} {works.index(two)} {run}", _at_once(one(), two()))
        self.env.may_die = True

    def interrupt(self) -> None:
        """Recover a run, or answer its call, and give up waiting for it after a while."""
        run, token, machine = self._run("runs"), (self.tokens or ["nothing"])[-1], self._machine()
        work: Any = machine.recover(run) if self.chance.random() < 0.5 else machine.resume(token, self._payload())
        turns = self.chance.choice((0, 1, 2, 3, 5, 8, 13))
        self._ask(f"{work.__name__} {run} {token}, given up after {turns} turns", _given_up(work, turns))

    async def _meanwhile(self, run: str) -> None:
        """Do something while a tool or a model of a run is asked."""
        clock, env = self.env.clock, self.env
        machine = self._machine()
        match self.chance.choice(("cancel", "cancel", "erase", "recover", "resume", "leap", "leap", "switch", "claim")):
            case "cancel":
                work: Any = machine.cancel(run, by=self._by())
            case "erase":
                work = machine.erase(run)
            case "recover":
                work = machine.recover(run)
            case "resume":
                work = machine.resume((self.tokens or ["nothing"])[-1], self._payload())
            case "claim":
                work = machine.claim(2)
            case "leap":
                clock.time += self.chance.choice((500_000, LEASE - 1, LEASE, LEASE + 1, 3 * LEASE))
                env.notes.add("leap to", clock.time)
                return
            case _:
                self.switch()
                return
        env.notes.add("meanwhile", work.__name__, run)
        try:
            found = await work
        except Exception as error:
            env.notes.add_error(error)
        else:
            env.notes.add([one.run for one in found] if isinstance(found, list) else found)

    def change_machines(self) -> None:
        """Give the machines later policies, other policies, or another key."""
        self.later += 1
        if self.chance.random() < 0.3:
            self.extra = [POLICIES[name] for name in sorted(POLICIES) if self.chance.random() < 0.5]
        if self.key is not None and self.chance.random() < 0.4:
            self.trusted = self.chance.choice((self.trusted, (*self.trusted, self.key.public)))
            self.key = SigningKey.from_seed(bytes([self.later]) * 32)
        self.env.notes.add("policies", self.later, [policy.policy for policy in self.extra])


def _doubled(attempt: int) -> float:
    """Return the seconds before an attempt, as a machine has them unless it is told otherwise."""
    return min(2.0 ** (attempt - 2), 30.0)


def _none(attempt: int) -> float:
    del attempt
    return 0.0


async def _given_up(work: Coroutine[Any, Any, Any], turns: int) -> Any:
    """Return what comes of a request whose caller is cancelled after some turns of the event loop."""
    task = asyncio.ensure_future(work)
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    return (await asyncio.gather(task, return_exceptions=True))[0]


async def _at_once(*works: Coroutine[Any, Any, Any]) -> list[Any]:
    """Return what comes of several requests."""
    return await asyncio.gather(*works, return_exceptions=True)


def _state(run: Run) -> str:
    """Return the state of a run, as the requests ask for it."""
    if run.is_over:
        return "further" if run.status in ("BUDGET_EXCEEDED", "STALLED", "FAILED") else "over"
    return "doubt" if run.doubts else "waits" if run.suspensions else "runs"


_OPERATIONS: Final[Mapping[str, tuple[int, str]]] = {
    "start": (8, ""),
    "pass_time": (12, ""),
    "resume": (30, "waits"),
    "reconcile": (30, "doubt"),
    "cancel": (3, ""),
    "erase": (3, ""),
    "recover": (12, "runs"),
    "work": (12, "runs"),
    "continue_run": (16, "further"),
    "migrate": (8, "waits"),
    "take_turn": (4, ""),
    "prune": (5, "over"),
    "look": (3, ""),
    "switch": (4, ""),
    "copy_all": (4, ""),
    "change_machines": (4, ""),
    "both": (6, ""),
    "interrupt": (5, ""),
}
"""The requests: how often each comes, and the state in which some run has to be for it, mostly."""
