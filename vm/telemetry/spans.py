"""Makes the spans of a run from its records: the same spans from the same records, at any time and on any machine.

A run is one trace. Each part of the run, from its start or a delivery to where it ends or waits, is a span
`invoke_workflow`; the first one is the root, and the others are below it. Below a part are the visits of steps, below
these the sub-steps of a parallel step, and below these one span for each attempt of a call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from stepward.vm.journal.records import Record
from stepward.vm.telemetry import names
from stepward.vm.telemetry.courses import Attributes, Course, Frame, Open, Visit, branch_of, frame_of
from stepward.vm.telemetry.ids import span_id_of, trace_id_of
from stepward.vm.telemetry.outline import Outline, Part
from stepward.vm.telemetry.said import said_by

HELD: Final = ("suspended", "doubt")
SETTLED: Final = ("success", "fallback", "skipped", "failed")
FAULTS: Final = ("FAILED", "BUDGET_EXCEEDED", "STALLED")
HELD_STATUSES: Final = ("SUSPENDED", "IN_DOUBT")
OPEN: Final = "open"


class Span(NamedTuple):
    """A span that has ended. Times are in microseconds since the epoch.

    `parent_id` is None for the root; `link` is the span that this one continues, if any. `error` is empty, or the kind
    of the error; `why` is its text, empty unless values were asked for.
    """

    trace_id: int
    span_id: int
    parent_id: int | None
    name: str
    is_client: bool
    start: int
    end: int
    attributes: Attributes
    error: str = ""
    why: str = ""
    link: int | None = None


class Spans:
    """Makes the spans of one run: give it every record, in order.

    `outline_of` returns the outline of the program with a digest. With `values`, spans have inputs, arguments, outputs
    and the texts of errors, without sensitive values.
    """

    def __init__(self, run: str, outline_of: Callable[[str], Outline], *, values: bool = False) -> None:
        self.run = run
        self.trace_id = trace_id_of(run)
        self.root_id = span_id_of(run, 0, "run")
        self.following = 0
        """The number of the record that comes next."""
        self._outline_of = outline_of
        self._values = values
        self._outline = Outline("", {})
        self._part: Open | None = None
        self._parts = 0
        self._visit: Visit | None = None
        self._around: list[Visit] = []
        """The visits of the for_each steps in whose bodies the run is, outermost first."""
        self._arrived = 0
        self._branch: Frame = ()
        self._has_left = False
        """Whether the branch of the last record has ended."""
        self._others: dict[Frame, Course] = {}
        """Where the branches are that run beside the one of the last record, and the steps around them."""
        self._is_cancelled = False
        self._ended: list[Span] = []

    def add(self, record: Record) -> list[Span]:
        """Return the spans that end with a record; raises KeyError or TypeError for one that no machine writes."""
        self._ended = []
        self.following = record.seq + 1
        if record.kind == "started":
            self._outline = self._outline_of(record.body["program"])
            self._arrived = record.at
        if record.kind in names.POINTS:
            self._is_cancelled |= record.kind == "cancel"
            parent = self.root_id if self._part is None else self._part.span_id
            self._point(record, names.POINTS[record.kind], parent, {})
            return self._ended
        if self._part is None:
            self._begin_part(record)
        if record.kind != "started":
            self._follow(record)
        return self._ended

    def _follow(self, record: Record) -> None:
        body = record.body
        id = body.get("step")
        self._turn(record)
        is_between = id is not None and self._is_between(record, id)
        if id is not None and not is_between:
            self._at(record, id)
        if record.kind == "opened" and self._visit is not None:
            self._around.append(self._visit)
            self._visit = None
        if record.kind == "opened" or is_between:
            self._arrived = record.at
        elif "ends" in body:
            self._end_branches(record)
            self._end_visit(record)
            while self._around:
                self._visit = self._around.pop()
                self._end_visit(record)
            self._end_part(record, body["ends"], body["reason"])
        elif "next" in body or "closes" in body:
            self._end_visit(record)
            if "closes" in body and self._branch == frame_of(record):
                self._others.pop(self._branch, None)
                self._has_left = True
        if "ends" not in body and (self._visit is not None or self._has_left):
            self._pause(record)

    def _turn(self, record: Record) -> None:
        """Go on in the branch of a record."""
        frame = frame_of(record)
        beside = self._outline.beside
        branch = branch_of(frame[:-1] if record.kind == "item" else frame, beside)
        if branch != self._branch:
            if not self._has_left:
                self._others[self._branch] = here = Course(self._around, self._arrived)
                here.visit = self._visit
            there = self._others.pop(branch, None) or Course([], record.at)
            self._branch, self._visit, self._around, self._arrived = branch, there.visit, there.around, there.arrived
            self._has_left = False
        if record.kind == "item" and branch != branch_of(frame, beside):
            self._others[frame] = Course([*self._around], record.at)

    def _end_branches(self, record: Record) -> None:
        """End the spans of all branches but the present one, with the run."""
        around = self._around
        for course in self._others.values():
            around = min(around, course.around, key=len)
            outer = [visit for visit in course.around if visit not in around]
            for visit in (course.visit, *reversed(outer)):
                own, self._visit = self._visit, visit
                if visit is not None and visit.span is not None:
                    self._end_visit(record)
                    visit.span = None
                self._visit = own
        for visit in (self._visit, *reversed([one for one in self._around if one not in around])):
            self._visit = visit
            self._end_visit(record)
        self._visit, self._around, self._others, self._branch = None, around, {}, ()

    def _pause(self, record: Record) -> None:
        """End the spans where the run waits for somebody: in all branches, if none of them goes on."""
        open_ = {branch: (course.visit, course.around) for branch, course in self._others.items()}
        if not self._has_left:
            open_[self._branch] = (self._visit, self._around)
        found: list[tuple[Visit, list[Visit]]] = []
        for branch, (visit, around) in open_.items():
            if any(other != branch and other[: len(branch)] == branch for other in open_):
                continue  # what is in it goes on or waits
            if visit is None:
                return
            found.append((visit, around))
        statuses = {self._waiting(one) for one, _ in found}
        if None in statuses:
            return
        paused: dict[int, Visit] = {}
        for one, around in found:
            paused |= {id(other): other for other in (one, *reversed(around))}
        for one in sorted(paused.values(), key=lambda one: one in self._around):
            if one.span is not None:
                self._pause_visit(record, one)
        self._end_part(record, "IN_DOUBT" if "IN_DOUBT" in statuses else "SUSPENDED", "")

    def _is_between(self, record: Record, id: str) -> bool:
        """Return whether a record is between two items of a for_each step; at the last one, go back to that step."""
        has_bodies = bool(self._around) and self._around[-1].id == id
        if record.kind not in ("item", "joined") or not has_bodies:
            return False
        if record.kind == "item" or record.body["kind"] == "again":
            return True
        self._visit = self._around.pop()
        return False

    # -- parts of the run ----------------------------------------------------------------------------------------------

    def _begin_part(self, record: Record) -> None:
        self._parts += 1
        is_first = self._parts == 1
        attributes: Attributes = {
            names.OPERATION: names.INVOKE_WORKFLOW,
            names.WORKFLOW: self._outline.name,
            names.RUN: self.run,
            names.PART: self._parts,
        }
        if is_first:
            attributes[names.PROGRAM] = record.body["program"]
            if self._values:
                attributes |= said_by(record, "")
        span_id = self.root_id if is_first else span_id_of(self.run, record.seq, "run")
        parent = None if is_first else self.root_id
        name = f"{names.INVOKE_WORKFLOW} {self._outline.name}"
        self._part = Open(span_id, parent, name, record.at, attributes)

    def _end_part(self, record: Record, status: str, reason: str) -> None:
        part = self._part
        assert part is not None, "a record that drives the run has begun a part"
        part.attributes[names.STATUS] = status
        if reason:
            part.attributes[names.REASON] = reason
        if record.body.get("in_doubt"):
            part.attributes[names.IN_DOUBT] = ",".join(record.body["in_doubt"])
        if self._values and record.kind == "ended":
            part.attributes |= said_by(record, "")
        error = reason if status in FAULTS else "in_doubt" if status == "IN_DOUBT" else ""
        self._close(part, record, error)
        self._part = None

    # -- steps ---------------------------------------------------------------------------------------------------------

    def _at(self, record: Record, id: str) -> None:
        """Take in a record about a step or sub-step."""
        part = self._outline.parts[id]
        visit = self._enter(record, part.within or id)
        if part.within:
            self._enter_sub(record, visit, id, part)
        assert visit.span is not None, "its span was opened"
        below = visit.subs[id] if part.within else visit.span
        match record.kind:
            case "intent":
                visit.intents[id] = record
                visit.phases[id] = OPEN
            case "attempt" | "doubt" | "expired":
                if record.kind != "expired":  # the call was over when it suspended the run
                    self._call(record, below, id, visit.intents.pop(id, None))
                phase = record.body.get("kind", "doubt")
                visit.phases[id] = "ready" if phase == "again" else phase
                if phase in HELD:
                    visit.held[id] = record.at
            case "waiting":
                visit.phases[id] = "suspended"
            case "waited":
                visit.phases[id] = "success"
            case "resumed" | "reconciled":
                verdict = record.note.get("verdict", "done")
                self._delivery(record, below, part, visit.held.pop(id, record.at))
                visit.phases[id] = "success" if verdict == "done" else "ready"
            case "blocked" | "rejected":
                visit.phases[id] = record.body["kind"]
            case "joined":
                failed = [call for call, phase in visit.phases.items() if phase == "failed"]
                visit.phases.update(dict.fromkeys(failed, "ready") if record.body["kind"] == "again" else {})
        if part.within and visit.phases[id] in (*HELD, *SETTLED):
            self._end_sub(record, visit, id)

    def _enter(self, record: Record, id: str) -> Visit:
        """Return the present visit, with an open span."""
        if self._visit is None:
            self._visit = Visit(id)
        visit = self._visit
        if visit.span is None:
            start = record.at if id in visit.earlier else self._arrived
            visit.span = self._step_span(record, self._parent(record, visit), id, start, visit)
        return visit

    def _parent(self, record: Record, visit: Visit) -> int:
        """Return the span below which that of a visit is: the part of the run, or the for_each step around it."""
        assert self._part is not None, "a record that drives the run has begun a part"
        parent = self._part.span_id
        for around in self._around:
            if around is visit:
                break
            if around.span is None:  # the run has waited in its body
                around.span = self._step_span(record, parent, around.id, record.at, around)
            parent = around.span.span_id
        return parent

    def _enter_sub(self, record: Record, visit: Visit, id: str, part: Part) -> None:
        if id not in visit.subs:
            self._enter(record, part.within)
            assert visit.span is not None, "its span was opened"
            start = record.note.get("started", record.at)
            visit.subs[id] = self._step_span(record, visit.span.span_id, id, start, visit)

    def _step_span(self, record: Record, parent: int, id: str, start: int, visit: Visit) -> Open:
        part = self._outline.parts[id]
        attributes: Attributes = {names.STEP: part.id, names.STEP_TYPE: part.type}
        if "visit" in record.body and record.body["step"] in (id, *self._outline.parts[id].calls):
            attributes[names.VISIT] = record.body["visit"]
            frame = record.body.get("frame")
            if frame and self._outline.parts[frame[-1][0]].type != "call":
                attributes[names.ITEM] = frame[-1][3]
        span_id = span_id_of(self.run, record.seq, f"step {id}")
        return Open(span_id, parent, f"{names.STEP_SPAN} {part.id}", start, attributes, visit.earlier.get(id))

    def _end_sub(self, record: Record, visit: Visit, id: str) -> None:
        span = visit.subs.pop(id)
        visit.earlier[id] = span.span_id
        self._close_step(span, record, visit.phases[id])

    def _end_visit(self, record: Record) -> None:
        """End the spans of the present step, if it has begun; calls that are under way may have happened."""
        visit = self._visit
        self._visit, self._arrived = None, record.at
        if visit is None or visit.span is None:
            return
        for id, intent in visit.intents.items():
            self._call(record, visit.subs.get(id, visit.span), id, intent)
        for id in list(visit.subs):
            visit.phases[id] = _outcome(record, id)
            self._end_sub(record, visit, id)
        self._close_step(visit.span, record, _outcome(record, visit.id))

    def _pause_visit(self, record: Record, visit: Visit) -> None:
        assert visit.span is not None, "its span was opened by this record"
        visit.earlier[visit.id] = visit.span.span_id
        outcome = "doubt" if "doubt" in visit.phases.values() else "suspended"
        self._close_step(visit.span, record, outcome)
        visit.span = None

    def _close_step(self, span: Open, record: Record, outcome: str) -> None:
        body = record.body
        span.attributes[names.OUTCOME] = outcome
        if "branch" in body:
            span.attributes[names.BRANCH] = str(body["branch"])
        if "rule" in body:
            span.attributes[names.RULE] = body["rule"]
        if self._values and record.kind == "assigned":
            span.attributes |= said_by(record, "")
        self._close(span, record, "" if outcome == "fallback" else _fault(record, outcome))

    def _waiting(self, visit: Visit) -> str | None:
        """Return the status with which the run waits for somebody after this record, or None if it goes on."""
        calls = set(self._outline.parts[visit.id].calls) - self._blocked(visit)
        phases = {visit.phases.get(call, "ready") for call in calls}
        if self._is_cancelled or not phases <= {*HELD, *SETTLED}:
            return None
        return "IN_DOUBT" if "doubt" in phases else "SUSPENDED" if "suspended" in phases else None

    def _blocked(self, visit: Visit) -> set[str]:
        """Return the calls that have not started, and that depend on one that waits for somebody."""
        ready = {call for call in self._outline.parts[visit.id].calls if call not in visit.phases}
        waiting = {call for call, phase in visit.phases.items() if phase in HELD}
        blocked: set[str] = set()
        found = waiting
        while found:
            blocked |= found
            found = {call for call in ready - blocked if not blocked.isdisjoint(self._outline.parts[call].after)}
        return blocked - waiting

    # -- calls ---------------------------------------------------------------------------------------------------------

    def _call(self, record: Record, below: Open, id: str, intent: Record | None) -> None:
        """End the span of an attempt; `record` is its outcome, or what left it in doubt."""
        part = self._outline.parts[id]
        note = record.note if record.kind == "attempt" else {}
        known = note if intent is None else {**intent.note, **note}
        outcome = "doubt" if record.kind == "doubt" else _outcome(record, id)
        is_model = part.type == "llm"
        attributes: Attributes = {names.OPERATION: names.CHAT if is_model else names.EXECUTE_TOOL}
        if is_model:
            attributes |= _spent(note)
        else:
            attributes[names.TOOL] = part.tool
            attributes[names.TOOL_TYPE] = names.FUNCTION
            if "key" in known:
                attributes[names.TOOL_CALL] = known["key"]
        attributes[names.STEP] = part.id
        attributes[names.OUTCOME] = outcome
        for field, name in (("attempt", names.ATTEMPT), ("performance", names.PERFORMANCE)):
            if field in known:
                attributes[name] = known[field]
        if "rule" in record.body:
            attributes[names.RULE] = record.body["rule"]
        if self._values:
            attributes |= said_by(record, part.type, intent)
        start = note.get("started", record.at if intent is None else intent.at)
        end = start + note["took"] if "took" in note else record.at
        name = names.CHAT if is_model else f"{names.EXECUTE_TOOL} {part.tool}"
        span_id = span_id_of(self.run, record.seq, f"call {part.id}")
        self._end(record, span_id, below.span_id, name, is_model, start, end, attributes, _fault(record, outcome))

    def _delivery(self, record: Record, below: Open, part: Part, since: int) -> None:
        """Show what a person or a system has delivered, and for how long the run waited for it."""
        attributes: Attributes = {names.STEP: part.id, names.WAITED: max(record.at - since, 0) / 1e6}
        if "verdict" in record.note:
            attributes[names.VERDICT] = record.note["verdict"]
        name = names.RESUME_SPAN if record.kind == "resumed" else names.RECONCILE_SPAN
        self._point(record, f"{name} {part.id}", below.span_id, attributes)

    # -- ending spans --------------------------------------------------------------------------------------------------

    def _point(self, record: Record, name: str, parent: int, attributes: Attributes) -> None:
        if "what" in record.body:
            attributes[names.DELIVERY] = record.body["what"]
        if self._values:
            attributes |= said_by(record, "")
        span_id = span_id_of(self.run, record.seq, record.kind)
        self._end(record, span_id, parent, name, False, record.at, record.at, attributes, "")

    def _close(self, span: Open, record: Record, error: str) -> None:
        self._end(
            record,
            span.span_id,
            span.parent_id,
            span.name,
            False,
            span.start,
            record.at,
            span.attributes,
            error,
            span.link,
        )

    def _end(  # noqa: PLR0913, PLR0917 - the fields of a span
        self,
        record: Record,
        span_id: int,
        parent: int | None,
        name: str,
        is_client: bool,
        start: int,
        end: int,
        attributes: Attributes,
        error: str,
        link: int | None = None,
    ) -> None:
        attributes[names.RECORD] = record.seq
        why = ""
        if error:
            attributes[names.ERROR] = error
            why = str(record.body.get("error", "")) if self._values else ""
        end = end if end > start else start  # the clock may have been set back
        self._ended.append(
            Span(self.trace_id, span_id, parent, name, is_client, start, end, attributes, error, why, link)
        )


def _spent(note: Mapping[str, Any]) -> Attributes:
    """Return what a call to a model cost, as far as it is known."""
    attributes: Attributes = {}
    if note.get("model"):
        attributes[names.RESPONSE_MODEL] = note["model"]
    if note.get("tokens"):
        attributes[names.TOKENS] = note["tokens"]
    if note.get("cost", "0") != "0":
        attributes[names.COST] = float(note["cost"])
    return attributes


def _outcome(record: Record, id: str) -> str:
    """Return what became of a step or call with the record that ends it."""
    body = record.body
    if "kind" in body:
        return str(body["kind"])
    if record.kind in ("branched", "assigned", "closed", "waited") or (record.kind == "ended" and "step" in body):
        return "success"
    if record.kind == "passed":
        return "failed"
    in_doubt = (one.rpartition("/")[2] for one in body.get("in_doubt", ()))
    return "doubt" if id in in_doubt else "ended"


def _fault(record: Record, outcome: str) -> str:
    """Return the kind of an error, or an empty text if there is none: never a text with values."""
    body = record.body
    if outcome in ("success", "suspended", "ended"):
        return ""
    if outcome == "fallback":  # the only reason for one
        return "timeout"
    if outcome == "doubt" or body.get("unknown"):
        return "in_doubt"
    if record.kind == "expired":
        return "deadline"
    if record.kind in ("passed", "blocked", "rejected"):
        return "visits" if record.kind == "passed" else record.kind
    return str(body["rule"]) if record.kind == "attempt" and "rule" in body else "failed"
