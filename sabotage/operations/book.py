"""A plain model of the runs of a store: what each operation comes to. It shares no code with the machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from stepward.sabotage.operations.accounts import (
    Account,
    Refusal,
    SuspendedCall,
    is_own,
    needs_another,
    require_starter,
    rest_of,
)
from stepward.sabotage.operations.tasks import WRITES, Plain, Task
from stepward.sabotage.playing.points import Killed

LEASE: Final = 60_000_000
MOST_CONTINUED: Final = 3
"""How often a chain is continued, unless the operator says otherwise."""

_INTERRUPTED: Final = ("BUDGET_EXCEEDED", "STALLED")


class Book:
    """All runs of a store, by their ids. `present` are the names of the policies of the machine."""

    def __init__(self, now: int) -> None:
        self.runs: dict[str, Account] = {}
        self.now = now
        self.present: set[str] = set()
        self.calls: list[tuple[Any, ...]] = []
        self._died: set[tuple[str, str]] = set()

    def live(self) -> list[Account]:
        """Return the runs that were not pruned, in the order of their creation."""
        return [one for one in self.runs.values() if not one.pruned]

    # -- starting ------------------------------------------------------------------------------------------------------

    def opened(self, run: str, plain: Plain, by: str | None, caller: str | None) -> Account:
        """Make a run under the policies of the machine."""
        require_starter(plain, by, self.present)
        account = Account(run, plain, self.now, by, caller, terms=set(self.present), tasks=plain.tasks)
        account.first_terms = frozenset(self.present)
        account.most_steps, account.most_tokens, account.most_cost = plain.steps, plain.tokens, plain.cost
        account.ends_by = None if plain.seconds is None else self.now + plain.seconds * 1_000_000
        self.runs[run] = account
        return account

    def again(self, one: Account, *, is_same: bool) -> None:
        """Start a run again, by the same program with the same inputs or by another one: nothing happens."""
        is_known = is_same and not one.before and one.first_terms == self.present and not one.erased
        if not is_known or one.pruned:
            raise Refusal("RunRefused")

    def listed(self, statuses: Sequence[str] | None, program: str | None, since: int | None, most: int | None
               ) -> list[str]:  # fmt: skip
        """Return the runs of a list: the newest ones, but the oldest of them first."""
        found = [
            one.run
            for one in self.live()
            if (statuses is None or one.status in statuses)
            and program in (None, one.plain.name)
            and (since is None or one.started >= since)
        ]
        return found if most is None else found[::-1][:most][::-1]

    def continued(self, last: Account, plain: Plain, by: str | None, caller: str | None, *,
                  named: bool, grant: dict[str, int]) -> Account:  # fmt: skip
        """Make the run that continues another one. `named`: the head that was named is the present one."""
        if last.pruned:
            raise Refusal("NoSuchRun")
        chain = last.chain()
        count = sum(one.moved is None for one in last.before)
        is_fit = last.is_over and last.status in _INTERRUPTED and last.moved is None and count < MOST_CONTINUED
        if not is_fit or not named or last.erased or last.next is not None:
            raise Refusal("RunRefused")
        require_starter(plain, by, last.terms | self.present)
        account = self._behind(last, plain, plain.tasks, grant)
        account.by, account.caller = by, caller
        account.terms = last.terms | self.present
        account.writes = []
        self._enter(chain, account)
        return account

    def _enter(self, chain: Sequence[Account], account: Account) -> None:
        account.run = f"{chain[0].run}~{len(chain)}"
        chain[-1].next = account
        self.runs[account.run] = account

    def _behind(self, last: Account, plain: Plain, tasks: tuple[Task, ...], grant: dict[str, int]) -> Account:
        """Return a run with what is left of the budgets of the run before it; refuses one without anything left."""
        account = Account("", plain, self.now, before=last.chain(), tasks=tasks)
        account.most_steps = plain.steps
        left_steps = 10_000 if last.most_steps is None else last.most_steps
        left = left_steps - last.steps + grant.get("steps", 0)
        if left <= 0:
            raise Refusal("RunRefused")
        account.most_steps = min(left, left if plain.steps is None else plain.steps)
        account.most_tokens = self._left_of(last.most_tokens, last.tokens, grant.get("tokens", 0), plain.tokens, tasks)
        account.most_cost = self._left_of(last.most_cost, last.cost, grant.get("cost", 0), plain.cost, tasks)
        ends = None if plain.seconds is None else plain.seconds * 1_000_000
        if last.ends_by is not None:
            time = last.ends_by - last.ended
            time = (max(time, 1) if last.moved is not None else time) + grant.get("time", 0) * 1_000_000
            if time <= 0:
                raise Refusal("RunRefused")
            ends = time if ends is None else min(ends, time)
        account.ends_by = None if ends is None else self.now + ends
        return account

    def _left_of(
        self, most: int | None, spent: int, grant: int, own: int | None, tasks: tuple[Task, ...]
    ) -> int | None:
        """Return what a run may spend of a budget for models, behind one that might spend `most`."""
        if most is None:
            return own
        left = most - spent + grant
        if left <= 0 and any(task.kind in ("think", "each") for task in tasks):
            raise Refusal("RunRefused")
        return left if own is None else min(left, own)

    # -- driving -------------------------------------------------------------------------------------------------------

    def governed(self, one: Account, *, performs: bool = True) -> set[str]:
        """Return the policies of the machine under which a run comes that is taken up; refuses one that broke a rule of
        theirs. They count from the next record of the run on."""
        missing = set() if one.cancelled or not performs else self.present - one.terms
        earlier = sum(other.mails for other in one.before)
        if "once" in missing and one.mails and one.mails + earlier > 1:
            raise Refusal("RunRefused")
        if "people" in missing and any(needs_another(one, tool, by) for tool, by in one.settled):
            raise Refusal("RunRefused")
        return missing

    def drive(self, one: Account, missing: Iterable[str] = ()) -> None:
        """Go on with a run, under `missing` policies besides, until it stops; raises Killed where the process dies."""
        one.terms.update(missing)
        one.queued = None
        one.leased = self.now + LEASE
        while self._advance(one):
            pass
        one.leased = 0
        if one.has_moved and one.next is not None:
            self.drive(one.next)
            if one.cancelled:
                self.cancel(one.next)

    def _advance(self, one: Account) -> bool:
        """Do the next thing of a run; return whether there may be another one."""
        if one.is_over:
            return False
        is_leaving = one.moved is not None and one.phase == "ready"
        if one.ends_by is not None and one.ends_by <= self.now and not one.cancelled and not is_leaving:
            return self._end(one, "time")
        if not one.cancelled and self.let_pass(one):
            return True
        if is_leaving:
            return self._depart(one)
        if one.cancelled:
            return self._end(one, "cancelled")
        if one.phase in ("open", "again"):
            return self._again(one)
        if one.phase == "inner":
            return self._next_inner(one)
        if one.items and len(one.rests) < max(2, len(one.task.lasts if one.task else ()) - 1):
            return self._next_item(one)
        if one.phase != "ready":
            return False
        return self._begin(one)

    def let_pass(self, one: Account) -> bool:
        """Let the wait or deadline of a run pass that is over first; return whether one is over."""
        first = one.first_due()
        if one.is_over or first is None or first > self.now:
            return False
        if first in one.rests:
            one.rests.remove(first)
            if not one.rests and not one.items:
                self._left(one)
            return True
        late = next(suspended for suspended in one.suspended if suspended.due == first)
        one.suspended.remove(late)
        if late.tool == "sign":
            one.phase = "doubt"
        elif one.task is not None and one.task.kind == "beg" and one.tries < 2:
            one.tries, one.phase, one.again_at = one.tries + 1, "again", self.now
        elif not one.suspended:
            self._left(one)
        return True

    def _left(self, one: Account) -> None:
        one.at, one.phase = one.at + 1, "ready"

    def _end(self, one: Account, reason: str) -> bool:
        one.phase, one.reason = "over", reason
        one.ended = self.now
        one.suspended, one.rests, one.items, one.inner = [], [], [], []
        return False

    def _depart(self, one: Account) -> bool:
        assert one.moved is not None, "it moves"
        one.ended = self.now
        account = self._behind(one, one.moved, rest_of(one.moved, one.tasks[one.at - 1]), one.granted)
        account.by, account.caller = one.by, one.caller
        account.terms = one.terms | one.moved_under | self.present
        self._enter(one.chain(), account)
        return self._end(one, "moved")

    def _begin(self, one: Account) -> bool:
        task, cost = one.task, 1 if one.task is None else one.task.cost
        if one.most_steps is not None and one.steps + cost > one.most_steps:
            return self._end(one, "max_steps")
        why = "" if task is None else self._objection(one, task)
        if why == "repeated":
            one.steps += 1
            self._left(one)
            return True
        if why:
            return self._end(one, why)
        one.steps += cost
        if task is None:
            return self._end(one, "declared")
        if task.kind in WRITES:
            one.writes.append(task)
        one.mails += task.kind == "mail"
        self._start(one, task)
        return True

    def _objection(self, one: Account, task: Task) -> str:
        """Return why a task does not start: it is a write of a run before, or the reason for which the run ends."""
        if task.kind in WRITES and self._is_repeated(one, task):
            return "repeated"
        if task.kind == "mail" and "once" in one.terms and sum(other.mails for other in one.chain()) > 0:
            return "guardrail"
        return self._spent(one) if task.kind == "think" else ""

    def _spent(self, one: Account) -> str:
        """Return the budget for models that a run has spent, the first of both."""
        if one.most_tokens is not None and one.tokens >= one.most_tokens:
            return "max_tokens"
        return "cost" if one.most_cost is not None and one.cost >= one.most_cost else ""

    def _think(self, one: Account, about: object) -> None:
        one.tokens, one.cost = one.tokens + 2, one.cost + 3
        self.calls.append(("think", str(about)))

    def _start(self, one: Account, task: Task) -> None:
        match task.kind:
            case "rest":
                one.rests, one.phase = [self.now + (task.lasts[0] or 0) * 1_000_000], "resting"
            case "rests":
                one.items, one.phase = [(lasts or 0) * 1_000_000 for lasts in task.lasts], "resting"
            case "both":
                one.phase = "held"
                for number, lasts in enumerate(task.lasts):
                    self._hold(one, f"{task.id}_{number}", "ask", lasts)
            case "beg":
                one.phase, one.tries = "held", 1
                self._hold(one, task.id, "ask", task.lasts[0])
            case "ask" | "sign":
                one.phase = "held"
                self._hold(one, task.id, task.kind, task.lasts[0])
            case "think":
                self._think(one, task.id)
                self._left(one)
            case "each":
                one.phase = "inner"
                one.inner = [(what, number) for number in task.items() for what in ("think", "log")]
            case "entry" | "set":
                self._left(one)
            case _:
                self._call(one, task)

    def _hold(self, one: Account, step: str, tool: str, lasts: int | None) -> None:
        self.calls.append((tool, one.run, step, {}))
        one.suspended.append(SuspendedCall(step, tool, None if lasts is None else self.now + lasts * 1_000_000))

    def _next_item(self, one: Account) -> bool:
        if one.most_steps is not None and one.steps + 1 > one.most_steps:
            return self._end(one, "max_steps")
        one.steps += 1
        one.rests.append(self.now + one.items.pop(0))
        return True

    def _next_inner(self, one: Account) -> bool:
        """Think about an item of an `each`, or log it; the process may die in the last log."""
        what, number = one.inner[0]
        if one.most_steps is not None and one.steps + 1 > one.most_steps:
            return self._end(one, "max_steps")
        if what == "think" and (why := self._spent(one)):
            return self._end(one, why)
        one.steps += 1
        if what == "think":
            self._think(one, number)
        else:
            self._log(one, number)
        self._did_inner(one)
        return True

    def _did_inner(self, one: Account) -> None:
        one.inner.pop(0)
        one.phase = "inner"
        if not one.inner:
            self._left(one)

    def _log(self, one: Account, number: int) -> None:
        self.calls.append(("log", one.run, str(number), {"n": number}))
        is_last = one.task is not None and one.task.fate == "dies" and len(one.inner) == 1
        if is_last and (one.run, str(number)) not in self._died:
            self._died.add((one.run, str(number)))
            one.phase = "open"
            raise Killed(str(number))

    def _call(self, one: Account, task: Task) -> None:
        self.calls.append((task.kind, one.run, task.id, task.args()))
        fate = task.fate if (one.run, task.id) not in self._died else "well"
        self._died.add((one.run, task.id))
        if fate == "dies":
            one.phase = "open"
            raise Killed(task.id)
        if fate == "doubt":
            one.phase = "doubt"
            return
        self._left(one)

    def _again(self, one: Account) -> bool:
        """Go on where a process died in a call, or with one that was not done: a payment is in doubt at first."""
        task = one.task
        assert task is not None, "a call is open"
        if task.kind == "each":
            self._log(one, one.inner[0][1])
            self._did_inner(one)
            return True
        if one.phase == "open" and task.kind == "pay":
            one.phase = "doubt"
            return True
        one.again_at = 0
        if one.phase == "again":
            if one.most_steps is not None and one.steps + 1 > one.most_steps:
                return self._end(one, "max_steps")
            one.steps += 1
        if task.kind in ("sign", "beg"):
            one.phase = "held"
            self._hold(one, task.id, "sign" if task.kind == "sign" else "ask", task.lasts[0])
        else:
            self._call(one, task)
        return True

    def _is_repeated(self, one: Account, task: Task) -> bool:
        """Return whether a write was made by a run before: sealed arguments are not compared."""
        chain = list(one.before)
        while chain and chain[-1].moved is not None:
            chain.pop()
        for write in (write for other in chain for write in other.writes):
            if write.kind == task.kind and (write.number == task.number or (write.kind == "mail" and write.number)):
                return True
        return False

    # -- deliveries ----------------------------------------------------------------------------------------------------

    def resume(self, one: Account | None, step: str, payload: Any, by: str | None) -> None:
        """Deliver the output of a suspended call."""
        suspended = (
            None if one is None else next((suspended for suspended in one.suspended if suspended.step == step), None)
        )
        if one is None or suspended is None or not isinstance(payload, str):
            raise Refusal("DeliveryRefused")
        missing = self.governed(one)
        if suspended.due is not None and suspended.due <= self.now and not one.cancelled:
            one.terms |= missing
            self._let_pass_all(one)  # that is recorded, but nobody goes on with the run
            raise Refusal("DeliveryRefused")
        if needs_another(one, suspended.tool, by, one.terms | missing) or is_own(one, by):
            raise Refusal("DeliveryRefused")
        if not one.cancelled:
            self._let_pass_all(one)
        one.suspended.remove(suspended)
        one.settled.append((suspended.tool, by))
        if not one.suspended:
            self._left(one)
        self.drive(one, missing)

    def _let_pass_all(self, one: Account) -> None:
        while self.let_pass(one):
            pass

    def reconcile(self, one: Account, step: str, verdict: str, output: Any, by: str | None) -> None:
        """Settle a write that is in doubt."""
        if one.pruned:
            raise Refusal("NoSuchRun")
        task = one.task
        if one.phase != "doubt" or task is None or task.id != step:
            raise Refusal("DeliveryRefused")
        if one.leased > self.now:
            raise Refusal("RunBusy")
        missing = self.governed(one, performs=verdict != "abandon")
        if verdict == "done":
            has_to_be_another = needs_another(one, task.kind, by, one.terms | missing)
            if not isinstance(output, str) or has_to_be_another or is_own(one, by):
                raise Refusal("DeliveryRefused")
            one.settled.append((task.kind, by))
            self._left(one)
        elif verdict == "abandon":
            self._end(one, "abandoned")
        else:
            one.phase = "again"
        self.drive(one, missing)

    def cancel(self, one: Account) -> None:
        """End a run, or the one that goes on with it."""
        if one.pruned:
            raise Refusal("NoSuchRun")
        if one.has_moved:
            assert one.next is not None, "another run goes on"
            self.cancel(one.next)
            return
        if one.is_over:
            return
        if not one.cancelled:
            one.cancelled, one.queued = True, None
        if one.leased <= self.now:
            self.drive(one)

    def erase(self, one: Account) -> None:
        """Erase a run and all others of its chain."""
        if one.pruned:
            raise Refusal("NoSuchRun")
        for other in (*reversed(tuple(self._others(one))), one):
            self.cancel(other)
            if not other.is_over:
                raise Refusal("RunBusy")
            other.erased = True

    def move(self, one: Account, plain: Plain, grant: dict[str, int], *, named: bool) -> None:
        """Move a run that waits to a version of its program; it goes on with it when its step has ended."""
        task = one.task
        is_alone = task is not None and task.kind in ("rest", "ask", "sign") and not [o for o in one.suspended if o.due]
        if one.status != "SUSPENDED" or not is_alone or one.cancelled:
            raise Refusal("RunRefused")
        if one.leased > self.now:
            raise Refusal("RunBusy")
        one.terms |= self.governed(one)
        if not named:
            raise Refusal("RunRefused")
        one.ended = one.rests[0] if one.rests else self.now
        before, one.moved = one.moved, plain
        try:
            self._behind(one, plain, rest_of(plain, one.tasks[one.at]), grant)
        except Refusal:
            one.moved = before
            raise
        one.granted, one.moved_under = grant, set(self.present)

    def prune(self, at: int, program: str | None) -> None:
        """Prune the runs that have ended before a time, but those on which one stands that stays."""
        going: list[Account] = []
        for one in reversed(self.live()):
            if not one.is_over or one.ended >= at or one.started >= at or program not in (None, one.plain.name):
                continue
            if one.next is None or one.next.pruned or one.next in going:
                going.append(one)
        for one in going:
            one.pruned = one.erased = True

    def _others(self, one: Account) -> Iterator[Account]:
        yield from one.before
        while one.next is not None and not one.next.pruned:
            yield one.next
            one = one.next
