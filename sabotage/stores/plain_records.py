"""A plain check of records against the tables of specs/journal.md, with the trace hash. It shares no code with the
product."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

from stepward.sabotage.stores.plain_verifier import canonical

_LEAVES: Final = frozenset({"next", "ends", "closes", "reason", "in_doubt"})
_CALL: Final = frozenset({"kind", "step", "visit", "output", "error", "error_name"})
_BODIES: Final[Mapping[str, frozenset[str]]] = {
    "started": frozenset({"continues", "inputs", "patterns", "policies", "program", "turn", "waived"}),
    "governed": frozenset({"policies", "waived"}),
    "moved": frozenset({"granted", "policies", "program", "step", "visit"}),
    "intent": frozenset({"args", "policies", "step", "tool", "visit"}),
    "attempt": _CALL | _LEAVES | {"request", "rule", "unknown"},
    "doubt": frozenset({"step", "visit", "error"}),
    "reconciled": frozenset({"step", "visit", "kind", "output"}) | _LEAVES,
    "resumed": frozenset({"step", "visit", "kind", "output"}) | _LEAVES,
    "joined": frozenset({"step", "visit", "kind", "error", "error_name"}) | _LEAVES,
    "opened": frozenset({"step", "visit", "carry", "items"}),
    "item": frozenset({"step", "visit"}),
    "closed": frozenset({"step", "visit", "output"}) | _LEAVES,
    "waiting": frozenset({"step", "visit"}),
    "waited": frozenset({"step", "visit"}) | _LEAVES,
    "expired": _CALL - {"output"} | _LEAVES | {"unknown"},
    "branched": frozenset({"step", "visit", "branch"}) | _LEAVES,
    "assigned": frozenset({"step", "visit", "values"}) | _LEAVES,
    "passed": frozenset({"step", "visit", "error", "error_name"}) | _LEAVES,
    "blocked": frozenset({"step", "visit", "kind", "error", "error_name"}) | _LEAVES,
    "rejected": frozenset({"step", "visit", "kind", "error", "error_name", "rule"}) | _LEAVES,
    "ended": frozenset({"step", "visit", "output", "error"}) | _LEAVES,
    "cancel": frozenset(),
    "refused": frozenset({"what", "why"}),
    "erased": frozenset({"references"}),
}
"""The keys that a body of each kind may have."""

_NOTES: Final[Mapping[str, frozenset[str]]] = {
    "started": frozenset({"limits", "run", "by", "envelope", "due"}),
    "ended": frozenset({"time"}),
    "intent": frozenset({"attempt", "performance", "key", "token"}),
    "attempt": frozenset({"attempt", "performance", "started", "took", "tokens", "cost", "model", "cached", "due"}),
    "reconciled": frozenset({"verdict", "by"}),
    "waiting": frozenset({"started", "due"}),
    "waited": frozenset({"time"}),
    "expired": frozenset({"time", "due"}),
    **dict.fromkeys(("moved", "resumed", "cancel", "refused", "erased"), frozenset({"by"})),
}

_SORTED: Final = ("waived", "references")
_ITEMS: Final = frozenset(
    ["started", "governed", "moved", "waited", "branched", "assigned", "passed", "ended", "opened", "item", "closed"]
)
_ITEMS_THAT_SETTLE: Final = ("attempt", "expired", "resumed", "reconciled", "blocked", "rejected")
_SETTLED: Final = ("success", "fallback", "skipped", "failed")


def oddities(run: str, records: Sequence[bytes], program: bytes, trace: str) -> Iterator[str]:
    """Yield how a run differs from specs/journal.md: in the bytes and keys of its records, or in its trace hash."""
    parsed = [json.loads(record) for record in records]
    for raw, record in zip(records, parsed, strict=True):
        kind, body, note = record["kind"], record["body"], record["note"]
        if canonical(record).encode() != raw:
            yield f"record {record['seq']} is not canonical"
        within = {"frame"} if "step" in body else set()
        odd = [*(body.keys() - _BODIES[kind] - within), *(note.keys() - _NOTES.get(kind, frozenset()))]
        odd += [name for name in _SORTED if list(body.get(name, ())) != sorted(body.get(name, ()))]
        if odd:
            yield f"record {record['seq']}, `{kind}`, has `{odd[0]}`, which it should not have so"
        least = 2 if kind == "governed" or note.keys() & {"by", "cached", "due", "envelope"} else 1
        least = 6 if "turn" in body else 5 if kind == "moved" else 4 if "continues" in body else least
        least = 3 if "frame" in body or kind in ("opened", "item", "closed") else least
        least = 9 if kind == "expired" else 7 if kind in ("waiting", "waited") else least
        if record["v"] != (8 if (kind == "started" and "due" in note) or (kind == "ended" and note) else least):
            yield f"record {record['seq']}, `{kind}`, is of version {record['v']}"
    yield from _odd_intents(run, parsed)
    due = trace_hash(parsed, json.loads(program)).hex()
    if trace != due:
        yield f"the trace hash is {trace[:16]}…, and by the page it is {due[:16]}…"


def _odd_intents(run: str, records: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the intents whose key or policies differ from those of their performance or run."""
    program, policies = records[0]["body"]["program"], set(records[0]["body"]["policies"])
    for record in records:
        body, note = record["body"], record["note"]
        if record["kind"] == "governed":
            policies |= set(body["policies"])
        if record["kind"] != "intent":
            continue
        name = {"performance": note["performance"], "program": program, "run": run}
        name |= {"step": body["step"], "visit": body["visit"]}
        name |= {"frame": body["frame"]} if "frame" in body else {}
        key = sha256(b"stepward.idempotency-key.1\n" + canonical(name).encode()).hexdigest()
        if note["key"] != key or set(body["policies"]) != policies:
            yield f"record {record['seq']} is an intent of another key, or under other policies"


_Known = Mapping[str, tuple[Mapping[str, Any], Any]]
"""Programs that can be called by name, each with those that were known where it is listed."""


def all_steps(program: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the steps of a program, those of the bodies in it, and those of the programs that it calls.

    The ids of these begin with that of the step that calls.
    """
    yield from _steps(program["steps"], _listed(program, {}), "")


def _listed(program: Mapping[str, Any], around: _Known) -> _Known:
    known = dict(around)
    known |= {name: (one, known) for name, one in program.get("programs", {}).items()}
    return known


def _steps(steps: Iterable[Mapping[str, Any]], known: _Known, prefix: str) -> Iterator[Mapping[str, Any]]:
    for step in steps:
        named = {**step, "id": prefix + step["id"]}
        if "branches" in step:
            named["branches"] = {prefix + name: one for name, one in step["branches"].items()}
        if prefix and "parallel_steps" in step:
            named["parallel_steps"] = [_under(prefix, part) for part in step["parallel_steps"]]
        yield named
        yield from _steps([*step.get("steps", ()), *([step["do"]] if "do" in step else ())], known, prefix)
        for branch in step.get("branches", {}).values():
            yield from _steps(branch["steps"], known, prefix)
        if step["type"] == "call":
            program, around = known[step["program"]]
            yield from _steps(program["steps"], _listed(program, around), f"{prefix}{step['id']}/")


def _under(prefix: str, part: Mapping[str, Any]) -> dict[str, Any]:
    needs = [prefix + name for name in part.get("depends_on", ())]
    return {**part, "id": prefix + part["id"], **({"depends_on": needs} if needs else {})}


_Frame = tuple[tuple[Any, ...], ...]


def items_at_once(program: Mapping[str, Any]) -> frozenset[str]:
    """Return the ids of the for_each steps of a program whose items run at once."""
    return frozenset(step["id"] for step in all_steps(program) if _most_at_once(step) > 1)


def _most_at_once(step: Mapping[str, Any]) -> int:
    return int(step.get("max_concurrency", 1)) if step.get("type") == "for_each" else 0


def branch_of(frame: Sequence[Sequence[Any]], beside: Collection[str]) -> _Frame:
    """Return the frame of the innermost branch to which a frame belongs; empty outside of branches.

    The items of the for_each steps `beside` run at once, and are branches, too.
    """
    found = tuple(map(tuple, frame))
    while found and not isinstance(found[-1][3], str) and found[-1][0] not in beside:
        found = found[:-1]
    return found


class _Traces:
    """The trace hash of a run in which branches may run at once: each has a trace of its own, and a join puts them
    together in the order of their names."""

    def __init__(self, program: Mapping[str, Any]) -> None:
        self.program = program
        self.branches = {step["id"]: sorted(step["branches"]) for step in all_steps(program) if "branches" in step}
        self.beside = items_at_once(program)
        self.open: dict[_Frame, _Trace] = {(): _Trace(program)}
        self.ended: dict[_Frame, bytes] = {}
        self.forks: dict[_Frame, tuple[Any, ...]] = {}
        """The steps whose branches run, by the branch in which each is: frame, id, visit and round of the step, and the
        names of its branches or the numbers of its items."""

    def take(self, record: Mapping[str, Any]) -> None:
        """Take in a record."""
        body = record["body"]
        frame = tuple(map(tuple, body.get("frame", ())))
        branch = branch_of(frame, self.beside)
        is_join = record["kind"] == "joined" and (body["step"] in self.branches or body["step"] in self.beside)
        if "ends" in body and not is_join:
            if () in self.forks:
                self._join(())
            self.open[()].take(record)
            return
        if record["kind"] == "item" and frame == branch and branch:
            self.open[branch] = _Trace(self.program)
            self.open[branch].trace = _extended(bytes(32), _item(record))
            return
        here = self.open[branch]
        if record["kind"] == "opened" and (body["step"] in self.branches or body["step"] in self.beside):
            names = self.branches.get(body["step"]) or list(range(len(body["items"])))
            self.forks[branch] = (frame, body["step"], body["visit"], 1, names)
            here.trace = _extended(here.trace, _item(record))
        elif is_join and body["kind"] == "again":
            frame, step, visit, round_, names = self.forks[branch]
            self._join(branch)
            self.forks[branch] = (frame, step, visit, round_ + 1, names)
        elif is_join:
            self._join(branch)
            here.trace = _extended(here.trace, _item(record))
            if "closes" in body and frame != branch:
                here.trace = _extended(here.outside.pop(), here.trace)
        else:
            here.take(record, is_last=frame == branch)
        if "closes" in body and frame == branch:
            self.ended[branch] = self.open.pop(branch).trace

    def _join(self, branch: _Frame) -> None:
        """Put the branches of the step that runs in a branch together."""
        frame, step, visit, round_, names = self.forks.pop(branch)
        members = bytes(32)
        for name in names:
            one = (*frame, (step, visit, round_, name))
            if one in self.open:
                self._close(one)
            members = _extended(members, self.ended.pop(one, bytes(32)))
        here = self.open[branch]
        here.trace = _extended(here.trace, members)

    def _close(self, branch: _Frame) -> None:
        """End a branch with the run."""
        if branch in self.forks:
            self._join(branch)
        here = self.open.pop(branch)
        here.fold()
        self.ended[branch] = here.trace

    @property
    def trace(self) -> bytes:
        """The trace hash of the run."""
        return self.open[()].trace


class _Trace:
    """The trace hash of a run without branches, or of one branch, record by record.

    `outside` has the traces around what is open: around each for_each step, and after it the digest of its items.
    """

    def __init__(self, program: Mapping[str, Any]) -> None:
        steps = list(all_steps(program))
        self.parts_of = {step["id"]: [part["id"] for part in step.get("parallel_steps", ())] for step in steps}
        self.each = {step["id"] for step in steps if step["type"] in ("for_each", "call")}
        self.parts = {part for parts in self.parts_of.values() for part in parts}
        self.trace = bytes(32)
        self.outside: list[bytes] = []
        self.traces: dict[str, bytes] = {}
        self.failed: set[str] = set()

    def take(self, record: Mapping[str, Any], *, is_last: bool = False) -> None:
        """Take in a record; `is_last`: where it ends a body, that is the branch."""
        body, step = record["body"], record["body"].get("step")
        if record["kind"] == "item":
            self._open(_extended(bytes(32), _item(record)))
        elif record["kind"] == "joined" and step in self.each:
            self._join_items(record)
        elif record["kind"] == "joined":
            self._join(record)
        elif step in self.parts and "ends" not in body and _is_item(record):
            self.traces[step] = _extended(self.traces.get(step, bytes(32)), _item(record))
            self.failed |= {step} if body.get("kind") == "failed" else set()
        elif _is_item(record):
            if "ends" in body:
                self.fold()
            self.trace = _extended(self.trace, _item(record))
            if record["kind"] == "opened":
                self._open(bytes(32))
        if "closes" in body and not is_last:
            self.trace = _extended(self.outside.pop(), self.trace)

    def fold(self) -> None:
        """Put what is open into what is around it: an item into the items of its step, and these further out."""
        while self.outside:
            self.trace = _extended(self.outside.pop(), self.trace)

    def _open(self, inside: bytes) -> None:
        self.outside.append(self.trace)
        self.trace = inside

    def _join_items(self, record: Mapping[str, Any]) -> None:
        self.trace = _extended(self.outside.pop(), self.trace)
        if record["body"]["kind"] == "again":
            self._open(bytes(32))
        else:
            self.trace = _extended(self.trace, _item(record))

    def _join(self, record: Mapping[str, Any]) -> None:
        parts = self.parts_of[record["body"]["step"]]
        self.trace = _extended(self.trace, b"".join(self.traces.get(part, bytes(32)) for part in parts))
        if record["body"]["kind"] == "again":  # the failed ones run again
            self.traces = {part: digest for part, digest in self.traces.items() if part not in self.failed}
        else:
            self.traces, self.trace = {}, _extended(self.trace, _item(record))
        self.failed = set()


def trace_hash(records: Iterable[Mapping[str, Any]], program: Mapping[str, Any]) -> bytes:
    """Return the trace hash of a run of a program, from its records."""
    found = _Traces(program)
    for record in records:
        found.take(record)
    return found.trace


def _is_item(record: Mapping[str, Any]) -> bool:
    kind, body = record["kind"], record["body"]
    if kind in _ITEMS or (kind == "attempt" and "rule" in body):
        return True
    leaves = bool(body.keys() & {"next", "ends", "closes"})
    return kind in _ITEMS_THAT_SETTLE and (body.get("kind") in _SETTLED or leaves)


def _item(record: Mapping[str, Any]) -> bytes:
    kind = "attempt" if record["kind"] in ("resumed", "reconciled") else record["kind"]
    return f"{kind}\n{canonical(_unnamed(record['body']))}".encode()


def _extended(trace: bytes, item: bytes) -> bytes:
    return sha256(b"stepward.trace.1\n" + trace + item).digest()


def _unnamed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _unnamed(item) for key, item in value.items()}
    if isinstance(value, list):
        return list(map(_unnamed, value))
    return "#v" if isinstance(value, str) and value.startswith("#v") else value
