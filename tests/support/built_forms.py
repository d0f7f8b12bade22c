"""Forms of built values for programs of tests: a variable is put into a list or an object, and asked for there."""

from __future__ import annotations

import re
from random import Random
from typing import Any, Final, NamedTuple

_VARIABLE: Final = re.compile(r"\$t\b")


class Form(NamedTuple):
    """What the steps assign, one after the other, and where the value of `$t` is after them."""

    assigned: tuple[dict[str, Any], ...]
    place: str


FORMS: Final = (
    Form(({"b": {"f": "$t"}},), "$b.f"),
    Form(({"b": {"f": "$t", "g": "plain", "h": [1, None]}},), "$b.f"),
    Form(({"b": {"o": {"f": "$t", "g": {"n": 1}}}},), "$b.o.f"),
    Form(({"b": ["$t"]},), "$b[0]"),
    Form(({"b": ["a", {"f": "$t"}]},), "$b[1].f"),
    Form(({"b": "[$t]"},), "$b[0]"),
    Form(({"b": "['a', $t]"},), "$b[1]"),
    Form(({"b": {"f": "$t"}}, {"c": {"g": "$b"}}), "$c.g.f"),
    Form(({"b": {"f": "$t"}}, {"c": "$b.f"}), "$c"),
    Form(({"b": {"f": "$t"}}, {"b": {"f": "$b.f", "h": 1}}), "$b.f"),
    Form(({"b": {"f": "$t", "h": {}}}, {"b": {"h": {"g": "$b.f"}, "f": "$b.f"}}), "$b.h.g"),
)
TEXT_FORMS: Final = (
    (({"b": {"f": "a$t"}},), "$b.f starts_with 'ab'"),
    (({"b": ["$t-"]},), "$b[0] == 'a-'"),
    (({"b": ["$t-", "x"]},), "'a-' in $b"),
    (({"b": "[$t, 'b']"},), "$b contains 'a'"),
    (({"b": "[$t]"}, {"b": "$b + ['a']"}), "$b contains 'a' and len($b) == 2"),
    ((), "$t in ['a', $t]"),
    ((), "$t not in ['a', $t]"),
    ((), "'a' in [$t, 'b']"),
    ((), "['b', $t] contains 'a'"),
    ((), "join([$t, 'b'], '') == 'ab'"),
    ((), "len([$t, 'a']) == 2"),
)
"""Forms for texts, each with a question: templates, and lists in expressions."""


PATH_FORMS: Final = (
    Form(({"b": {"f": "$t", "g": 1}}, {"b.g": 2}), "$b.f"),
    Form(({"b": {"g": 1}}, {"b.f": "$t"}), "$b.f"),
    Form(({"b": {"o": {"g": 1}}}, {"b.o.f": "$t", "b.h": "'x'"}), "$b.o.f"),
    Form(({"b": {"o": {"f": "$t"}, "g": 1}}, {"b.o.g": 2, "b.o.h": 3}), "$b.o.f"),
    Form(({"b": {"f": "$t", "h": 1}}, {"c": "$b", "b.f": "$t"}, {"b.h": "$b.h + 1"}), "$c.f"),
    Form(({"b": {"f": "$t", "g": "$t"}}, {"b.f": "$b.g", "b.g": "$b.f"}), "$b.g"),
    Form(({"b": {}}, {"b.o": {"f": ["$t"]}}, {"b.g": 1}), "$b.o.f[0]"),
)
"""Forms in which `set` assigns fields of an object."""

TEXT_PATHS: Final = (
    (({"b": {"f": "$t"}}, {"c": "$b", "b.f": "'zz'"}), "$c.f == 'a' or $b.f != 'zz'"),
    (({"b": {"f": "a"}}, {"b.f": "$b.f + $t"}), "$b.f starts_with 'aa'"),
    (({"b": {"f": "q"}}, {"b.g": "$t == 'a'"}), "$b.g"),
    (({"b": {"f": "q", "g": "$t"}}, {"b.f": "$b.g", "b.g": "$b.f"}), "$b.f == 'a' and $b.g == 'q'"),
    (({"b": {"n": 1}}, {"b.n": "len($t) + $b.n"}), "$b.n > 2"),
)
"""Such forms for texts, each with a question: a copy stays as it is, and values are computed."""


def by_paths(question: str, chance: Random, *, is_text: bool) -> tuple[tuple[dict[str, Any], ...], str]:
    """Return what steps assign to fields before a question about `$t`, and the question about a field."""
    if is_text and chance.random() < 0.5:
        return chance.choice(TEXT_PATHS)
    form = chance.choice(PATH_FORMS)
    return form.assigned, _VARIABLE.sub(lambda _: form.place, question)


def built(question: str, chance: Random, *, is_text: bool) -> tuple[tuple[dict[str, Any], ...], str]:
    """Return what steps assign before a question about `$t`, and the question about the built value."""
    if is_text and chance.random() < 0.5:
        return chance.choice(TEXT_FORMS)
    form = chance.choice(FORMS)
    return form.assigned, _VARIABLE.sub(lambda _: form.place, question)
