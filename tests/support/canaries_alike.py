"""Canaries of what is alike but for one part: statuses, types, salts, questions to models; a helper, no tests stand
here."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from canaries import Canary
from canaries_load import READ
from rewriting import rewrite, rewritten
from stepward.vm.expressions import operators
from stepward.vm.journal import canonical, sealing
from stepward.vm.language import types
from stepward.vm.machine import (
    admission,
    apply,
    authority,
    caching,
    data,
    deliveries,
    driver,
    execution,
    known,
    leaving,
)

REAL_KEY = caching.reply_key


def hides_an_open_sibling(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, apply, "_with_call", ("phases & {READY, OPEN}", "phases & {READY}"))


def marks_no_defaults(patch: pytest.MonkeyPatch) -> None:
    weak = rewritten(data.completed, ("= marked(value, spec)", "= marked(value, spec) if name in given else value"))
    patch.setattr(execution, "completed", weak)


def salts_nothing(patch: pytest.MonkeyPatch) -> None:
    weak = rewritten(sealing.seal, ("drawn[REFERENCE_BYTES:] +", "bytes(SALT_BYTES) +"))
    patch.setattr(driver, "seal", weak)


def lets_nobody_settle(patch: pytest.MonkeyPatch) -> None:
    weak = rewritten(authority.two_people, ('by in ("", state.caller)', "by == state.caller"))
    for module in (authority, deliveries):
        patch.setattr(module, "two_people", weak)


def takes_true_for_no_change(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, leaving, "_is_same", ("same(before, after)", "before == after"))


def requires_what_is_declared(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, types, "_object_refusals", ("if name not in value:", "if name in known and name not in value:"))


def lowers_as_python_does(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(operators.FUNCTIONS, "lower", replace(operators.FUNCTIONS["lower"], apply=str.lower))


def sorts_by_code_points(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(canonical, "_ordered", lambda value: value)
    patch.setattr(canonical, "_encode_in_order", lambda value: "".join(canonical._pieces(value, 0)))


def looks_at_no_siblings(patch: pytest.MonkeyPatch) -> None:
    rewrite(
        patch,
        known.Known,
        "veiled",
        ("if siblings else output", 'if siblings and happened.kind == "attempt" else output'),
    )


def asks_as_anybody(patch: pytest.MonkeyPatch) -> None:
    def key(parameters: Any, prompt: str, system: str | None, *others: Any) -> str:
        del system
        return REAL_KEY(parameters, prompt, None, *others)

    patch.setattr(caching, "reply_key", key)


def keeps_echoes(patch: pytest.MonkeyPatch) -> None:
    is_kept = (' or is_sealed(body["output"])', ""), ('CachedReply(body["output"]', "CachedReply(result.value")
    rewrite(patch, caching.Replies, "keep", *is_kept)


def charges_twice(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, apply, "_charged", ("+ note[", "+ 2 * note["))


def asks_again_from_the_cache(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, caching.Replies, "key", (" or call.visit > 1", ""))


def admits_under_any_policies(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, admission.Admission, "errors", ("(plan.digest, plan.policy_digests,", "(plan.digest, (),"))


def counts_policies(patch: pytest.MonkeyPatch) -> None:
    change = ('body["policies"] != list(plan.policy_documents)', 'len(body["policies"]) != len(plan.policy_documents)')
    rewrite(patch, execution.ExecutionVM, "_existing", change)


CANARIES: tuple[Canary, ...] = (
    Canary(
        "hides-an-open-sibling",
        "a run whose sibling still runs does not wait",
        "drawn-rules",
        READ,
        hides_an_open_sibling,
    ),
    Canary("marks-no-defaults", "a default may be sensitive", "drawn-secrets", READ, marks_no_defaults),
    Canary("salts-nothing", "each sealed value has a salt of its own", "drawn-secrets", READ, salts_nothing),
    Canary(
        "looks-at-no-siblings",
        "a settled output is sealed if it repeats what a sibling found out",
        "drawn-secrets",
        READ,
        looks_at_no_siblings,
    ),
    Canary(
        "lets-nobody-settle",
        "nobody without a name settles the calls of a gateway's caller",
        "drawn-policies",
        READ,
        lets_nobody_settle,
    ),
    Canary("takes-true-for-no-change", "true is a change after 1", "drawn-budgets", READ, takes_true_for_no_change),
    Canary("requires-what-is-declared", "any field can be required", "drawn-types", READ, requires_what_is_declared),
    Canary("lowers-as-python-does", "case is mapped by code points", "drawn-expressions", READ, lowers_as_python_does),
    Canary("sorts-by-code-points", "keys are sorted by UTF-16", "drawn-types", READ, sorts_by_code_points),
    Canary(
        "admits-under-any-policies",
        "a verdict is about a program under its policies",
        "program-not-admitted",
        READ,
        admits_under_any_policies,
    ),
    Canary(
        "counts-policies",
        "a run is asked for again under its own policies",
        "run-id-reused",
        READ,
        counts_policies,
        policies=({"policy": "some"},),
    ),
    Canary(
        "asks-as-anybody", "a reply is kept under its system text, too", "replies-across-runs", READ, asks_as_anybody
    ),
    Canary(
        "asks-again-from-the-cache",
        "a loop does not get the same reply again",
        "replies-across-runs",
        READ,
        asks_again_from_the_cache,
    ),
    Canary("keeps-echoes", "no sensitive reply is kept", "replies-across-runs", READ, keeps_echoes),
    Canary("charges-twice", "a reply is charged once", "replies-across-runs", READ, charges_twice),
)
