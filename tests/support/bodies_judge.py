"""Judges the trace of a run of a program with for_each steps: what items find undefined, carry on, and leave.

A rule of a body is another one in each item.
"""

from __future__ import annotations

from typing import Any, Final

from brute_bodies import body_of, flat, listed
from brute_fields import variables_of
from small_language import GONE, OPAQUE, Items, frozen
from trace_judge import Judge, Memory, is_judged

NAMED: Final = {"declared": "Declared", "uncovered": "Uncovered"}
"""The errors of items that end for a reason without an error of a step."""


class BodiesJudge(Judge):
    """One run of a program with for_each steps."""

    def __init__(self, program: dict[str, Any]) -> None:
        super().__init__({**program, "steps": list(flat(program["steps"]))})
        self.each = {name: step for name, step in self.steps.items() if step["type"] == "for_each"}
        self.calls |= set(self.each)
        self.open: list[dict[str, Any]] = []

    def _seen(self, kind: str, body: dict[str, Any]) -> None:
        part = self.parts[body["step"]]
        if kind == "item":
            self._item(part, body["frame"][-1][3])
        elif kind == "opened":
            self._start(part, body["visit"])
            first = {name: frozen(value) for name, value in body["carry"].items()}
            self.open.append({"items": frozen(body["items"]), "first": first, "kept": first, "own": [], "errors": []})
            self.values |= first
            self._noted(self._names(part))
        elif kind == "joined" and part["id"] in self.each:
            self._left(part, body)
        elif part["id"] in self.each:  # it did not start
            self.values |= {**dict.fromkeys(part.get("carry", ()), GONE), f"{part['id']}.errors": GONE}
            self._bind(part, "failed", GONE, body.get("error_name", "Visits"))
            self._noted(set(part.get("carry", ())))
        else:
            super()._seen("ended" if kind == "closed" else kind, body)
        if "closes" in body:
            if body["closes"] != "SUCCESS":
                frame = self.open[-1]
                frame["errors"].append((frame["number"], NAMED.get(body["reason"], body.get("error_name", ""))))
            self._closed(body["closes"], body["reason"], part["id"])

    def _noted(self, names: set[str]) -> None:
        for rule in self.rules:
            rule.assigned(names)

    def _names(self, step: dict[str, Any]) -> set[str]:
        """Return all that a step assigns."""
        if step["type"] == "set":
            return set(variables_of(step))
        found: set[str] = set(step.get("carry", ()))
        for part in (step, *step.get("parallel_steps", ())):
            if part["id"] in self.calls:
                found |= {f"{part['id']}.{what}" for what in ("output", "error", "error_name", "errors")}
                found |= {part["output_key"]} if "output_key" in part else set()
        return found

    def _local(self, each: dict[str, Any]) -> set[str]:
        found = {each["as"], *([each["index_as"]] if "index_as" in each else [])}
        for inner in flat(body_of(each)):
            found |= self._names(inner)
            found |= {inner[field] for field in ("as", "index_as") if field in inner}
        return found

    def _forget(self, each: dict[str, Any]) -> None:
        local = self._local(each)
        self.values |= dict.fromkeys(local - set(each.get("carry", ())), GONE)
        self._noted(local)
        inside = {part["id"] for step in flat(body_of(each)) for part in (step, *step.get("parallel_steps", ()))}
        self.begun = {one for one in self.begun if one[0] not in inside}

    def _item(self, each: dict[str, Any], number: int) -> None:
        frame = self.open[-1]
        self._forget(each)
        self.values[each["as"]] = frame["items"][number]
        if "index_as" in each:
            self.values[each["index_as"]] = number
        frame["kept"] = {name: self.values.get(name, GONE) for name in each.get("carry", ())}
        frame |= {"each": each, "number": number}
        inside = {part["id"] for step in flat(body_of(each)) for part in (step, *step.get("parallel_steps", ()))}
        frame["own"] = [Memory(rule, self, inside) for rule in each.get("guardrails", ())]
        self.rules += frame["own"]

    def _closed(self, status: str, reason: str, step: str) -> None:
        frame = self.open[-1]
        for rule in frame["own"]:
            if rule.owed and is_judged(rule.rule.get("ends"), status, reason):
                self.breaches.add((rule.name, step))
        if status != "SUCCESS":
            self.values |= frame["kept"]
        self.rules = [rule for rule in self.rules if rule not in frame["own"]]
        self._forget(frame["each"])

    def _left(self, each: dict[str, Any], body: dict[str, Any]) -> None:
        """The step ends, or begins again."""
        if body["kind"] == "again":
            self.values |= self.open[-1]["first"]
            self.open[-1]["errors"] = []
            self._noted(self._names(each))
            return
        ended = self.open.pop()
        self.values[f"{each['id']}.errors"] = listed(ended["errors"])
        if body["kind"] != "success":
            self.values |= dict.fromkeys(each.get("carry", ()), GONE)
        self._noted(set(each.get("carry", ())))
        self._bind(each, body["kind"], Items((OPAQUE,) * len(ended["items"])), body.get("error_name", GONE))
