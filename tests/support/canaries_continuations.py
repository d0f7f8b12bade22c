"""Canaries of attacks on continuations; a helper, no tests stand here."""

from __future__ import annotations

from itertools import count

import pytest

from canaries import Canary
from rewriting import rewrite
from stepward.sabotage.campaigns.specimen_programs import specimen
from stepward.vm.machine import calls, continuation, continuing, execution, handing, plan, replay

CHAIN = specimen("chain")


def repeats_writes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(calls, "repeated", lambda policies, tool, args: None)


def asks_no_policy_of_constants(patch: pytest.MonkeyPatch) -> None:
    old = "is_free = not any(terms.policies for terms in plan.terms)"
    rewrite(patch, plan.CallPlan, "__init__", (old, "is_free = True"))


def begins_rules_anew(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(continuing, "continued", lambda rule, memory, meaning, assigned: rule)


def _requires(patch: pytest.MonkeyPatch, **changed: object) -> None:
    required = execution.require_continuable
    patch.setattr(execution, "require_continuable", lambda chain, wanted: required(chain, wanted._replace(**changed)))


def compares_no_head(patch: pytest.MonkeyPatch) -> None:
    _requires(patch, head=None)


def continues_for_ever(patch: pytest.MonkeyPatch) -> None:
    _requires(patch, most=99)


def spends_what_a_program_says(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(continuation, "bounded", lambda program, allowed: program)


def hands_secrets_over(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(continuation, "uncovered", lambda sealed, marked: False)


def reads_nothing_as_null(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(handing, "read_from", lambda last, reference: None)


def takes_any_link(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(replay, "link_misfit", lambda found, chain, journal: None)


def takes_no_link(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(replay, "link_misfit", lambda found, chain, journal: "it is the link of another run")


def continues_again(patch: pytest.MonkeyPatch) -> None:
    name, number = execution.id_after, count()
    patch.setattr(execution, "id_after", lambda names: f"{name(names)}-{next(number)}")


def knows_no_budget(patch: pytest.MonkeyPatch) -> None:
    from stepward.vm.machine import chains

    patch.setattr(chains, "_budget_misfit", lambda found, chain, link: None)


CANARIES = [
    Canary("repeats-writes", "a write of a run before is not made again", "effect-over-the-boundary", CHAIN,
           repeats_writes),
    Canary("asks-no-policy-of-constants", "calls without references are judged, too", "effect-over-the-boundary", CHAIN,
           asks_no_policy_of_constants),
    Canary("begins-rules-anew", "rules go on where they were", "once-over-the-boundary", CHAIN, begins_rules_anew),
    Canary("compares-no-head", "a named head is that of the run", "head-grown-stale", CHAIN, compares_no_head),
    Canary("hands-secrets-over", "a sensitive value is read by a sensitive input", "secret-read-on", CHAIN,
           hands_secrets_over),
    Canary("reads-nothing-as-null", "only what is defined is read", "nothing-read-on", CHAIN, reads_nothing_as_null),
    Canary("continues-for-ever", "a chain has so many continuations", "without-end", CHAIN, continues_for_ever),
    Canary("spends-what-a-program-says", "a chain spends what is left", "without-end", CHAIN,
           spends_what_a_program_says),
    Canary("continues-again", "a run is continued once", "without-end", CHAIN, continues_again),
    Canary("takes-no-link", "an honest link is in order", "forged-predecessor", CHAIN, takes_no_link),
    Canary("takes-any-link", "a link between runs is verified", "forged-predecessor", CHAIN, takes_any_link),
    Canary("knows-no-budget", "the budget of a continuation is verified", "forged-predecessor", CHAIN, knows_no_budget),
]  # fmt: skip
