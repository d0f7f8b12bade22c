"""Does what the help of a finding says, mechanically: the reader of a message who has not read the code.

Each entry of `TABLE` knows one wording. A help that offers several ways out gives several rewrites, in its order.
Where a help leaves a value open (`fallback: …`, a bound), the first that comes to mind is taken.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from itertools import count
from typing import Any

import yaml

from stepward.validator.analysis.graph import StepGraph
from stepward.validator.findings import Finding
from stepward.vm import Program
from stepward.vm.language.flow import Flow
from stepward.vm.language.transitions import END

Data = dict[str, Any]
Entry = tuple[str, Callable[..., None]]


class NoRewriteError(Exception):
    """The help says nothing that could be applied mechanically."""


def rewrites(data: Data, finding: Finding, more: Iterable[Entry] = ()) -> list[Data]:
    """Return the program once for each rewrite that the help of the finding offers."""
    results: list[tuple[int, Data]] = []
    for pattern, apply in (*TABLE, *more):
        for match in re.finditer(pattern, finding.help):
            edit = Edit(deepcopy(data), finding)
            with suppress(NoRewriteError):  # this offer; another one may be plainer
                apply(edit, *match.groups())
                results.append((match.start(), edit.data))
    if not results:
        raise NoRewriteError(f"{finding.code} {finding.message} | {finding.help}")
    return [done for _, done in sorted(results, key=lambda result: result[0])]


@dataclass
class Edit:
    """A program that is being rewritten, and the finding that asks for it."""

    data: Data
    finding: Finding

    @property
    def owner(self) -> Any:
        """The mapping or list that holds the place of the finding."""
        return self.at(self.finding.place.path[:-1])

    @property
    def last(self) -> Any:
        """The key or position of the place in its owner."""
        return self.finding.place.path[-1]

    def at(self, path: tuple[str | int, ...]) -> Any:
        """Return what stands at a path."""
        value: Any = self.data
        for part in path:
            value = value[part]
        return value

    @property
    def steps(self) -> list[Data]:
        """The steps of the program."""
        return self.data["steps"]

    @property
    def calls(self) -> list[Data]:
        """The steps and sub-steps."""
        return [*self.steps, *(part for step in self.steps for part in step.get("parallel_steps") or [])]

    @property
    def step(self) -> Data:
        """The step or sub-step in which the finding stands."""
        path = self.finding.place.path
        if path[0] != "steps":
            return next(step for step in self.calls if step["id"] == self.finding.step)
        return self.at(path[:4] if "parallel_steps" in path else path[:2])

    def named(self) -> list[Data]:
        """Return the steps that the message names."""
        words = re.findall(r"`([^`]+)`", self.finding.message)
        return [step for word in words for step in self.steps if step["id"] == word]

    def new_id(self, stem: str) -> str:
        """Return an id that no step has."""
        taken = {step["id"] for step in self.calls}
        return next(name for n in count(1) if (name := stem if n == 1 else f"{stem}_{n}") not in taken)

    def new_end(self, **fields: Any) -> str:
        """Append an `end` step, without letting the last step fall into it, and return its id."""
        last = self.steps[-1]
        if last["type"] not in ("condition", "end") and not last.get("next_step"):
            last["is_terminal"] = True
        name = self.new_id("ended")
        self.steps.append({"id": name, "type": "end", **fields})
        return name

    def tools(self) -> Data:
        """Return the manifest, which is begun when there is none."""
        return self.data.setdefault("tools", {})

    def replace_span(self, text: str) -> None:
        """Write `text` over what the finding underlines."""
        start, end = self.finding.place.within or (0, len(str(self.owner[self.last])))
        value = str(self.owner[self.last])
        self.owner[self.last] = value[:start] + text + value[end:]


# -- values and fields --------------------------------------------------------------------------------------------


def write_whole(edit: Edit, text: str) -> None:
    edit.owner[edit.last] = text


def write_in_language_2(edit: Edit, text: str) -> None:
    write_whole(edit, text)
    edit.data["language"] = 2


def underlined(edit: Edit) -> str:
    return str(edit.owner[edit.last])[slice(*(edit.finding.place.within or (0, 0)))]


def did_you_mean(edit: Edit, text: str) -> None:
    if edit.finding.place.key:
        edit.owner[text] = edit.owner.pop(edit.last)
    elif (array := underlined(edit)).startswith("["):  # one of its items is meant, which the message names
        wrong = re.findall(r"`'([^`]+)'`$", edit.finding.message)[0]
        edit.replace_span(re.sub(rf"""['"]{re.escape(wrong)}['"]""", text, array))
    elif edit.finding.place.within is not None:
        edit.replace_span(text)
    else:
        edit.owner[edit.last] = text.strip("'")


def remove(edit: Edit) -> None:
    if edit.last == "id" and not edit.finding.place.key:  # it stands for the whole step
        edit.steps.remove(edit.step)
    else:
        del edit.owner[edit.last]


def add_field(edit: Edit, text: str) -> None:
    edit.step.update(yaml.safe_load(text))


def declare(edit: Edit, text: str) -> None:
    for section, entries in yaml.safe_load(text).items():
        edit.data[section] = {**(edit.data.get(section) or {}), **entries}


def write_fallback(edit: Edit) -> None:
    edit.step["fallback"] = (edit.step.get("allowed_outputs") or ["none"])[0]


def set_value(edit: Edit, text: str) -> None:
    edit.owner[edit.last] = yaml.safe_load(text)


# -- control flow -------------------------------------------------------------------------------------------------


def mark_an_ending(edit: Edit) -> None:
    flow = Flow(Program.from_dict(edit.data))
    reachable = StepGraph(flow).reachable
    endings = [
        number
        for number, ways in enumerate(flow.transitions)
        if any(way.to == END and way.is_drawn for way in ways) and number in reachable
    ]
    edit.steps[endings[-1]]["outcome"] = "failure"


def bound_a_step(edit: Edit) -> None:
    edit.named()[0]["max_visits"] = 5


def bound_the_program(edit: Edit) -> None:
    edit.data["max_steps"] = 100


def add_branch(edit: Edit, field: str) -> None:
    edit.step[field] = edit.new_end(outcome="failure")


def add_missing_step(edit: Edit) -> None:
    edit.new_end()
    edit.steps[-1]["id"] = edit.owner[edit.last]


def own_id(edit: Edit) -> None:
    edit.step["id"] = edit.new_id(f"{edit.step['id']}_again")


def end_in_the_loop(edit: Edit, name: str) -> None:
    step = next(step for step in edit.steps if step["id"] == name)
    step.pop("next_step", None)
    step["is_terminal"] = True


def branch_out(edit: Edit, name: str) -> None:
    next(step for step in edit.steps if step["id"] == name)["otherwise"] = edit.new_end()


def two_different_steps(edit: Edit) -> None:
    edit.owner[edit.last] = edit.new_end()


def compare_a_reference(edit: Edit) -> None:
    name = f"name_{edit.step['id']}"  # its own: what two conditions ask of one reference may decide the second
    edit.step["condition"] = f"${name} == 'yes'"
    if edit.data.get("inputs") is not None:
        edit.data["inputs"][name] = {"type": "string"}


def ask_on_the_way(edit: Edit, target: str, test: str) -> None:
    """Put a condition before the step: whoever went to the step goes to the condition."""
    number, step = next((n, step) for n, step in enumerate(edit.steps) if step["id"] == target)
    asked = edit.new_id(f"{target}_can_start")
    for other in edit.steps:
        for owner in (other, *(other.get("cases") or [])):
            for field in ("then", "otherwise", "next_step", "error_step"):
                if owner.get(field) == target:
                    owner[field] = asked
    goes_on = step["type"] not in ("condition", "end") and not step.get("next_step") and not step.get("is_terminal")
    if goes_on and number + 1 < len(edit.steps):
        step["next_step"] = edit.steps[number + 1]["id"]
    otherwise = edit.new_end(outcome="failure")
    edit.steps.insert(
        number, {"id": asked, "type": "condition", "condition": test, "then": target, "otherwise": otherwise}
    )


# -- tools --------------------------------------------------------------------------------------------------------


def around(edit: Edit) -> Data:
    """Return the step, of a sub-step the parallel step around it."""
    return edit.steps[int(edit.finding.place.path[1])]


def called_tools(edit: Edit) -> set[str]:
    return {call["tool"] for call in (edit.step, *edit.step.get("parallel_steps", [])) if "tool" in call}


def idempotent(edit: Edit) -> None:
    for tool in called_tools(edit):
        edit.tools().setdefault(tool, {"effect": "write"})["idempotent"] = True


def say_what_tools_do(edit: Edit) -> None:
    """Declare every tool; what they do is the author's to know. This is what lets them be called as they are."""
    edit.data["tools"] = {
        call["tool"]: {"effect": "write", "idempotent": True} for call in edit.calls if "tool" in call
    }


def let_it_end(edit: Edit, fields: str) -> None:
    for field in re.findall(r"`(\w+)", fields):
        edit.owner.pop(field)


def fail_elsewhere(edit: Edit, fields: str) -> None:
    let_it_end(edit, fields)
    around(edit)["error_step"] = edit.new_end(outcome="failure")


def start_once(edit: Edit, name: str, route: str | None) -> None:
    step = next(step for step in edit.steps if step["id"] == name)
    step["max_visits"] = 1
    if route:
        step["error_step"] = edit.new_end(outcome="failure")


def add_to(edit: Edit, text: str, name: str) -> None:
    next(step for step in edit.steps if step["id"] == name).update(yaml.safe_load(text))


def declare_tool(edit: Edit) -> None:
    edit.tools()[edit.step["tool"]] = {"effect": "write", "idempotent": True}


def check_first(edit: Edit, test: str) -> None:
    ask_on_the_way(edit, around(edit)["id"], test)


def declare_input(edit: Edit) -> None:
    start, end = edit.finding.place.within or (0, 0)
    name = str(edit.owner[edit.last])[start:end].strip("$").split(".")[0]
    edit.data["inputs"] = {**(edit.data.get("inputs") or {}), name: {"type": "string"}}


def require_field(edit: Edit) -> None:
    reference = re.findall(r"`\$([\w.]+)`", edit.finding.message)[0]
    first, *fields = reference.split(".")
    spec = edit.data["inputs"][first]
    for field in fields:
        spec["required"] = [*spec.get("required", []), field]
        spec = spec.setdefault("properties", {}).setdefault(field, {})


def limit_reply(edit: Edit, name: str) -> None:
    next(call for call in edit.calls if call["id"] == name)["allowed_outputs"] = ["yes", "no"]


def limit_input(edit: Edit) -> None:
    path = edit.finding.related[0].place.path
    edit.at(path[:-1])[path[-1]] = {"type": "string", "enum": ["a", "b"]}


TABLE: list[Entry] = [
    (r"^write `('[^`]+')` for the text", Edit.replace_span),
    (r"^write `([^`]+)` for the output", Edit.replace_span),
    (r"^write (?!it )(\S+) without quotes", Edit.replace_span),
    (r"^write `([^`]+)`, and (?:add|write) `language: 2`$", write_in_language_2),
    (r"^write `(?!idempotent: |effect: )([^`]+)`(?=$|: )", write_whole),
    (r"^compare it: `([^`…]+)`", Edit.replace_span),
    (r"^did you mean `([^`]+)`\?", did_you_mean),
    (r"^put it in quotes: `([^`]+)`", set_value),
    (r"^write a larger number", lambda edit: set_value(edit, "1")),
    (r"(?:^|, or )remove it(?=$|;)", remove),
    (r"^keep one of the two", remove),
    (r"\bdeclare (?:it|all of them): `(inputs: [^`]+)`", declare),
    (r"\bdeclare it under `tools`: `([^`]+)`", lambda edit, text: declare(edit, f"tools: {{{text}}}")),
    (r"\bwrite it out: `(fallback: [^`…]*)`", add_field),
    (r"^write the value out, such as `(fallback: [^`…]*)`", add_field),
    (r"^add `(\w+: [^`…]+)`(?! to )", add_field),
    (r"\badd `(\w+: [^`…]+)` to `(\w+)`", add_to),
    (r"^add `timeout_seconds`", lambda edit: add_field(edit, "timeout_seconds: 30")),
    (r"^mark each failure with `outcome: failure`", mark_an_ending),
    (r"^add `max_visits` to one of its steps", bound_a_step),
    (r", or `max_steps` to the program", bound_the_program),
    (r"^add `(then|otherwise)`", add_branch),
    (r"^raise it to at least (\d+)", set_value),
    (r"^name a step of the list, or add this one", add_missing_step),
    (r"^give this step an id of its own", own_id),
    (r"^end the run in `(\w+)`", end_in_the_loop),
    (r"^give `(\w+)` a branch that leads out", branch_out),
    (r"^name two different steps", two_different_steps),
    (r"^compare a reference such as `\$name`", compare_a_reference),
    (r"^define it on every path to `([^`]+)`, or test `([^`]+)` on the way", ask_on_the_way),
    (
        r"; keep it only if a second call with the same idempotency key has no effect, and declare `idempotent: true`",
        idempotent,
    ),
    (r"; or declare under `tools` what each tool does", say_what_tools_do),
    (r"\bdeclare it under `tools`(?!:)", declare_tool),
    (r"^remove ([^,;]+), and route the failure with `error_step`(?: on the parallel step `[^`]+`)?", fail_elsewhere),
    (r"^remove ([^,;]+), so that a failure goes to `[^`]+`", let_it_end),
    (r"^give `(\w+)` `max_visits: 1`( and an `error_step`)?", start_once),
    (r"^declare it under `inputs`", declare_input),
    (r"^list the field under `required`", require_field),
    (r", or limit the reply of `(\w+)` by `allowed_outputs`", limit_reply),
    (r", or limit the input by `enum`", limit_input),
    (r"^check it in a condition first \(such as `([^`]+)`\)", check_first),
]


def settle(
    data: Data, findings: Callable[[Data], tuple[Finding, ...]], more: Iterable[Entry] = (), most: int = 100
) -> Iterator[Data]:
    """Yield the program after each first rewrite of its first finding, from the top down, until there is none."""
    for _ in range(most):
        found = sorted(findings(data), key=lambda finding: [str(part).zfill(9) for part in finding.place.path])
        if not found:
            return
        data = rewrites(data, found[0], more)[0]
        yield data
    raise NoRewriteError(f"no end after {most} rewrites: {found[0].code} {found[0].message}")
