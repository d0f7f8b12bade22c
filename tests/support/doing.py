"""Does what helps say that legacy programs don't meet: the rest of the table of `legacy_rewrites.py`."""

from __future__ import annotations

import re
from typing import Any

import yaml

from legacy_rewrites import Data, Edit, Entry, NoRewriteError, did_you_mean, say_what_tools_do
from stepward.validator.analysis.graph import StepGraph
from stepward.vm import Program
from stepward.vm.language.flow import Flow
from stepward.vm.language.transitions import END

ROUTES = ("then", "otherwise", "next_step", "error_step")


def flow_of(edit: Edit) -> Flow:
    return Flow(Program.from_dict(edit.data))


def redirect(edit: Edit, old: str, new: str) -> None:
    """Let everything that names one step name another."""
    for owner in (*edit.steps, *(case for step in edit.steps for case in step.get("cases") or [])):
        for field in ROUTES:
            if owner.get(field) == old:
                owner[field] = new


def drop_unreachable(edit: Edit) -> None:
    """Remove the steps to which no path leads."""
    reachable = StepGraph(flow_of(edit)).reachable
    edit.data["steps"] = [step for number, step in enumerate(edit.steps) if number in reachable]


def drop_branches(edit: Edit, gone: str) -> None:
    """Remove the branches that name a step; a two-way condition that is left with one is no condition any more."""
    for step in list(edit.steps):
        if step.get("cases"):
            step["cases"] = [case for case in step["cases"] if case["then"] != gone]
        if step.get("otherwise") == gone and step.get("cases"):
            del step["otherwise"]
        elif gone in (step.get("then"), step.get("otherwise")):
            other = step["otherwise"] if step["then"] == gone else step["then"]
            pass_by(edit, step, other)


def pass_by(edit: Edit, step: Data, target: str) -> None:
    """Remove a step; who came to it comes to another one."""
    number = edit.steps.index(step)
    redirect(edit, step["id"], target)
    if number and flow_of(edit).falls_through(number - 1):
        edit.steps[number - 1]["next_step"] = target
    edit.steps.remove(step)
    if not number:  # a run starts at the first
        edit.steps.insert(0, edit.steps.pop(next(n for n, one in enumerate(edit.steps) if one["id"] == target)))


def name_it(edit: Edit) -> None:
    """Let the nearest step above that ends the run go on to the step."""
    flow, number = flow_of(edit), int(edit.finding.place.path[1])
    for above in reversed(range(number)):
        ends = any(way.to == END and way.kind == "success" for way in flow.transitions[above])
        if ends and above in StepGraph(flow).reachable:
            edit.steps[above].pop("is_terminal", None)
            edit.steps[above].pop("outcome", None)
            edit.steps[above]["next_step"] = edit.step["id"]
            return
    raise NoRewriteError("no step ends the run above it")


def remove_with_branch(edit: Edit) -> None:
    drop_branches(edit, edit.step["id"])
    drop_unreachable(edit)


def go_where_it_goes(edit: Edit) -> None:
    step = edit.step
    pass_by(edit, step, step["then"] if "always true" in edit.finding.message else step["otherwise"])
    drop_unreachable(edit)


def move_case_up(edit: Edit) -> None:
    cases, number = edit.step["cases"], int(edit.finding.place.path[3])
    cases.insert(0, cases.pop(number))


def remove_case(edit: Edit) -> None:
    edit.step["cases"].pop(int(edit.finding.place.path[3]))
    drop_unreachable(edit)


def write_field(edit: Edit, field: str, value: str) -> None:
    edit.owner[field] = yaml.safe_load(value)


def guardrail(edit: Edit, name: str) -> Data:
    return next(rule for rule in edit.data["guardrails"] if rule["name"] == name)


def named_guardrail(edit: Edit) -> Data:
    return guardrail(edit, re.findall(r"\(guardrail `([^`]+)`", edit.finding.message)[0])


def old_answer_may_stand(edit: Edit, name: str) -> None:
    guardrail(edit, name)["fresh"] = False


def only_success(edit: Edit) -> None:
    named_guardrail(edit)["ends"] = "success"


def start_the_rule(edit: Edit, text: str) -> None:
    rule = named_guardrail(edit)
    rule["when"] = f"{text} {rule['when']}"


def rename_output(edit: Edit) -> None:
    edit.owner[edit.last] += "_too"


def move_behind(edit: Edit, name: str) -> None:
    number = next(number for number, step in enumerate(edit.steps) if step["id"] == name)
    whole, part = edit.steps[number], edit.step
    following = whole.pop("next_step", None)
    if not following and not whole.get("is_terminal") and number + 1 < len(edit.steps):
        following = edit.steps[number + 1]["id"]
    whole["parallel_steps"].remove(part)
    whole["next_step"] = part["id"]
    part.update({"next_step": following} if following else {"is_terminal": True})
    if "error_step" in whole:
        part["error_step"] = whole["error_step"]
    edit.steps.insert(number + 1, part)


def shorten_list(edit: Edit, most: str) -> None:
    """Declare how long the list of a for_each step can be: at the input, or at the tool that returns it."""
    name = edit.step["items"].removeprefix("$")
    tools = [step["tool"] for step in edit.calls if step.get("output_key") == name]
    spec = edit.data["tools"][tools[0]]["returns"] if tools else edit.data["inputs"][name]
    spec["maxItems"] = int(most)


def depend_on(edit: Edit, name: str) -> None:
    edit.step["depends_on"] = [*edit.step.get("depends_on", []), name]


def depend_no_more(edit: Edit, name: str, part: str) -> None:
    step = next(call for call in edit.calls if call["id"] == part)
    step["depends_on"] = [one for one in step["depends_on"] if one != name]
    if not step["depends_on"]:
        del step["depends_on"]


def own_id_of_sub_step(edit: Edit) -> None:
    parts = (part for step in edit.steps for part in step.get("parallel_steps") or [])
    next(part for part in parts if part["id"] == edit.step["id"])["id"] += "_part"


def add_argument(edit: Edit, name: str) -> None:
    examples: dict[str, Any] = {"integer": 1, "number": 1, "string": "text", "boolean": True}
    spec = edit.data["tools"][edit.step["tool"]]["args"][name]
    edit.step.setdefault("args", {})[name] = examples[spec["type"]]


def reference_alone(edit: Edit) -> None:
    edit.owner[edit.last] = re.findall(r"\$[\w.]+", edit.owner[edit.last])[0]


def leave_out(edit: Edit) -> None:
    edit.replace_span("")


def declare_type(edit: Edit, text: str, where: str) -> None:
    if where in edit.data.get("tools", {}):
        edit.data["tools"][where].update(yaml.safe_load(text))
    else:
        next(call for call in edit.calls if call["id"] == where).update(yaml.safe_load(text))


def assign_another(edit: Edit) -> None:
    if edit.finding.place.key:
        edit.owner[f"{edit.last}_too"] = edit.owner.pop(edit.last)
    else:
        edit.owner[edit.last] += "_too"


def put_in_its_place(edit: Edit, text: str) -> None:
    del edit.owner[edit.last]
    edit.owner.update(yaml.safe_load(text))


def write_where_read(edit: Edit, name: str, text: str) -> None:
    """Write a text into the prompts and arguments that read a name, which `set` then assigns no more."""
    for call in edit.calls:
        for owner in (call, call.get("args") or {}):
            for field, value in list(owner.items()):
                if isinstance(value, str) and field not in ("condition", "set"):
                    owner[field] = re.sub(rf"\${name}(?!\w)", lambda _: text, value)
    del edit.owner[edit.last]
    if not edit.owner:
        following = edit.steps[edit.steps.index(edit.step) + 1]["id"]
        pass_by(edit, edit.step, following)


def interpolate(edit: Edit, text: str, name: str) -> None:
    write_where_read(edit, name, text)


def side_by_side(edit: Edit) -> None:
    if "set" not in edit.step:
        raise NoRewriteError("a condition holds no text")
    parts = (part.strip() for part in re.split(r"\s*\+\s*", edit.owner[edit.last]))
    write_where_read(edit, edit.last, " ".join(part.strip("'") for part in parts if part.strip("' ")))


def keep_one(edit: Edit, _: str) -> None:
    """End the run in the place of the later step; in a body, end the item."""
    path = edit.finding.place.path
    depth = max(at for at, part in enumerate(path) if part == "steps")
    if depth == 0:
        pass_by(edit, edit.step, edit.new_end())
        return
    body: list[Data] = edit.at(path[: depth + 1])
    later = body.pop(int(path[depth + 1]))
    body.append({"id": "ends_here", "type": "end"})
    for step in body:
        step.update({field: "ends_here" for field in ROUTES if step.get(field) == later["id"]})


def put_reference(edit: Edit, text: str, space: str | None, declared: str | None) -> None:
    edit.replace_span(text + " " * bool(space))
    if declared:
        edit.data["inputs"][declared] = {"type": "string"}


def remove_unread(edit: Edit) -> None:
    for place in (edit.finding.place, *(label.place for label in edit.finding.related)):
        del edit.at(place.path[:-1])[place.path[-1]]
        if "set" in place.path and not edit.at(place.path[:-1]):
            step = edit.at(place.path[:2])
            pass_by(edit, step, step.get("next_step") or edit.steps[edit.steps.index(step) + 1]["id"])


def in_quotes(edit: Edit, text: str) -> None:
    edit.owner[edit.last] = text


def without_quotes(edit: Edit) -> None:
    edit.owner[edit.last] = yaml.safe_load(edit.owner[edit.last])


def remove_error(edit: Edit) -> None:
    """Remove a name from an entry of `catch` or `retry`, and what is empty then."""
    *owner, field, entry, errors, place = edit.finding.place.path
    step: Any = edit.data
    for part in owner:
        step = step[part]
    del step[field][entry][errors][place]
    step[field] = [one for one in step[field] if one[errors]]
    if not step[field]:
        del step[field]
    drop_unreachable(edit)


def say_language_2(edit: Edit) -> None:
    edit.data["language"] = 2


DOING: list[Entry] = [
    (r"^(?:add|write) `language: 2`", say_language_2),
    (r"^remove (?:it here|this entry|`[A-Z]\w*`(?:$|, or add|; the errors))", remove_error),
    (r"^name it in a branch, a `next_step` or an `error_step`", name_it),
    (r", or remove it with all steps after it$", drop_unreachable),
    (r", or remove the step and the branch that names it", remove_with_branch),
    (r", or remove it with the branch that is never taken, and go directly to the other branch", go_where_it_goes),
    (r"^move this case up", move_case_up),
    (r", or remove this case with the steps that only it leads to", remove_case),
    (r", or remove `(exclusive): true`", lambda edit, field: edit.step.pop(field)),
    (r"^write `(idempotent|effect): (\w+)`$", write_field),
    (r", or write `fresh: false` in `([^`]+)` if the old answer is still valid", old_answer_may_stand),
    (r", or write `ends: success` if a failed run does not need it", only_success),
    (r", or start the rule with `([^`]+)`", start_the_rule),
    (r"^rename `[^`]+` to `([^`]+)`$", did_you_mean),
    (r"^give it another name", rename_output),
    (r"^move this step after `([^`]+)`", move_behind),
    (r"^declare `maxItems: (\d+)` in the type of the list", shorten_list),
    (r"^give it `depends_on: \[([^`\]]+)\]`", depend_on),
    (r"^add `([^`]+)` to its `depends_on`", depend_on),
    (r"^remove `([^`]+)` from the `depends_on` of `([^`]+)`", depend_no_more),
    (r"^give the sub-step above an id of its own", own_id_of_sub_step),
    (r"^add `(\w+)` to `args`", add_argument),
    (r"^write the reference alone", reference_alone),
    (r"\bremove it from the prompt", leave_out),
    (r"^name the fields that are not sensitive: `([^`]+)`", lambda edit, field: edit.replace_span(field)),
    (r"^declare `(returns: [^`]+)` (?:for the tool|on step) `([^`]+)`", declare_type),
    (r"^assign another name", assign_another),
    (r"^write `\"('[^`]+')\"` for the text", in_quotes),
    (r"^write it without quotes", without_quotes),
    (r"^write `(\w+: [^`]+)` instead", put_in_its_place),
    (r"^`set` fills in no texts: write `([^`]+)` in the prompt or argument that reads `\$(\w+)`", interpolate),
    (r"^write the parts side by side in the prompt or argument that needs them", side_by_side),
    (r"^write `(\$[^`]+)` instead(, followed by a space)?(?:.*declare `(\w+)` under `inputs`)?", put_reference),
    (r"^use (?:it|them), or remove (?:it|them);", remove_unread),
    (r"^declare under `tools` what each tool does", say_what_tools_do),
    (r"^keep only one of `(\w+)` and `\w+` on this path", keep_one),
]
