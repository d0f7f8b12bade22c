"""Mistakes of a twenty-third set, planted by another such reader, in the corners of the machine."""

from __future__ import annotations

from typing import Final

from mistakes.planted import Planted

TWENTY_THIRD: Final = (
    Planted(
        "siblings in a called program lose the prefix of the call",
        (
            (
                "vm/telemetry/outline.py",
                """\
    after = tuple(_key(prefix, one) for one in step.get("depends_on", ()))
""",
                """\
    after = tuple(map(shown, step.get("depends_on", ())))
""",
            ),
        ),
    ),
    Planted(
        "the list of tools is asked again for unknown tools alone",
        (
            (
                "vm/remote/link.py",
                """\
            if self._client is None or self._is_lost or self._is_stale:
""",
                """\
            if self._client is None or self._is_lost or (self._is_stale and name not in self._tools):
""",
            ),
        ),
    ),
    Planted(
        "an alias counts as one value in the anchor around it",
        (
            (
                "vm/reading/yaml_format.py",
                """\
        self._add(value, nodes)
""",
                """\
        self._add(value, 1)
""",
            ),
        ),
    ),
    Planted(
        "a price of zero for cached tokens is no price",
        (
            (
                "vm/models/prices.py",
                """\
        for_cached = self.input if self.cached_input is None else self.cached_input
""",
                """\
        for_cached = self.cached_input or self.input
""",
            ),
        ),
    ),
    Planted(
        "the visits of the newest run of a chain count",
        (
            (
                "vm/machine/moving.py",
                """\
                visits[step.id] = visits.get(step.id, 0) + visits_of(history.state, step)
""",
                """\
                visits.setdefault(step.id, visits_of(history.state, step))
""",
            ),
        ),
    ),
    Planted(
        "a past reconciliation is not checked for two people",
        (
            (
                "vm/machine/authority.py",
                """\
    if event.kind == "resumed" or (event.kind == "reconciled" and event.note.get("verdict") == "done"):
""",
                """\
    if event.kind == "resumed":
""",
            ),
        ),
    ),
    Planted(
        "maps within a set show their hidden entries",
        (
            (
                "vm/lisp/printing.py",
                """\
        yield from _sequence("#{}", (unwrapped(member) for member in value.members), hides)
""",
                """\
        yield from _sequence("#{}", map(unwrapped, value.members))
""",
            ),
            (
                "vm/lisp/printing.py",
                """\
def _sequence(signs: str, items: Any, hides: str) -> Iterator[str]:
""",
                """\
def _sequence(signs: str, items: Any, hides: str = "") -> Iterator[str]:
""",
            ),
        ),
    ),
    Planted(
        "a function with effects sees the local names of its caller",
        (
            (
                "vm/lisp/compiling/control.py",
                """\
    inner: Env = {}
""",
                """\
    inner = env
""",
            ),
        ),
    ),
    Planted(
        "what a guard read before the last run is forgotten",
        (
            (
                "vm/language/past.py",
                """\
        before = rule.already[number].reads if rule.already else ()
        reads = sorted({*before, *(".".join(names) for names in read_by(guard, meaning))})
""",
                """\
        reads = sorted({".".join(names) for names in read_by(guard, meaning)})
""",
            ),
        ),
    ),
    Planted(
        "a receipt is compared for the last record alone",
        (
            (
                "vm/journal/pruning.py",
                """\
        # What follows the end, such as an erasure, changes neither.
        is_end = receipt.seq == len(self.digests) - 1 or receipt.status not in GOING
""",
                """\
        is_end = receipt.seq == self.head.seq
""",
            ),
        ),
    ),
    Planted(
        "a built text without references keeps both dollar signs",
        (
            (
                "vm/expressions/building.py",
                """\
    return language > 1 and any("$$" in text or _reads(text) for _, text in texts(value))
""",
                """\
    return language > 1 and any(_reads(text) for _, text in texts(value))
""",
            ),
        ),
    ),
)
