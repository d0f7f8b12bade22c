"""Canaries of programs that chance draws; a helper, no tests stand here."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from canaries import Canary
from canaries_load import READ
from rewriting import rewrite, rewritten
from stepward.vm import Policy, values
from stepward.vm.expressions import building, evaluator, template
from stepward.vm.journal.canonical import is_sealed
from stepward.vm.language import automata, clauses, meaning, types
from stepward.vm.language.automata import ExclusiveAutomaton
from stepward.vm.machine import (
    apply,
    ask,
    authority,
    calls,
    data,
    decide,
    deliveries,
    driver,
    history,
    known,
    leaving,
    monitors,
    redaction,
    replay,
    run,
    runs,
    sizes,
    state,
    views,
)
from stepward.vm.machine.data import REDACTED
from stepward.vm.machine.plan import CallPlan, Plan, StepPlan
from stepward.vm.machine.state import State
from stepward.vm.telemetry import spans

REAL_KEY, REAL_COMPARE, REAL_TWO = types.key_of, evaluator.compare, authority.two_people
REAL_PLAN, REAL_TRACED = replay.stored_plan, apply.traced
REAL_OUT_OF_STEPS = calls.out_of_steps
REAL_FOLD, REAL_RECORD_OF = history.fold, run.record_of


def keeps_outputs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(apply, "failure_changes", lambda step, error, name: [(step.error, error)] if step.error >= 0 else [])


def goes_to_the_first_catch(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StepPlan, "leaving", lambda self, kind, name: self.transitions.get(kind))


def tries_every_write_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CallPlan, "retry_of", lambda self, name: self.call.retry_after(name))


def loses_an_inner_field(patch: pytest.MonkeyPatch) -> None:
    once = ("one.parts.setdefault(name, _Object())", "one.parts[name] = _Object()")
    patch.setattr(clauses, "into_fields", rewritten(building.into_fields, once))


def forgets_delays_when_it_recovers(patch: pytest.MonkeyPatch) -> None:
    def folded(plan: Plan, events: Any) -> State:
        found = REAL_FOLD(plan, events)
        calls_now = found.calls
        return found if calls_now is None else found._replace(calls=tuple(one._replace(due=1) for one in calls_now))

    patch.setattr(history, "fold", folded)


def adds_every_visit(patch: pytest.MonkeyPatch) -> None:
    adds = rewritten(leaving.leave, ("before = get(slots, step.visits)", "before = get(slots, step.visits)[0], 0"))
    for module in (apply, leaving):
        patch.setattr(module, "leave", adds)


def asks_for_room_twice(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, sizes, "refusal", (" - get(state.slots, step.visits)[1]", ""))


def strips_no_reply(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, ask, "_accepted", ("content.strip()", "content"))


def keeps_free_replies_in_memory(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, driver.Driver, "_answer", ("elif plan.is_model:", "elif plan.is_model and result.spent.tokens:"))


def takes_true_for_one(patch: pytest.MonkeyPatch) -> None:
    is_scalar = lambda value: value is None or isinstance(value, str | int | Decimal)  # noqa: E731
    patch.setattr(types, "key_of", lambda value: value if is_scalar(value) else REAL_KEY(value))


def orders_strictly(patch: pytest.MonkeyPatch) -> None:
    strict = {"<=": "<", ">=": ">"}
    patch.setattr(evaluator, "compare", lambda word, left, right: REAL_COMPARE(strict.get(word, word), left, right))


def tells_no_tokens(patch: pytest.MonkeyPatch) -> None:
    def record_of(seq: int, at: int, kind: str, body: Any, note: Any) -> Any:
        return REAL_RECORD_OF(seq, at, kind, body, {name: value for name, value in note.items() if name != "tokens"})

    patch.setattr(run, "record_of", record_of)


def shows_half_of_an_object(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(views, "traced", lambda value: REDACTED if is_sealed(value) or isinstance(value, dict) else value)


def spans_end_at_once(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, spans.Spans, "_call", ('start + note["took"] if "took" in note else record.at', "start"))


def excludes_nothing(patch: pytest.MonkeyPatch) -> None:
    true = monitors.Monitor.objection

    def objection(self: Any, *asked: Any) -> str | None:
        return None if isinstance(self.automaton, ExclusiveAutomaton) else true(self, *asked)

    patch.setattr(monitors.Monitor, "objection", objection)


def lets_strangers_settle(patch: pytest.MonkeyPatch) -> None:
    def two_people(plan: Plan, at: State, call: Any, by: str) -> tuple[str, str] | None:
        return REAL_TWO(plan, at, call, by) if at.by or not by else None

    for module in (authority, deliveries):
        patch.setattr(module, "two_people", two_people)


def has_a_step_more(patch: pytest.MonkeyPatch) -> None:
    for module in (calls, decide):
        patch.setattr(module, "out_of_steps", lambda plan, at, cost: REAL_OUT_OF_STEPS(plan, at, cost - 1))


def counts_characters(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(driver, "may_be_oversize", rewritten(sizes.may_be_oversize, (" * MAX_CHARACTER", "")))


def reads_no_escapes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(redaction, "readings", lambda text: (text,))


def seeks_no_groups_of_many(patch: pytest.MonkeyPatch) -> None:
    def near(self: Any, read: Any) -> Iterator[Any]:
        for text in (*read.unbroken, *read.folded):
            for at in range(len(text)):
                yield from self._by_start.get(text[at : at + redaction.MIN_BASE64], ())

    patch.setattr(redaction.Searched, "_near", near)


def judges_all_under_the_first_waivers(patch: pytest.MonkeyPatch) -> None:
    first: dict[Any, Any] = {}

    def plan(journal: Any, program: str, policies: Any, waived: Any, *others: Any) -> Plan:
        return REAL_PLAN(journal, program, policies, first.setdefault((program, policies), waived), *others)

    patch.setattr(replay, "stored_plan", plan)


def traces_no_late_policies(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        apply, "traced", lambda trace, event: trace if event.kind == "governed" else REAL_TRACED(trace, event)
    )


def takes_the_better_word(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, meaning, "_stricter", ("(declared and fields[name]) if", "(declared or fields[name]) if"))


def knows_policies_by_name(patch: pytest.MonkeyPatch) -> None:
    by_digest, by_name = "policy_digest(policy)", "policy.policy"
    changes = [(f"{{{by_digest} for", f"{{{by_name} for"), (f"if {by_digest} not", f"if {by_name} not")]
    patch.setattr(runs, "missing_terms", rewritten(authority.missing_terms, *changes))


def sorts_outer_keys_alone(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, values, "_write_json", ("level + 1, parts, in_order=in_order)", "level + 1, parts)"))


def binds_no_sub_steps(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, automata, "_assigners", ("for sub, part in parts(step)", "for sub, part in ((None, step),)"))


def seals_by_the_last_reference(patch: pytest.MonkeyPatch) -> None:
    rewrite(
        patch, state.Reader, "__call__", ("value = self.raw(names)", "value, self.touched = self.raw(names), False")
    )


def takes_waivers_of_like_names(patch: pytest.MonkeyPatch) -> None:
    change = ('f"{policy.policy}:" for', "policy.policy for")
    patch.setattr(runs, "missing_terms", rewritten(authority.missing_terms, change))


def looks_into_no_map(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, types, "_object_refusals", ("elif isinstance(spec.additional_properties, TypeSpec):", "elif False:"))


def looks_at_the_last_item(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, types, "_array_refusals", ("in enumerate(value):", "in list(enumerate(value))[-1:]:"))


def forgets_paths(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, Policy, "applies", ('path = path.replace("\\\\", "/")', 'path = ""'))


def refuses_nobody(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, runs.Runs, "_refuse", ('event("refused", body, who)', 'event("refused", body, {})'))


def takes_a_fallback_for_a_success(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, leaving, "_left", ('call.phase == "success"', 'call.phase in ("success", "fallback")'))


def asks_no_later_policy(patch: pytest.MonkeyPatch) -> None:
    change = ("not any(terms.policies for terms in plan.terms)", "not plan.policies")
    rewrite(patch, CallPlan, "__init__", change)


def writes_exponents(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(template, "as_text", rewritten(values.as_text, ('format(value, "f")', "str(value)")))


def seals_neighbours(patch: pytest.MonkeyPatch) -> None:
    rewrite(
        patch,
        decide,
        "_enter_set",
        ("values: dict[str, Any] = {}", "values, reader = {}, Reader(plan, state.slots)"),
        ("computed(tree, Reader(plan, state.slots))", "computed(tree, reader)"),
    )
    patch.setattr(
        decide, "computed", rewritten(data.computed, ("own = Reader(reader.plan, reader.slots)", "own = reader"))
    )


def takes_lengths_for_no_limit(patch: pytest.MonkeyPatch) -> None:
    change = ("spec.model_fields_set == _TYPE_ONLY", 'spec.model_fields_set <= _TYPE_ONLY | {"max_length"}')
    patch.setattr(data, "refusal", rewritten(types.refusal, change))


def looks_for_no_member(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, known.Scope, "note", ("self.before.get(text) is None", "text not in self.before"))


def opens_what_stands_beside(patch: pytest.MonkeyPatch) -> None:
    """An assigned field opens the other fields of its object."""
    patch.setattr(
        data, "_changed", rewritten(data._changed, ("opened(whole) if is_secret else whole", "opened(whole)"))
    )


CANARIES = (
    Canary(
        "opens-what-stands-beside",
        "an assigned field leaves the other ones as sensitive as they are",
        "drawn-flows",
        READ,
        opens_what_stands_beside,
    ),
    Canary(
        "loses-an-inner-field",
        "two fields of one inner object are assigned",
        "drawn-flows",
        READ,
        loses_an_inner_field,
    ),
    Canary(
        "takes-lengths-for-no-limit",
        "each limit of a type counts",
        "drawn-types",
        READ,
        takes_lengths_for_no_limit,
    ),
    Canary(
        "looks-for-no-member",
        "a text of an `enum` is looked for if it is sensitive elsewhere",
        "drawn-secrets",
        READ,
        looks_for_no_member,
    ),
    Canary(
        "takes-a-fallback-for-a-success",
        "a sub-step that ended by its fallback did not succeed",
        "drawn-rules",
        READ,
        takes_a_fallback_for_a_success,
    ),
    Canary(
        "asks-no-later-policy",
        "the allow-list of a policy that came later is asked about every call",
        "drawn-policies",
        READ,
        asks_no_later_policy,
    ),
    Canary("writes-exponents", "in a text, numbers are in plain digits", "drawn-expressions", READ, writes_exponents),
    Canary("seals-neighbours", "a value is sensitive for what it was made of", "drawn-secrets", READ, seals_neighbours),
    Canary(
        "binds-no-sub-steps",
        "an output of a sub-step makes conditions stale that read it",
        "drawn-rules",
        READ,
        binds_no_sub_steps,
    ),
    Canary(
        "seals-by-the-last-reference",
        "an expression is sensitive if any of its references is",
        "drawn-secrets",
        READ,
        seals_by_the_last_reference,
    ),
    Canary(
        "takes-waivers-of-like-names",
        "a run comes under the waivers of its new policies alone",
        "drawn-policies",
        READ,
        takes_waivers_of_like_names,
    ),
    Canary("looks-into-no-map", "the values of a map are of its type", "drawn-types", READ, looks_into_no_map),
    Canary(
        "looks-at-the-last-item", "each item of an array is of its type", "drawn-types", READ, looks_at_the_last_item
    ),
    Canary("forgets-paths", "a policy applies by the path of a program, too", "drawn-policies", READ, forgets_paths),
    Canary("refuses-nobody", "the record of a refusal names the person", "drawn-deliveries", READ, refuses_nobody),
    Canary(
        "judges-all-under-the-first-waivers",
        "a run is verified under its own waivers",
        "drawn-store",
        READ,
        judges_all_under_the_first_waivers,
    ),
    Canary(
        "traces-no-late-policies",
        "a trace hash tells of policies that a run came under",
        "drawn-deliveries",
        READ,
        traces_no_late_policies,
    ),
    Canary(
        "takes-the-better-word",
        "a tool is idempotent where program and policies say so",
        "drawn-deliveries",
        READ,
        takes_the_better_word,
    ),
    Canary(
        "knows-policies-by-name",
        "another version of a policy is another policy",
        "drawn-deliveries",
        READ,
        knows_policies_by_name,
    ),
    Canary(
        "sorts-outer-keys-alone",
        "the order of keys is no matter at any depth",
        "drawn-expressions",
        READ,
        sorts_outer_keys_alone,
    ),
    Canary("tells-no-tokens", "a trace says what a reply cost", "drawn-budgets", READ, tells_no_tokens),
    Canary(
        "shows-half-of-an-object", "a trace shows what is not sensitive", "drawn-types", READ, shows_half_of_an_object
    ),
    Canary(
        "spans-end-at-once",
        "the span of a call has its time",
        "drawn-programs",
        READ,
        spans_end_at_once,
    ),
    Canary("keeps-outputs", "a step that fails has no output", "drawn-programs", READ, keeps_outputs),
    Canary("takes-true-for-one", "a boolean is no number", "drawn-types", READ, takes_true_for_one),
    Canary("orders-strictly", "`<=` holds of equal numbers", "drawn-expressions", READ, orders_strictly),
    Canary(
        "excludes-nothing", "of two that exclude each other one is performed", "drawn-rules", READ, excludes_nothing
    ),
    Canary(
        "lets-strangers-settle",
        "nobody settles a call of a run whose starter is not known",
        "drawn-deliveries",
        READ,
        lets_strangers_settle,
    ),
    Canary(
        "goes-to-the-first-catch", "an error goes where its name leads", "drawn-errors", READ, goes_to_the_first_catch
    ),
    Canary(
        "tries-every-write-again",
        "no write is tried again that is not idempotent",
        "drawn-errors",
        READ,
        tries_every_write_again,
    ),
    Canary(
        "forgets-delays-when-it-recovers",
        "the rest of a delay is waited for after a crash",
        "drawn-errors",
        READ,
        forgets_delays_when_it_recovers,
    ),
    Canary("has-a-step-more", "a budget of steps is exact", "drawn-budgets", READ, has_a_step_more),
    Canary("adds-every-visit", "a step is in the state with its last visit", "drawn-sizes", READ, adds_every_visit),
    Canary("asks-for-room-twice", "an output takes the room of the last one", "drawn-sizes", READ, asks_for_room_twice),
    Canary("strips-no-reply", "white space around a reply does not count", "drawn-types", READ, strips_no_reply),
    Canary(
        "keeps-free-replies-in-memory",
        "a reply is in the store before the next call",
        "drawn-errors",
        READ,
        keeps_free_replies_in_memory,
    ),
    Canary("counts-characters", "the size of an output is in bytes", "drawn-sizes", READ, counts_characters),
    Canary("reads-no-escapes", "escapes are read before values are sought", "drawn-secrets", READ, reads_no_escapes),
    Canary(
        "seeks-no-groups-of-many",
        "of many sensitive values each is sought in each spelling",
        "drawn-secrets",
        READ,
        seeks_no_groups_of_many,
    ),
)
