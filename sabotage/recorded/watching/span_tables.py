"""Tables of spans: those of each short sequence of records, of a step, of sub-steps, in a body and in a branch."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, Final

from stepward.sabotage.recorded.tabling import Table, outcome
from stepward.vm.journal.records import Record
from stepward.vm.telemetry.courses import branch_of
from stepward.vm.telemetry.outline import Outline, Part
from stepward.vm.telemetry.spans import Spans

_PARTS: Final = {
    "a": Part("a", "tool", "pay", "", ("a",)),
    "m": Part("m", "llm", "", "", ("m",)),
    "w": Part("w", "wait", "", "", ("w",)),
    "par": Part("par", "parallel", "", "", ("x", "y")),
    "x": Part("x", "tool", "get", "par", ("x",)),
    "y": Part("y", "llm", "", "par", ("y",), ("x",)),
    "each": Part("each", "for_each", "", "", ()),
    "fork": Part("fork", "branch", "", "", ()),
}
_OUTLINE: Final = Outline("p", _PARTS)
_FRAMES: Final[tuple[Any, ...]] = ((), (("each", 1, 1, 0),), (("fork", 1, 1, "left"),))

_RECORDS: Final[dict[str, tuple[str, dict[str, Any], dict[str, Any]]]] = {
    "intent": ("intent", {"tool": "pay", "args": {"a": 1}}, {"performance": 1}),
    "done": ("attempt", {"kind": "success", "output": 0}, {"performance": 1, "tokens": 0, "cost": 0, "started": 3}),
    "spent": ("attempt", {"kind": "success", "output": "", "next": "z"}, {"performance": 2, "tokens": 5, "model": "n"}),
    "again": ("attempt", {"kind": "again", "error": "e", "name": "Declined"}, {"performance": 1}),
    "failed": ("attempt", {"kind": "failed", "error": "", "name": "Unexpected"}, {"performance": 1, "started": 0}),
    "fallback": ("attempt", {"kind": "fallback", "output": None}, {"performance": 1}),
    "suspended": ("attempt", {"kind": "suspended", "request": {"q": 1}}, {"performance": 1}),
    "doubt": ("doubt", {"why": "lost"}, {"performance": 1}),
    "resumed": ("resumed", {"kind": "success", "output": 1}, {"by": "ann"}),
    "reconciled": ("reconciled", {"kind": "success"}, {"verdict": "done"}),
    "not done": ("reconciled", {"kind": "again"}, {"verdict": "not_done", "by": ""}),
    "expired": ("expired", {"kind": "failed", "error": "late"}, {"time": 9}),
    "blocked": ("blocked", {"kind": "skipped", "rule": "r"}, {}),
    "rejected": ("rejected", {"kind": "failed", "rule": "returns", "error": "e"}, {"performance": 1}),
    "waiting": ("waiting", {}, {"due": 9, "started": 1}),
    "waited": ("waited", {"next": "z"}, {"time": 9}),
    "joined": ("joined", {"kind": "success", "next": "z"}, {}),
    "opened": ("opened", {}, {}),
    "item": ("item", {}, {}),
    "closed": ("closed", {"closes": True}, {}),
    "cancel": ("cancel", {}, {"by": "ann"}),
    "governed": ("governed", {"policies": []}, {}),
    "erased": ("erased", {"references": []}, {}),
}
_NO_STEP: Final = ("cancel", "governed", "erased")
_ENDS: Final[tuple[tuple[str, str], ...]] = (
    *(("SUCCESS", ""), ("FAILED", "error"), ("CANCELLED", ""), ("BUDGET_EXCEEDED", "time"), ("STALLED", "")),
)
_FEW: Final = ("intent", "done", "again", "failed", "suspended", "doubt", "resumed", "not done", "expired", "cancel")


def _record(seq: int, name: str, step: str, frame: Any) -> Record:
    kind, body, note = _RECORDS[name]
    known = {} if name in _NO_STEP else {"step": step, "visit": 1, "attempt": seq}
    within = {"frame": [list(one) for one in frame]} if frame else {}
    return Record(seq, kind, {**body, **known, **within}, note, 10 * seq, "")


def _show_spans(names: tuple[str, ...], steps: tuple[str, ...], frame: int, end: int, has_values: Any) -> Any:
    spans, found = Spans("r", lambda _: _OUTLINE, values=has_values), []
    started = {"program": "d", "policies": [], "inputs": {"a": 0}}
    records = [Record(0, "started", started, {"run": "r", "by": "ann"}, 1, "")]
    if frame:
        records.append(_record(1, "opened", "each" if frame == 1 else "fork", ()))
    for name, step in zip(names, steps, strict=True):
        records.append(_record(len(records), name, step, _FRAMES[frame]))
    status, reason = _ENDS[end]
    body = {"ends": status, "reason": reason, "output": None, "in_doubt": ["a", "x"] if end == 1 else []}
    records.append(Record(len(records), "ended", body, {}, 99, ""))
    for record in records:
        found.append(outcome(lambda record=record: spans.add(record)))  # type: ignore[misc]
        if isinstance(found[-1], str):
            break
    return found


def _sequences() -> Iterator[tuple[Any, ...]]:
    for step, pair in product(("a", "m", "w", "x"), product(_RECORDS, repeat=2)):
        yield pair, (step, step), 0, len(pair[0]) % 5, step == "a"
    for run in product(_FEW, repeat=3):
        yield run, ("a", "a", "a"), 0, len(run[1]) % 5, False
    for pair, frame in product(product(_FEW, repeat=2), (1, 2)):
        yield pair, ("a", "a"), frame, len(pair[1]) % 5, True
    for run in product(("done", "failed", "suspended", "doubt", "again"), ("done", "failed", "doubt"), ("joined",)):
        yield run, ("x", "y", "par"), 0, 0, False
    for name, end, has_values in product(("done", "doubt", "suspended"), range(len(_ENDS)), (False, True)):
        yield (name,), ("a",), 0, end, has_values


def _branches() -> Iterator[tuple[Any, ...]]:
    members = (("each", 1, 1, 0), ("fork", 1, 1, "left"), ("in", 2, 1, 3))
    for many in range(4):
        yield from product(product(members, repeat=many), ((), ("each",), ("each", "in")))


TABLES: Final = (Table("spans", _sequences, _show_spans), Table("branches", _branches, branch_of))
