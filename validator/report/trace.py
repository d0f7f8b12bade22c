"""The trace of a run, for people and for programs: its events with their times and outcomes; nothing sensitive."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from stepward.validator.report.table import Column, render
from stepward.validator.report.text import counted, cut, safe
from stepward.vm.language.steps.catching import UNEXPECTED
from stepward.vm.values import as_text, to_json

if TYPE_CHECKING:
    from stepward.vm.machine.events import Event
    from stepward.vm.machine.history import History
    from stepward.vm.machine.run import Run

MAX_DETAIL: Final = 160
"""Characters of a detail that the table shows; the JSON has all of them."""

_COLUMNS: Final = (
    Column("seq", is_number=True),
    Column("time (UTC)"),
    Column("step"),
    Column("what"),
    Column("took", is_number=True),
    Column("tokens", is_number=True),
    Column("cost", is_number=True),
    Column("detail"),
)

_WORDS: Final = {
    "cancel": "cancel asked for",
    "branched": "branch",
    "assigned": "set",
    "doubt": "in doubt",
    "waiting": "waits",
    "expired": "deadline passed",
    "item": "begins",
}


def render_trace(found: History, first: int = 0, *, color: bool = False) -> str:
    """Return the table of a run's records from number `first` on."""
    events = list(zip(found.records, found.events, strict=True))
    rows = [_row(record.seq, record.at, event) for record, event in events[first:]]
    return render(_COLUMNS, rows, color=color)


def _row(seq: int, at: int, event: Event) -> list[str]:
    note = event.note
    tokens, cost = note.get("tokens"), note.get("cost")
    return [
        str(seq),
        moment(at)[11:23],
        _step(event),
        _what(event),
        _duration(note.get("took")),
        str(tokens) if tokens else "",
        "" if cost in (None, "0") else str(cost),
        cut("; ".join(_details(event)), MAX_DETAIL),
    ]


def trace_lines(found: History, first: int) -> Iterator[str]:
    """Yield a line for each record of a run from number `first` on, for a run that is shown while it goes on."""
    events = list(zip(found.records, found.events, strict=True))
    for record, event in events[first:]:
        yield f"{record.seq:>4}  {moment(record.at)[11:23]}  {_step(event):<20}  {words_of(event)}"


def words_of(event: Event) -> str:
    """Return what a record says, in words: what happened, and its details."""
    return ": ".join(filter(None, (_what(event), "; ".join(_details(event)))))


def _step(event: Event) -> str:
    """Return the step of a record, and in which item, branch or call it is: `each[3]/pay`. An item is `each[3]`."""
    from stepward.vm.machine.keys import shown

    step, frame = str(event.body.get("step", "")), tuple(map(tuple, event.body.get("frame", ())))
    return shown(frame, "").removesuffix("/") if event.kind == "item" else shown(frame, step)


def _what(event: Event) -> str:
    kind = str(event.body.get("kind", ""))
    if event.kind in ("attempt", "joined"):
        word = {"again": "failed", "doubt": "in doubt"}.get(kind, kind)
        number = event.note.get("attempt", 1)
        return word if event.kind == "joined" or number == 1 else f"{word} (attempt {number})"
    return _WORDS.get(event.kind, event.kind)


def _details(event: Event) -> Iterator[str]:
    body = _traced(event.body)
    words = _DETAIL_WORDS.get(event.kind)
    if words is not None:
        yield words(body)
    if event.kind == "reconciled":
        yield str(event.note["verdict"]).replace("_", " ")
    if event.note.get("by"):
        yield f"by {event.note['by']}"
    if event.note.get("cached"):
        yield "from the cache"
    if body.get("rule") and event.kind == "attempt":
        yield f"rejected by `{body['rule']}`"
    if body.get("error"):
        name = body.get("error_name", UNEXPECTED)
        yield str(body["error"]) if name == UNEXPECTED else f"{name}: {body['error']}"
    if body.get("request") is not None:
        yield f"asks {to_json(body['request'])}"
    if "output" in body and (body["output"] is not None or event.kind != "ended"):
        yield to_json(body["output"])
    if event.body.get("kind") == "again":
        yield "again"
    if event.kind == "expired" and event.body["kind"] == "doubt":
        yield "in doubt"
    if "ends" in body:
        yield f"ends {body['ends']}"


def _branched(body: Mapping[str, Any]) -> str:
    branch = body["branch"]
    if branch is None:
        return "no branch holds"
    name = f"case {branch}" if isinstance(branch, int) else str(branch)
    return f"{name} → {body['next']}" if "next" in body else name


_DETAIL_WORDS: Final[dict[str, Callable[[Mapping[str, Any]], str]]] = {
    "governed": lambda body: f"also under policies {', '.join(digest[:8] for digest in body['policies'])}",
    "moved": lambda body: f"goes on with version {body['program'][:8]}",
    "started": lambda body: _pairs(body["inputs"]),
    "intent": lambda body: f"{body['tool']}({_pairs(body['args'])})" if body["tool"] else "a model",
    "assigned": lambda body: _pairs(body["values"]),
    "branched": _branched,
    "refused": lambda body: f"{body['what']}: {body['why']}",
    "erased": lambda body: counted(len(body["references"]), "value"),
}


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}: {to_json(value)}" for name, value in values.items())


def _duration(microseconds: Any) -> str:
    if not isinstance(microseconds, int):
        return ""
    if microseconds < 1_000:
        return f"{microseconds} µs"
    return f"{microseconds / 1e3:.3g} ms" if microseconds < 1_000_000 else f"{microseconds / 1e6:,.1f} s"


def moment(at: int) -> str:
    """Return a time, given in microseconds since the epoch, in the format of RFC 3339, in UTC."""
    try:
        return datetime.datetime.fromtimestamp(at / 1e6, datetime.UTC).isoformat(timespec="microseconds")[:26] + "Z"
    except (OverflowError, ValueError, OSError):
        return f"{at} µs"


def _traced(body: Any) -> Any:
    from stepward.vm.machine.views import traced

    return traced(body)


# -- the outcome -------------------------------------------------------------------------------------------------------


def render_outcome(run: Run, found: History) -> str:
    """Return the outcome of a run in words: status, spending, errors, broken guardrails, output and hashes."""
    state = found.state
    reason = f" ({run.reason})" if run.reason else ""
    spent = [counted(run.steps, "step")]
    spent += [counted(run.tokens, "token")] if run.tokens else []
    spent += [f"cost {as_text(run.cost)}"] if run.cost else []
    lines = [f"{run.status}{reason} at `{run.step}`: {', '.join(spent)}"]
    link = run.continues
    if link is not None:
        from stepward.validator.runs.chains import link_words

        lines.append(f"continues run `{link.run}`, as number {link.number} of its chain; {link_words(link)}")
    paid = [f"`{step}` {as_text(one.cost)}" for step, one in run.spent.items() if one.cost]
    lines += [f"cost by step: {', '.join(paid)}"] if len(paid) > 1 else []
    if run.error and run.is_over:
        lines.append(f"error: {run.error}")
    lines += [f"broken: guardrail `{rule}`: {how}" for rule, how in run.broken]
    if state.output is not None:
        lines.append(f"output: {to_json(_traced(state.output))}")
    lines.append(f"head {run.seq}: {run.head}")
    lines.append(f"trace hash: {run.trace_hash}")
    return "".join(f"{safe(line)}\n" for line in lines)


def run_data(run: Run, found: History) -> dict[str, Any]:
    """Return a run as plain data."""
    return {
        "id": run.id,
        "program": run.program,
        "status": run.status,
        "reason": run.reason or None,
        "error": run.error or None,
        "step": run.step,
        "output": _traced(found.state.output),
        "steps": run.steps,
        "tokens": run.tokens,
        "cost": as_text(run.cost),
        "spent": {
            step: {"tokens": one.tokens, "cost": as_text(one.cost), "model": one.model}
            for step, one in run.spent.items()
        },
        "seq": run.seq,
        "head": run.head,
        "trace_hash": run.trace_hash,
        "broken": [{"guardrail": rule, "how": how} for rule, how in run.broken],
        **({} if run.continues is None else {"continues": run.continues._asdict()}),
        "suspensions": [waits._asdict() | {"token": waits.token or None} for waits in run.suspensions],
        "doubts": [doubt._asdict() for doubt in run.doubts],
    }


def render_boundary(words: str) -> str:
    """Return the line between two runs of a chain."""
    return f"--- {safe(words)} ---\n\n"


def trace_data(found: History) -> list[dict[str, Any]]:
    """Return the records of a run as plain data."""
    return [
        {
            "seq": record.seq,
            "at": moment(record.at),
            "kind": record.kind,
            "body": _traced(event.body),
            "note": event.note,
        }
        for record, event in zip(found.records, found.events, strict=True)
    ]
