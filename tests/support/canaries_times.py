"""Canaries of the family "time"; a helper, no tests stand here."""

from __future__ import annotations

from typing import Any

import pytest

from canaries import Canary
from canaries_replays import ASKS, FALSE, MAILS, PAYS, _program, _step
from rewriting import rewrite, rewritten
from stepward.vm.journal import chain, verify
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.journal.sqlite_vault import SQLiteVault
from stepward.vm.machine import apply, ask, calls, driver, history, leaving
from stepward.vm.machine.clock import DatedClock
from stepward.vm.machine.driver import Driver
from stepward.vm.machine.runs import Runs

KNOWS_LATER = _program(
    _step("know", "know"),
    tools={"know": {"effect": "read", "returns": {"type": "string", "sensitive": True}}},
)
PAYS_IN_TIME = _program(_step("pay", "pay", timeout_seconds=5))
LOOKS = _program(
    _step("look", "look", timeout_seconds=5, on_error="retry", max_retries=3),
    tools={"look": {"effect": "read", "returns": {"type": "integer"}}},
)


TELLS = _program(*({"id": f"tell{number}", "type": "llm", "prompt": "Tell."} for number in range(4)))
MAILED = {"inputs": {}, "mail, visit 1, attempt 1": FALSE}


def time_outs_are_failures(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, calls, "is_unknown_after", ('result.answer in ("timeout", "doubt")', 'result.answer == "doubt"'))


def first_answer_counts(patch: pytest.MonkeyPatch) -> None:
    """Take for the answer to an attempt what came first, also where an earlier one had asked for it."""
    came: dict[tuple[str, str], Any] = {}

    class Keeping:
        def __init__(self, tools: Any) -> None:
            self.tools = tools

        def call(self, name: str, args: Any, context: Any) -> Any:
            return self.first(self.tools.call(name, args, context), (context.run, context.step))

        async def first(self, asked: Any, place: tuple[str, str]) -> Any:
            came.setdefault(place, await asked)
            return came[place]

    whole = ask.ask_tool
    patch.setattr(driver, "ask_tool", lambda tools, *rest: whole(Keeping(tools), *rest))


def leases_no_longer_than_its_own(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, Runs, "_impossible_expiry", ("LONGEST_LEASE", "self._setup.lease_seconds"))


def commits_no_replies(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, Driver, "_answer", ("elif plan.is_model:", "elif False:"))


def trace_has_times(patch: pytest.MonkeyPatch) -> None:
    for module in (apply, leaving):
        rewrite(patch, module, "traced", ("kind), text)", "event.kind), f\"{text}{event.note.get('started')}\")"))


def dates_anything(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, DatedClock, "now", ("at if FIRST <= at <= LAST else min(max(at, FIRST), LAST)", "at"))


def lease_for_everybody(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, MemoryJournal, "acquire", ("stored.holder != holder and stored.expires > now", "False"))


def no_look_at_the_lease(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, Driver, "_require_lease", ("if now / 1e6 < self.lease.expires:", "if True:"))


def one_look_at_the_time(patch: pytest.MonkeyPatch) -> None:
    again = ("        now = setup.clock.now()\n", "")
    once = ("setup = self.setup", "setup, now = self.setup, self.setup.clock.now()")
    rewrite(patch, Driver, "_require_lease", again, once)


def failed_renewal_is_passed_over(patch: pytest.MonkeyPatch) -> None:
    renewed = "self.lease = await setup.io(setup.journal.renew, self.lease, now / 1e6, setup.lease_seconds)"
    tried = f"try:\n            {renewed}\n        except JournalError:\n            return now"
    rewrite(patch, Driver, "_require_lease", (renewed, tried))


def no_fence(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, MemoryJournal, "append", (" or (fence is not None and fence != stored.fence)", ""))


def appends_anywhere(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, MemoryJournal, "append", ("len(present) != expected + 1 or ", ""))


def starts_after_a_cancellation(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, Driver, "_give_way", ('state.is_cancelled and event.kind == "intent"', "False"))


def late_cancellation_is_left(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, Runs, "_drive", ("if found.state.is_cancelled and not found.state.is_over:", "if False:"))


def cancellation_is_a_rival(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(driver, "_FOREIGN", ("refused",))


def fenced_driver_leaves_values(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, SQLiteVault, "put", ("if connection.execute(_IS_ERASED, (run,)).fetchone():", "if False:"))


def nobody_gives_back_what_was_being_leased(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Runs, "_leased", lambda self, function, *args: self._io(function, *args))


def lease_goes_with_the_caller(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, Runs, "_drive", ("is_held = bool(calls)", "is_held = False"))


def reads_the_head_last(patch: pytest.MonkeyPatch) -> None:
    before = "    head = _readable(journal.head(run))\n    entries = journal.read(run)\n"
    after = "    entries = journal.read(run)\n    head = _readable(journal.head(run))\n"
    changed = rewritten(chain.read_together, (before, after))
    for module in (verify, history):
        patch.setattr(module, "read_together", changed)


CANARIES: tuple[Canary, ...] = (
    Canary(
        "reads-the-head-last",
        "the head of a run is read before its entries",
        "read-while-it-grows",
        MAILS,
        reads_the_head_last,
    ),
    Canary(
        "nobody-gives-back-what-was-being-leased",
        "who is cancelled while it asks for a lease gives it back",
        "caller-cancelled",
        MAILS,
        nobody_gives_back_what_was_being_leased,
        smallest=MAILED | {"the driver stands still at point": 3},
    ),
    Canary(
        "lease-goes-with-the-caller",
        "a lease is kept while the tool of a cancelled caller goes on",
        "caller-cancelled-in-tool",
        PAYS,
        lease_goes_with_the_caller,
        smallest={
            "inputs": {},
            "the caller is cancelled in call": 0,
            "what goes on is": "a thread",
            "pay, visit 1, attempt 1": FALSE,
        },
    ),
    Canary(
        "time-outs-are-failures",
        "a write that timed out is in doubt",
        "answer-after-time-out",
        PAYS_IN_TIME,
        time_outs_are_failures,
        smallest={
            "inputs": {},
            "late answers: pay, visit 1": 1,
            "late answer: pay, visit 1, attempt 1": False,
        },
    ),
    Canary("first-answer-counts", "an answer is its attempt's own", "late-result", LOOKS, first_answer_counts),
    Canary(
        "trace-has-times",
        "no time is in the trace",
        "clock-jumps",
        MAILS,
        trace_has_times,
        smallest=MAILED | {"jumps": [{"point": 0, "seconds": 1}]},
    ),
    Canary("dates-anything", "no clock leads out of what a record can date", "clock-jumps", MAILS, dates_anything),
    Canary(
        "lease-for-everybody",
        "a lease is one machine's",
        "two-drivers",
        MAILS,
        lease_for_everybody,
        smallest=MAILED
        | {
            "the lease lasts for": None,
            "leases of the second machine last for": 60.0,
            "the driver stands still at point": 3,
        },
    ),
    Canary(
        "leases-no-longer-than-its-own",
        "a lease lasts as long as its holder said, also for a machine with shorter ones",
        "two-drivers",
        MAILS,
        leases_no_longer_than_its_own,
    ),
    Canary(
        "commits-no-replies",
        "a cancellation is heard after each call of a model",
        "cancelled-anywhere",
        TELLS,
        commits_no_replies,
    ),
    Canary("one-look-at-the-time", "the time is looked at again", "stale-driver", PAYS, one_look_at_the_time),
    Canary("no-look-at-the-lease", "a lease is looked at before a call", "stale-driver", PAYS, no_look_at_the_lease),
    Canary(
        "failed-renewal-is-passed-over",
        "without a lease nothing is called",
        "lease-not-renewed",
        PAYS,
        failed_renewal_is_passed_over,
    ),
    Canary("no-fence", "an append has a fencing number", "drivers-interleaved", PAYS, no_fence),
    Canary("appends-anywhere", "an append names the record before it", "cancelled-anywhere", PAYS, appends_anywhere),
    Canary(
        "starts-after-a-cancellation",
        "nothing starts after a cancellation",
        "cancelled-anywhere",
        PAYS,
        starts_after_a_cancellation,
        smallest={"inputs": {}, "pay, visit 1, attempt 1": FALSE, "the driver stands still at point": 3},
    ),
    Canary(
        "late-cancellation-is-left",
        "a driver looks for a cancellation when it has let go",
        "cancelled-anywhere",
        ASKS,
        late_cancellation_is_left,
    ),
    Canary(
        "cancellation-is-a-rival",
        "a driver gives way to a cancellation",
        "resume-raced-with-cancel",
        ASKS,
        cancellation_is_a_rival,
    ),
    Canary(
        "fenced-driver-leaves-values",
        "a driver that was fenced drops what it brought",
        "erased-anywhere",
        KNOWS_LATER,
        fenced_driver_leaves_values,
    ),
)
