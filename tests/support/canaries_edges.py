"""Canaries of odd requests, replies, calls and receipts, and of delays; a helper, no tests stand here."""

from __future__ import annotations

from typing import Final

import pytest

from canaries import Canary
from canaries_replays import MAILS
from rewriting import rewrite, rewritten
from stepward.vm.journal import receipts
from stepward.vm.machine import ask, authority, calls, decide, driver, ordered, replay
from stepward.vm.machine.driver import Driver


def takes_any_name(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, authority, "is_name", (" and by.isprintable()", ""))


def takes_spaces_for_a_name(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, authority, "is_name", ("by == by.strip() and ", ""))


def takes_names_that_nobody_sees(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, authority, "is_name", (" and unseen(by) is None", ""))


def charges_no_failure(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(driver, "ask_model", rewritten(ask.ask_model, (", spent=_spent(error.spent))", ")")))


def calls_a_bad_output_unexpected(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, ask, "_suspended", (", name=BAD_OUTPUT)", ")"))


def starts_without_inputs(patch: pytest.MonkeyPatch) -> None:
    old = "why is None and inputs.keys() != body['inputs'].keys()"
    rewrite(patch, replay, "_start_misfit", (old.replace("'", '"'), "False"))


def names_lie(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, ask, "name_of", ("type(error_name) is str", "isinstance(error_name, str)"))


def waits_by_the_other_clock(patch: pytest.MonkeyPatch) -> None:
    old = "min(call.due, setup.clock.now() + entry.delay(before.attempt - before.base))"
    rewrite(patch, Driver, "_wait_until_due", (old, "call.due"))


def waits_before_it_writes(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, Driver, "_wait_until_due", ("await self.flush()", "pass"))


def counts_no_sleepers(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, calls, "_wave", ("_unpaid(state, step, ready)", "sum(one.attempt > 1 for one in ready)"))


def pays_for_no_sibling(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decide, "unpaid_attempts", lambda state: 0)


def asks_whatever_was_spent(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ordered._Members, "_is_affordable", lambda self, call: True)


def reads_any_digest(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, receipts, "_is_hex", (' and re.fullmatch("[0-9a-f]+", value) is not None', ""))


WITH_DEFAULT: Final = {
    "name": "defaults",
    "inputs": {"x": {"type": "integer", "default": 1}},
    "steps": [{"id": "end", "type": "end", "output": "$x"}],
}

CANARIES: Final = (
    Canary("starts-without-inputs", "a start has every input", "start-edited", WITH_DEFAULT, starts_without_inputs),
    Canary("takes-any-name", "a name is printable", "odd-requests", MAILS, takes_any_name),
    Canary("takes-spaces-for-a-name", "a name has no space at an end", "odd-requests", MAILS, takes_spaces_for_a_name),
    Canary(
        "takes-names-that-nobody-sees",
        "each character of a name is seen",
        "odd-requests",
        MAILS,
        takes_names_that_nobody_sees,
    ),
    Canary("charges-no-failure", "a failed call of a model may cost", "replies-at-the-edge", MAILS, charges_no_failure),
    Canary(
        "calls-a-bad-output-unexpected",
        "an error has its name",
        "tools-at-the-edge",
        MAILS,
        calls_a_bad_output_unexpected,
    ),
    Canary("names-lie", "an error has a name that is declared", "tools-at-the-edge", MAILS, names_lie),
    Canary(
        "waits-by-the-other-clock",
        "a delay is no longer than the program says",
        "delay-without-an-end",
        MAILS,
        waits_by_the_other_clock,
    ),
    Canary(
        "waits-before-it-writes",
        "a failed attempt is in the journal before the delay",
        "dies-in-a-delay",
        MAILS,
        waits_before_it_writes,
    ),
    Canary(
        "counts-no-sleepers",
        "attempts that wait beside are charged, too",
        "delays-at-the-budget",
        MAILS,
        counts_no_sleepers,
    ),
    Canary(
        "pays-for-no-sibling",
        "attempts that siblings owe are paid for",
        "delays-at-the-budget",
        MAILS,
        pays_for_no_sibling,
    ),
    Canary(
        "asks-whatever-was-spent",
        "a model is asked after a delay if the budget is not used up",
        "replies-in-a-delay",
        MAILS,
        asks_whatever_was_spent,
    ),
    Canary("reads-any-digest", "a digest in a receipt is one", "odd-receipts", MAILS, reads_any_digest),
)
