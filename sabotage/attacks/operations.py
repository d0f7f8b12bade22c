"""Operations on the runs of a store in any order, at the edges of all times, compared with a plain model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from random import Random
from typing import Any, Final

from stepward.sabotage.attack import Attack, Family
from stepward.sabotage.invariants import Invariant, Outcome
from stepward.sabotage.operations.accounts import Account, Refusal
from stepward.sabotage.operations.book import LEASE, Book
from stepward.sabotage.operations.stores import new_stores
from stepward.sabotage.operations.task_tools import Process, TaskTools
from stepward.sabotage.operations.tasks import (
    KINDS,
    POLICIES,
    QUICK,
    SECRET,
    SPARE,
    Plain,
    Task,
    drawn_plain,
    drawn_task,
    echo,
)
from stepward.sabotage.operations.telling import content, expected, facts_of, is_interrupted
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.points import Killed
from stepward.vm.errors import StepwardError
from stepward.vm.journal.canonical import ErasedError
from stepward.vm.journal.copying import copy_runs
from stepward.vm.journal.store import Journal
from stepward.vm.journal.verify import verify
from stepward.vm.machine.authority import Envelope
from stepward.vm.machine.clock import ManualClock
from stepward.vm.machine.replay import cached_plans, replayer
from stepward.vm.machine.run import Run
from stepward.vm.machine.stored_due import stored_due

PEOPLE: Final = ("ann", "bob", None)
MOST_RUNS: Final = 7
EDGES: Final = (-1, 0, 1)
"""Microseconds from the end of a wait, a deadline, a lease or the time of a run."""


class OperationsInAnyOrder(Attack):
    """Runs of a store are started, taken up, answered, settled, cancelled, continued, moved, erased, pruned and copied
    in any order, at the very edges of their waits, deadlines and leases. A plain model says what each comes to."""

    family = Family.REPLAY
    surface = "operations on stored runs"
    action = "in any order, at the edges of all times"
    invariant = Invariant.GRAPH
    defence = "each operation does to each state of a run what its page says"
    severity = "high"
    weight = 8
    draws = True
    sequences = 2
    operations = 30

    def play(self, case: Case) -> Outcome:
        """Play sequences of operations, and compare after each of them. The last one is in files, and each on the
        server of the campaign if it has one."""
        seed = case.seed()
        for number in case.each("sequence", range(self.sequences)):
            with ExitStack() as stack:
                stores = new_stores(case.store, stack, in_files=number == self.sequences - 1)
                table = _Table(case, Random(f"operations {seed} {number}"), stores)
                for _ in range(self.operations):
                    table.operate()
                table.verify()
        return Outcome.ABSORBED


class _Table:
    """A store, its machine, and the model of both. `new_store` makes an empty store."""

    def __init__(self, case: Case, chance: Random, new_store: Callable[[], Journal]) -> None:
        self.case = case
        self.chance = chance
        self.clock = ManualClock(tick=0)
        self.new_store = new_store
        self.store = new_store()
        self.desk = TaskTools()
        self.book = Book(self.clock.time)
        self.count = 0
        if chance.random() < 0.3:
            self.book.present.add(chance.choice(sorted(POLICIES)))
        self.key = case.key if chance.random() < 0.5 else None
        self.plans = cached_plans(self.store)
        self.seen: dict[str, tuple[Any, ...]] = {}
        self.copy = new_store()
        self.kinds = chance.choices((KINDS, QUICK, SPARE), (5, 4, 1))[0]

    def machine(self) -> Process:
        """Return a machine in a process of its own."""
        self.desk.is_dead = False
        policies = [POLICIES[name] for name in sorted(self.book.present)]
        options = {"clock": self.clock, "random": self.case.random, "key": self.key, **self.case.weakness.options}
        options |= {"checker": lambda *_: (), "retry_delay": lambda _: 0.0}
        machine = Process(self.desk, self.desk, self.store, policies, **options)
        machine._stored = self.plans  # documents do not change, and to read them anew takes long
        return machine

    # -- operations ----------------------------------------------------------------------------------------------------

    def operate(self) -> None:
        """Do one thing by chance."""
        runs = self.book.live()
        if not runs or (len(runs) < MOST_RUNS and self.chance.random() < 0.15):
            self.start()
            return
        any_at_all = self.chance.random() < 0.1
        phases = {one.phase for one in runs} | {"further" for one in runs if is_interrupted(one)}
        names = [name for name, (_, phase) in _OPERATIONS.items() if any_at_all or phase is None or phase in phases]
        name = self.chance.choices(names, [_OPERATIONS[one][0] for one in names])[0]
        getattr(self, name)()

    def start(self) -> None:
        """Start a run, or write it for a worker."""
        self.count += 1
        plain = self._plain()
        run, by = f"r{self.count}", self.chance.choice(PEOPLE)
        is_queued = self.chance.random() < 0.3
        caller = self.chance.choice((None, None, "ann", "gate")) if not is_queued else None
        built, machine, inputs = plain.built(), self.machine(), {"card": SECRET}
        if is_queued:

            def written() -> None:
                self.book.opened(run, plain, by, caller).queued = self.book.now

            self._do(f"queue `{run}` by {by}", machine.queue(built, inputs, run_id=run, by=by), written)
            return
        envelope = None if caller is None else Envelope(caller, "gate 1")
        work = machine.run(built, inputs, run_id=run, by=by, envelope=envelope)
        self._do(f"start `{run}` by {by}, {caller}: {plain}", work,
                 lambda: self.book.drive(self.book.opened(run, plain, by, caller)))  # fmt: skip

    def start_again(self, pruned: Sequence[Account] = ()) -> None:
        """Start or queue a run that is there already, or was: as it is, with other inputs, and by another program."""
        one = self.chance.choice(pruned) if pruned else self._any()
        for other in ("nothing", "inputs", "program"):
            more = (Task("more", "set", 1),) if other == "program" or one.before else ()
            built = one.plain._replace(tasks=(*one.plain.tasks, *more)).built()
            inputs = {"card": SECRET[::-1] if other == "inputs" else SECRET}
            start = self.chance.choice((self.machine().run, self.machine().queue))
            due = partial(self.book.again, one, is_same=other == "nothing")
            self._do(f"start `{one.run}` again, other {other}", start(built, inputs, run_id=one.run, by="eve"), due)

    def list_runs(self) -> None:
        """List the runs that were started since the very start of some, the newest of them, and so on."""
        live, machine = self.book.live(), self.machine()
        starts = self.chance.sample([one.started for one in live], min(2, len(live)))
        for since in (None, *(start + edge for start in starts for edge in EDGES)):
            status = sorted({one.status for one in live})[:1]
            for statuses, program, most in ((None, None, 0), (None, "p0", 1), (status, None, 2), ([], None, None)):
                when = None if since is None else since / 1e6
                found = self.case.do(machine.runs(statuses, program=program, since=when, limit=most))
                pair = [row.run for row in found], self.book.listed(statuses, program, since, most)
                question = f"runs of {statuses} and {program} since {since}, {most} at most"
                self._hold(pair[0] == pair[1], f"{question}, are {pair[0]}, and not {pair[1]}", Invariant.KEPT)

    def _plain(self, before: Sequence[Task] = ()) -> Plain:
        plain = drawn_plain(self.chance, self.count * 10, self.kinds, before)
        for task in plain.tasks:
            self.desk.fates |= task.fates()
        return plain

    def pass_time(self) -> None:
        """Let time pass to the edge of something."""
        dues = [one for run in self.book.live() for one in (run.first_due(), run.ends_by, run.leased) if one]
        edges = [due + edge for due in dues for edge in EDGES if due + edge > self.book.now]
        near = [edge for edge in edges if edge < self.book.now + LEASE / 2]
        at = (
            self.chance.choice([min(edges), max(near or edges), self.chance.choice(edges)])
            if edges
            else self.book.now + 1
        )
        self.case.act(f"let {at - self.book.now} microseconds pass")
        self.clock.time = self.book.now = at

    def recover_all(self) -> None:
        """Let a machine take up all runs."""
        self._do("recover all runs", self.machine().recover_all(), self._recovered)

    def _recovered(self) -> None:
        book = self.book
        running = [one for one in book.live() if one.status == "RUNNING"]
        for one in running:
            if one.leased <= book.now:
                self._taken_up(one)
        self._claimed({one.run for one in running}, 100, None)

    def _claimed(self, tried: set[str], limit: int, program: str | None) -> None:
        due = self._due(program)[:limit]
        for one in due:
            one.leased = self.book.now + LEASE
        for one in due:
            if one.run in tried:
                one.leased = 0
            else:
                self._taken_up(one)

    def _due(self, program: str | None) -> list[Account]:
        book, found = self.book, []
        for number, one in enumerate(book.live()):
            due = one.due() if one.queued is None else one.queued
            if due is not None and due <= book.now and one.leased <= book.now and program in (None, one.plain.name):
                found.append((due, number, one))
        return [one for *_, one in sorted(found, key=lambda due: due[:2])]

    def _taken_up(self, one: Account) -> None:
        one.leased = 0
        try:
            missing = self.book.governed(one)
        except Refusal:
            return
        self.book.drive(one, missing)

    def work(self) -> None:
        """Let a worker claim runs of a program, and go on with them."""
        limit, program = self.chance.randint(1, 3), self.chance.choice((None, "p0", "p1"))
        due = partial(self._claimed, set(), limit, program)
        self._do(f"claim {limit} runs of {program}", self._work(limit, program), due)

    async def _work(self, limit: int, program: str | None) -> None:
        machine = self.machine()
        for lease in await machine.claim(limit, None if program is None else [program]):
            try:
                await machine.go_on(lease)
            except StepwardError:
                continue

    def recover(self) -> None:
        """Take up one run."""
        one = self._any()

        def due() -> None:
            if one.pruned:
                raise Refusal("NoSuchRun")
            if one.is_over:
                return
            if one.leased > self.book.now:
                raise Refusal("RunBusy")
            self.book.drive(one, self.book.governed(one))

        self._do(f"recover `{one.run}`", self.machine().recover(one.run), due)

    def _any(self) -> Account:
        return self.chance.choice([*self.book.runs.values()][-MOST_RUNS:])

    def answer(self) -> None:
        """Answer a call that waits, or one that does not any more."""
        waiting = [
            (one, suspended.step)
            for one in self.book.live()
            for suspended in one.suspended
            if one.leased <= self.book.now
        ]
        step: str
        if waiting and self.chance.random() < 0.9:
            one, step = self.chance.choice(waiting)
            token = self.desk.tokens[one.run, step]
        elif self.desk.tokens:
            run, step = self.chance.choice(sorted(self.desk.tokens))
            one, token = self.book.runs[run], self.desk.tokens[run, step]
            if one.leased > self.book.now:
                return
        else:
            return
        payload = self.chance.choice((echo(), "well", "well", 7))
        by = self.chance.choice(PEOPLE)
        account = None if one.pruned else one
        work = self.machine().resume(token, payload, by=by)
        self._do(f"answer `{step}` of `{one.run}` by {by}: {payload!r}", work,
                 lambda: self.book.resume(account, step, payload, by))  # fmt: skip

    def settle(self) -> None:
        """Settle a write in doubt."""
        doubts = [one for one in self.book.live() if one.phase == "doubt"]
        one = self.chance.choice(doubts) if doubts and self.chance.random() < 0.95 else self._any()
        step = one.tasks[min(one.at, len(one.tasks) - 1)].id
        verdict: Any = self.chance.choice(("done", "done", "not_done", "abandon"))
        output = self.chance.choice((echo(), "well", 7))
        by = self.chance.choice(PEOPLE)
        work = self.machine().reconcile(one.run, step, verdict, output, by=by)
        self._do(f"settle `{step}` of `{one.run}` by {by}: {verdict}, {output!r}", work,
                 lambda: self.book.reconcile(one, step, verdict, output, by))  # fmt: skip

    def cancel(self) -> None:
        """Cancel a run."""
        one = self._any()
        work = self.machine().cancel(one.run, by=self.chance.choice(PEOPLE))
        self._do(f"cancel `{one.run}`", work, lambda: self.book.cancel(one))

    def erase(self) -> None:
        """Erase a run with its chain."""
        inner = [one for one in self.book.live() if one.before and one.next is not None]
        one = self.chance.choice(inner) if inner and self.chance.random() < 0.6 else self._any()
        self._do(f"erase `{one.run}`", self.machine().erase(one.run), lambda: self.book.erase(one))

    def go_further(self) -> None:
        """Continue a run that was interrupted, and now and then another one."""
        interrupted = [one for one in self.book.live() if is_interrupted(one)]
        one = self.chance.choice(interrupted) if interrupted and self.chance.random() < 0.9 else self._any()
        self.count += 1
        writes = [write for other in one.chain() for write in other.writes]
        plain, by = self._plain(writes), self.chance.choice(PEOPLE)
        caller = self.chance.choice((None, None, None, "gate"))
        most: dict[str, tuple[int, ...]] = {"steps": (0, 1, 3, 5), "tokens": (0, 2), "cost": (0, 3), "time": (0, 6)}
        grant = {name: amount for name, among in most.items() if (amount := self.chance.choice(among))}
        named = self.chance.random() < 0.9
        envelope = None if caller is None else Envelope(caller, "gate 1")
        work = self.machine().continue_run(
            one.run, plain.built(), ["card"], grant=grant, by=by, envelope=envelope, head=self._head(one, is_last=named)
        )

        def due() -> None:
            further = self.book.continued(one, plain, by, caller, named=named, grant=grant)
            self.book.drive(further)

        self._do(f"continue `{one.run}` with {grant} by {by}: {plain}", work, due)

    def _head(self, one: Account, *, is_last: bool) -> str | None:
        entries = self.store.read(one.run)
        if is_last or not entries:
            return None if self.chance.random() < 0.5 or not entries else entries[-1].digest.hex()
        return entries[-2].digest.hex() if len(entries) > 1 else "0" * 64

    def move(self) -> None:
        """Move a run to a version of its program."""
        waiting = [one for one in self.book.live() if one.status == "SUSPENDED"]
        one = self.chance.choice(waiting) if waiting and self.chance.random() < 0.9 else self._any()
        if one.pruned:
            return
        self.count += 1
        tasks = [*one.tasks, drawn_task(self.chance, f"s{self.count * 10}")]
        if tasks[0].kind == "entry":
            tasks = tasks[1:]
        self.desk.fates |= tasks[-1].fates()
        plain = one.plain._replace(tasks=tuple(tasks), seconds=self.chance.choice((one.plain.seconds, 9)))
        grant = {"steps": 3} if self.chance.random() < 0.5 else {}
        named = self.chance.random() < 0.9
        work = self.machine().migrate(one.run, plain.built(), head=self._head(one, is_last=named), grant=grant)
        self._do(
            f"move `{one.run}` with {grant} to {plain}", work, lambda: self.book.move(one, plain, grant, named=named)
        )

    def prune(self) -> None:
        """Prune what has ended before a time."""
        ends = [one.ended for one in self.book.live() if one.is_over]
        at = self.chance.choice(ends or [self.book.now]) + self.chance.choice(EDGES)
        program = self.chance.choice((None, None, "p0", "p1"))
        work = self.machine().prune(at / 1e6, program=program)
        self._do(f"prune what has ended before {at} of {program}", work, lambda: self.book.prune(at, program))

    def part(self) -> None:
        """Let a run go other ways in the store and in its copy: both cancel it, each for somebody else."""
        live = [one.run for one in self.book.live() if not (one.is_over or one.leased or one.moved or one.cancelled)]
        if not live:
            return
        self._copied(parted=None)
        run = self.chance.choice(live)
        self.case.act(f"cancel `{run}` in the copy")
        options: dict[str, Any] = {"clock": self.clock, "random": self.case.random, "key": self.key, "checker": None}
        self.case.do(Process(self.desk, None, self.copy, **options).cancel(run, by="eve"))
        work = self.machine().cancel(run, by="ann")
        self._do(f"cancel `{run}` in the store", work, lambda: self.book.cancel(self.book.runs[run]))
        self._copied(parted=run)
        self.copy = self.new_store()

    def copy_all(self) -> None:
        """Copy all runs, and now and then go on with the copy."""
        self._copied(parted=None)
        if self.chance.random() < 0.5:
            self.case.act("go on with the copy")
            self.store, self.copy = self.copy, self.new_store()
            self.plans = cached_plans(self.store)
            for one in self.book.runs.values():
                one.leased, one.queued = 0, None
            self._compare()
            if pruned := [one for one in self.book.runs.values() if one.pruned]:
                self.start_again(pruned)

    def _copied(self, parted: str | None) -> None:
        before = None if parted is None else self.copy.read(parted)
        reasons = {one.run: one.why for one in copy_runs(self.store, self.copy, stored_due(self.store))}
        self.case.act("copy all runs")
        for run in self.book.runs:
            if run == parted:
                is_left = reasons.get(run) is not None and self.copy.read(run) == before
                self._hold(is_left, f"`{run}`, which went another way in the copy, is copied", Invariant.HISTORY)
                continue
            there = [content(store, run) for store in (self.store, self.copy)]
            is_same = there[0] == there[1] and reasons.get(run) is None
            self._hold(is_same, f"the copy has `{run}` otherwise: {reasons.get(run)}", Invariant.KEPT)

    def change_policies(self) -> None:
        """Give the machine another policy."""
        self.book.present ^= {self.chance.choice(sorted(POLICIES))}
        self.case.act(f"the machine is under policies {sorted(self.book.present)}")

    # -- comparing -----------------------------------------------------------------------------------------------------

    def _do(self, what: str, work: Coroutine[Any, Any, Any], due: Callable[[], None]) -> None:
        """Do something on the machine and in the model, and compare."""
        self.case.act(what)
        result, expected_result = "nothing", "nothing"
        try:
            self.case.do(work)
        except Killed:
            result = "death"
        except StepwardError as error:
            result = type(error).__name__
            self.case.log(f"it is refused: {error}")
        try:
            due()
        except Killed:
            expected_result = "death"
        except Refusal as refusal:
            expected_result = str(refusal)
        self._hold(result == expected_result, f"to {what} comes to {result}, and not {expected_result}")
        self._hold(self.desk.calls == self.book.calls, f"the calls are {self.desk.calls}, and not {self.book.calls}")
        self.desk.calls.clear()
        self.book.calls.clear()
        self._compare()

    def _hold(self, is_met: bool, what: str, invariant: Invariant = Invariant.GRAPH) -> None:
        self.case.hold(is_met, invariant, what)

    def _compare(self) -> None:
        machine, book = self.machine(), self.book
        live = book.live()
        due = Counter(one.plain.name for one in self._due(None))
        counted = self.case.do(machine.due())
        self._hold(counted == due, f"{counted} runs are due, and not {due}")
        rows = [(row.run, row.program, row.status) for row in self.store.rows()]
        listed = [(one.run, one.plain.name, one.status) for one in live]
        self._hold(rows == listed, f"the list of runs is {rows}, and not {listed}")
        for one in live:
            state = self.store.head(one.run), *expected(one)
            if self.seen.get(one.run) == state:
                continue
            self.seen[one.run] = state
            run = self.case.do(machine.get(one.run))
            tells, expected_words = facts_of(run), expected(one)
            self._hold(tells == expected_words, f"`{one.run}` is {tells}, and not {expected_words}")
            tokens = {suspended.step: suspended.token for suspended in run.suspensions}
            tokens_due = {suspended.step: self.desk.tokens[one.run, suspended.step] for suspended in one.suspended}
            self._hold(
                tokens == tokens_due, f"the tokens of `{one.run}` are not those of its calls", Invariant.DELIVERY
            )
            self._compare_secrets(one, run)

    def _compare_secrets(self, one: Account, run: Run) -> None:
        is_shown = any(SECRET.encode() in entry.record for entry in self.store.read(one.run))
        self._hold(not is_shown, f"the records of `{one.run}` show a sensitive value", Invariant.SECRECY)
        values = self.store.vault.get(one.run)
        try:
            is_there = run.view("tool").get("card") == SECRET
        except ErasedError:
            is_there = False
        is_so = bool(values) == is_there == (not one.erased)
        self._hold(is_so, f"`{one.run}` has {len(values)} values, and was erased or not", Invariant.ERASURE)

    def verify(self) -> None:
        """Verify all runs."""
        for one in self.book.live():
            keys = () if self.key is None else (self.key.public,)
            faults = verify(self.store, one.run, keys=keys, replay=replayer(self.store, one.run)).faults
            self._hold(not faults, f"an honest run `{one.run}` is told of {faults[:1]}", Invariant.REPLAY)


_OPERATIONS: Final[Mapping[str, tuple[int, str | None]]] = {
    "pass_time": (20, None),
    "recover_all": (8, None),
    "work": (8, None),
    "recover": (4, None),
    "answer": (30, "held"),
    "settle": (14, "doubt"),
    "cancel": (3, None),
    "erase": (3, None),
    "go_further": (24, "further"),
    "move": (8, "held"),
    "prune": (5, "over"),
    "part": (2, None),
    "copy_all": (4, None),
    "start_again": (5, None),
    "list_runs": (5, None),
    "change_policies": (5, None),
}
"""The operations: how often each comes, and in which phase a run has to be for it, mostly."""
