"""Canaries of lists of runs, chains, pruning, breakers, workers, keys and files; a helper, no tests stand here."""

from __future__ import annotations

from dataclasses import replace

import pytest

from canaries import Canary
from canaries_load import READ
from rewriting import rewrite
from stepward.vm.journal import receipts, sqlite
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.journal.sqlite import SQLiteJournal
from stepward.vm.language import past, types
from stepward.vm.language.guardrails import plain_rule
from stepward.vm.lisp.functions import arithmetic
from stepward.vm.machine import chains, continuing, runs, sizes
from stepward.vm.machine.breakers import Breakers
from stepward.vm.machine.driver import Driver
from stepward.vm.machine.execution import ExecutionVM
from stepward.vm.machine.known import Known
from stepward.vm.machine.retention import Retention
from stepward.vm.machine.runs import Runs
from stepward.vm.machine.setup import Setup
from stepward.vm.machine.worker import Worker
from stepward.vm.models import cache_sqlite, recorded
from stepward.vm.models.prices import Price
from stepward.vm.remote.pins import Pin
from stepward.vm.telemetry.spans import Spans


def takes_no_second_look(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, Retention, "_prune_one", ("why = self._needed(history, ())", "why = None"))


def lists_what_starts_after(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, MemoryJournal, "rows", ("stored.started >= since", "stored.started > since"))


def lists_the_oldest_in_files(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, SQLiteJournal, "rows", ("started DESC, number DESC", "started DESC, number"))


def starts_under_any_policies(patch: pytest.MonkeyPatch) -> None:
    change = ('if body["policies"] != list(plan.policy_documents):', "if False:")
    rewrite(patch, ExecutionVM, "_existing", change)


def looks_behind_the_decision(patch: pytest.MonkeyPatch) -> None:
    held = "if is_late or is_held(self, plan):"
    rewrite(patch, Driver, "attempt", (held, f"await look(self)\n    {held}"))


def drives_any_version(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, Worker, "_drive", ("not in self._programs.get(found.plan.program.name, ())", "in ()"))


def trusts_any_key(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Setup, "keys", property(lambda _: ()))


def takes_what_waited_for_due(patch: pytest.MonkeyPatch) -> None:
    first, *rest = sqlite._LAYOUT.upgrades
    upgrades = (tuple(one.replace("WHERE status = 'RUNNING'", "") for one in first), *rest)
    patch.setattr(sqlite, "_LAYOUT", replace(sqlite._LAYOUT, upgrades=upgrades))


def drops_the_newest(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(cache_sqlite, "_DROP_OLDEST", cache_sqlite._DROP_OLDEST.replace("ORDER BY number", "ORDER BY key"))


def plays_to_any_attempt(patch: pytest.MonkeyPatch) -> None:
    key_of = recorded.key_of
    patch.setattr(recorded, "key_of", lambda request: key_of(request._replace(attempt=1)))


def measures_few_values(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sizes, "MAX_CHARACTER", 1)


def erases_the_later_half(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, Runs, "_others_of_chain", ("chain_after(found, earlier, self._read)", "[]"))


def forgets_writes_of_moved_runs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(continuing, "_interrupted", lambda chain: [one for one in chain if not one.state.moved])


def trusts_a_chain_without_a_grant(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, chains, "_budget_misfit", ("within = None", "return None"))


def holds_by_the_innermost_program(patch: pytest.MonkeyPatch) -> None:
    honest = Breakers.open_one
    patch.setattr(Breakers, "open_one", lambda self, tool, programs: honest(self, tool, list(programs)[-1:]))


def knows_no_carried_number(patch: pytest.MonkeyPatch) -> None:
    change = ("own.note((text, True) for text in _sealed_numbers(tuple(carry.values())))", "pass")
    rewrite(patch, Known, "learn", change)


def keeps_no_refusals(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(runs, "MAX_REFUSALS", 0)


def prices_no_cached_tokens(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, Price, "cost", ("min(usage.cached, usage.input)", "0"))


def pins_no_results(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, Pin, "changes", ("in self._fields if", "in self._fields[:2] if"))


def links_no_later_spans(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, Spans, "_pause_visit", ("visit.earlier[visit.id] = visit.span.span_id", "pass"))


def counts_as_due_what_is_leased(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, MemoryJournal, "due", ("stored.expires <= now", "True"))


def says_another_version(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(receipts, "VERSION", 2)


def allows_more_properties(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, types, "_object_refusals", ("elif isinstance(spec.additional_properties, TypeSpec):", "elif False:"))


def divides_the_other_way(patch: pytest.MonkeyPatch) -> None:
    honest = arithmetic._parts
    patch.setattr(arithmetic, "_parts", lambda left, right, function: honest(right, left, function))


def forgets_the_rules_of_runs_before(patch: pytest.MonkeyPatch) -> None:
    honest = past.continued
    forgets = lambda rule, memory, meaning, assigned: plain_rule(honest(rule, memory, meaning, assigned))  # noqa: E731
    patch.setattr(continuing, "continued", forgets)


CANARIES = (
    Canary("counts-as-due-what-is-leased", "a run that somebody drives is due to nobody", "recorded-stores", READ,
           counts_as_due_what_is_leased),
    Canary("says-another-version", "a receipt is of the present version", "recorded-keys", READ, says_another_version),
    Canary("allows-more-properties", "other properties have their type", "recorded-texts", READ,
           allows_more_properties),
    Canary("divides-the-other-way", "`quot` divides its first number", "recorded-lisp", READ, divides_the_other_way),
    Canary("prices-no-cached-tokens", "cached tokens have a price of their own", "recorded-models", READ,
           prices_no_cached_tokens),
    Canary("pins-no-results", "what a tool returns is pinned", "recorded-remote", READ, pins_no_results),
    Canary("links-no-later-spans", "a span names the one that it continues", "recorded-watching", READ,
           links_no_later_spans),
    Canary("keeps-no-refusals", "a journal has the deliveries that were refused", "recorded-operations", READ,
           keeps_no_refusals),
    Canary("forgets-what-runs-before-did", "the rules of a chain begin where the run before has left them",
           "recorded-histories", READ, forgets_the_rules_of_runs_before),
    Canary("knows-no-carried-number", "a number that is computed from a sensitive one is known", "computed-echoed",
           READ, knows_no_carried_number),
    Canary("measures-few-values", "a character has up to four bytes", "values-at-the-edge", READ, measures_few_values),
    Canary("drives-any-version", "a worker drives the versions that it is given", "workers-stopped", READ,
           drives_any_version),
    Canary("trusts-any-key", "a machine goes on with runs that a key of its own has signed", "key-handed-over", READ,
           trusts_any_key),
    Canary("takes-what-waited-for-due", "in a file of the first version only what goes on is due",
           "old-journal-opened", READ, takes_what_waited_for_due),
    Canary("drops-the-newest", "the oldest replies of a cache are dropped", "cache-in-a-file", READ, drops_the_newest),
    Canary("plays-to-any-attempt", "a reply belongs to one attempt", "replies-recorded", READ, plays_to_any_attempt),
    Canary("erases-the-later-half", "a chain is erased as a whole", "runs-of-a-chain", READ, erases_the_later_half),
    Canary("forgets-writes-of-moved-runs", "a run knows the writes of all runs before it", "runs-of-a-chain", READ,
           forgets_writes_of_moved_runs),
    Canary("trusts-a-chain-without-a-grant", "a chain spends what was granted", "runs-of-a-chain", READ,
           trusts_a_chain_without_a_grant),
    Canary("holds-by-the-innermost-program", "a call is held by each program around it", "breakers-around", READ,
           holds_by_the_innermost_program),
    Canary("takes-no-second-look", "a run that was continued meanwhile is not pruned", "pruned-too-early", READ,
           takes_no_second_look),
    Canary("lists-what-starts-after", "a list has the runs that started at its time", "operations-in-any-order", READ,
           lists_what_starts_after),
    Canary("lists-the-oldest-in-files", "a list in a file has the newest runs", "operations-in-any-order", READ,
           lists_the_oldest_in_files),
    Canary("starts-under-any-policies", "a run id belongs to a program under its policies", "operations-in-any-order",
           READ, starts_under_any_policies),
    Canary("looks-behind-the-decision", "a call is decided on once, however long the store takes",
           "breakers-at-once", READ, looks_behind_the_decision),
)  # fmt: skip
