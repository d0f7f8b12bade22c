"""Canaries of attacks that play a table of their own; a helper, no tests stand here."""

from __future__ import annotations

import pytest

from canaries import Canary
from canaries_load import READ
from rewriting import rewrite
from stepward.vm.journal import copying
from stepward.vm.journal.sqlite import SQLiteJournal
from stepward.vm.machine import calls, known, ordering, replay
from stepward.vm.machine.continuing import Start
from stepward.vm.machine.deliveries import Deliveries
from stepward.vm.machine.monitors import Watch
from stepward.vm.machine.redaction import Searched
from stepward.vm.models.prices import Price


def takes_a_fallback_for_success(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, ordering, "come_before", ('.phase == "success"', ".phase in GIVES"))
    patch.setattr(calls, "come_before", ordering.come_before)


def shares_rules_of_the_program_alone(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, Watch, "shared", ("one.owner in owners", "one.owner is None"))


def looks_for_no_groups_among_many(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, Searched, "_near", ("*read.folded, *read.joined", "*read.folded"))


def copies_policies_of_the_start_alone(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, copying, "_named", ('"started", "governed", "moved"', '"started", "moved"'))


def records_one_time_that_is_over(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, Deliveries, "_in_time", ("while (event :=", "if (event :="))


def compares_no_verdicts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(known, "FROM_OUTSIDE", ("attempt", "resumed"))


def compares_no_outputs(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, replay, "_matches", ('name == "error"', 'name in ("error", "output")'))


def lets_what_was_held_wait(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, SQLiteJournal, "switch", ("SET due = 0, held = NULL", "SET held = NULL"))


def counts_what_is_read_as_the_same(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, Start, "assigned", ("self.reads.get(name) != name", "name not in self.reads"))


def takes_cached_tokens_for_free(patch: pytest.MonkeyPatch) -> None:
    change = ("self.input if self.cached_input is None else self.cached_input", "self.cached_input or 0")
    rewrite(patch, Price, "cost", change)


CANARIES = (
    Canary("takes-cached-tokens-for-free", "each token costs its price", "settings-and-prices", READ,
           takes_cached_tokens_for_free),
    Canary("counts-what-is-read-as-the-same", "a check counts for the value that was checked", "checked-for-another",
           READ, counts_what_is_read_as_the_same),
    Canary("compares-no-outputs", "a replay compares outputs of bodies", "decisions-rewritten", READ,
           compares_no_outputs),
    Canary("lets-what-was-held-wait", "what a breaker held is due when it is closed", "breakers-around", READ,
           lets_what_was_held_wait),
    Canary("compares-no-verdicts", "what a verdict says is compared with secrets", "secret-at-each-door", READ,
           compares_no_verdicts),
    Canary("takes-a-fallback-for-success", "a step that used its fallback did not succeed", "approval-came-to-nothing",
           READ, takes_a_fallback_for_success),
    Canary("shares-rules-of-the-program-alone", "a rule of a body counts all starts in it", "starts-in-a-body", READ,
           shares_rules_of_the_program_alone),
    Canary("looks-for-no-groups-among-many", "many values are found in groups, too", "one-of-many", READ,
           looks_for_no_groups_among_many),
    Canary("copies-policies-of-the-start-alone", "a copy has the policies of each time", "store-copied", READ,
           copies_policies_of_the_start_alone),
    Canary("records-one-time-that-is-over", "a delivery records all that is over", "answers-after-another", READ,
           records_one_time_that_is_over),
)  # fmt: skip
