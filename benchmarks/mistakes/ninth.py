"""Mistakes of a ninth set, planted by a reader of the machine's code and its pages who had not seen the attacks."""

from __future__ import annotations

from typing import Final

from mistakes.planted import Planted

NINTH: Final = (
    Planted(
        "assignments of sub-steps make no condition stale",
        (
            (
                "vm/language/automata.py",
                """\
        for sub, part in parts(step)
""",
                """\
        for sub, part in ((None, step),)
""",
            ),
        ),
    ),
    Planted(
        "four eyes are asked by the policies of the start alone",
        (
            (
                "vm/machine/plan.py",
                """\
            for terms in reversed(self.terms)
            for policy in reversed(terms.policies)
            for tool in policy.four_eyes or ()
            if not terms.waives(policy, "four_eyes")
""",
                """\
            for policy in reversed(self.policies)
            for tool in policy.four_eyes or ()
            if not self.terms[0].waives(policy, "four_eyes")
""",
            ),
        ),
    ),
    Planted(
        "the attempts of a later round are free",
        (
            (
                "vm/machine/apply.py",
                """\
    if attempt > call_state.attempt > 0:
""",
                """\
    if attempt > call_state.attempt > call_state.base:
""",
            ),
        ),
    ),
    Planted(
        "a cancellation drops the outcome of a call",
        (
            (
                "vm/machine/driver.py",
                """\
            if state.is_cancelled and event.kind == "intent" and call in self._intended:
""",
                """\
            if state.is_cancelled:
""",
            ),
        ),
    ),
    Planted(
        "a fallback comes before the repetition",
        (
            (
                "vm/machine/calls.py",
                """\
    if tried < call.tries(result.name, is_unknown=is_unknown):
        return "again"
    if result.answer == "timeout" and call.has_fallback:
        return "fallback"
""",
                """\
    if result.answer == "timeout" and call.has_fallback:
        return "fallback"
    if tried < call.tries(result.name, is_unknown=is_unknown):
        return "again"
""",
            ),
        ),
    ),
    Planted(
        "a write with too large an output has failed",
        (
            (
                "vm/machine/driver.py",
                """\
                unfit = Result("doubt" if plan.writes else "failed", error=too_large, name=BAD_OUTPUT)
""",
                """\
                unfit = Result("failed", error=too_large, name=BAD_OUTPUT)
""",
            ),
        ),
    ),
    Planted(
        "a text that is a member of an enum is never looked for",
        (
            (
                "vm/machine/known.py",
                """\
            if self.before.get(text) is None:
""",
                """\
            if text not in self.before:
""",
            ),
        ),
    ),
    Planted(
        "a lease is given back while one of two calls runs",
        (
            (
                "vm/machine/keeping.py",
                """\
        return is_late or all(part.is_set() for part in self.done)
""",
                """\
        return is_late or any(part.is_set() for part in self.done)
""",
            ),
        ),
    ),
    Planted(
        "a forged fallback is taken",
        (
            (
                "vm/machine/replay.py",
                """\
        "fallback": call.has_fallback and same(call.call.fallback, event.body.get("output")),
""",
                """\
        "fallback": call.has_fallback,
""",
            ),
        ),
    ),
    Planted(
        "a type with nothing but a length is no limit",
        (
            (
                "vm/language/types.py",
                """\
_TYPE_ONLY: Final = {"type"}
""",
                """\
_LIMITS: Final = {"enum", "minimum", "maximum", "maxLength", "pattern"}
""",
            ),
            (
                "vm/language/types.py",
                """\
    if spec.model_fields_set == _TYPE_ONLY and _WORDS.get(type(value)) in (spec.type or ()):
""",
                """\
    if not spec.model_fields_set & _LIMITS and _WORDS.get(type(value)) in (spec.type or ()):
""",
            ),
        ),
    ),
    Planted(
        "a suspension comes before the retry of a sibling",
        (
            (
                "vm/machine/apply.py",
                """\
    if not phases & {READY, OPEN} and not state.is_cancelled:
""",
                """\
    if OPEN not in phases and not state.is_cancelled:
""",
            ),
        ),
    ),
    Planted(
        "a plan lasts longer than its waivers",
        (
            (
                "vm/machine/execution.py",
                """\
        if cached is not None and cached[0] is program and cached[2] == today:
""",
                """\
        if cached is not None and cached[0] is program:
""",
            ),
        ),
    ),
)
