"""Canaries of attacks that play a table of their own; a helper, no tests stand here."""

from __future__ import annotations

import pytest

from canaries import Canary
from canaries_load import READ
from rewriting import rewrite
from stepward.vm.journal import copying
from stepward.vm.machine import calls, ordering
from stepward.vm.machine.deliveries import Deliveries
from stepward.vm.machine.monitors import Watch
from stepward.vm.machine.redaction import Searched


def takes_a_fallback_for_success(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, ordering, "come_before", ('.phase == "success"', ".phase in GIVES"))
    patch.setattr(calls, "come_before", ordering.come_before)


def shares_rules_of_the_program_alone(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, Watch, "shared", ("one.owner != owner", "one.owner is None"))


def looks_for_no_groups_among_many(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, Searched, "_near", ("*read.folded, *read.joined", "*read.folded"))


def copies_policies_of_the_start_alone(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, copying, "_named", ('"started", "governed", "moved"', '"started", "moved"'))


def records_one_time_that_is_over(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, Deliveries, "_in_time", ("while (happened :=", "if (happened :="))


CANARIES = (
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
