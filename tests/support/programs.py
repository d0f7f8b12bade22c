"""Random programs for tests that search: small, of every step type, mostly legal, with whatever control flow."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

COMMON = settings(
    deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None, phases=[Phase.generate]
)
"""For searches that draw the same programs each time."""

TOOLS: dict[str, Any] = {
    "read": {"effect": "read", "returns": {"type": "string"}},
    "write": {"effect": "write", "idempotent": False, "returns": {"type": "string"}},
    "again": {"effect": "write", "idempotent": True, "returns": {"type": "string"}},
}
VARIABLES = ("a", "b")
BRANCHES = ("then", "otherwise")


def _reference(draw: st.DrawFn) -> str:
    return draw(st.sampled_from(["$a", "$a", "$b", "$x"]))


def _failure(draw: st.DrawFn, targets: list[str], *, top: bool) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    choice = draw(st.sampled_from(["fail", "fail", "skip", "retry", "route", "route"]))
    if choice in ("skip", "retry"):
        fields["on_error"] = choice
    elif choice == "route" and top:
        fields["error_step"] = draw(st.sampled_from(targets))
    if draw(st.integers(0, 5)) == 0:
        fields |= {"timeout_seconds": 1, "on_timeout": "fallback", "fallback": "f"}
    return fields


def _call(draw: st.DrawFn, name: str, targets: list[str], *, top: bool) -> dict[str, Any]:
    step: dict[str, Any] = {"id": name, **_failure(draw, targets, top=top)}
    if draw(st.booleans()):
        step |= {"type": "tool", "tool": draw(st.sampled_from(list(TOOLS)))}
        if draw(st.integers(0, 2)) == 0:
            step["args"] = {"text": _reference(draw)}
    else:
        step |= {"type": "llm", "prompt": f"say {_reference(draw)}" if draw(st.integers(0, 2)) == 0 else "say"}
    if draw(st.booleans()):
        step["output_key"] = draw(st.sampled_from(VARIABLES))
    return step


def _condition(draw: st.DrawFn, name: str, targets: list[str]) -> dict[str, Any]:
    reference = _reference(draw)
    test = draw(
        st.sampled_from(
            [f"{reference} == 'k'", f"defined({reference}) and {reference} == 'k'", f"defined({reference})", "1 == 1"]
        )
    )
    step: dict[str, Any] = {"id": name, "type": "condition"}
    if draw(st.integers(0, 3)):
        step |= {"condition": test, "then": draw(st.sampled_from(targets))}
    else:
        cases = [{"when": test, "then": draw(st.sampled_from(targets))}]
        cases.append({"when": f"{_reference(draw)} == 'm'", "then": draw(st.sampled_from(targets)), "name": "second"})
        step["cases"] = cases
    if draw(st.integers(0, 5)):
        step["otherwise"] = draw(st.sampled_from(targets))
    return step


def _step(draw: st.DrawFn, name: str, targets: list[str]) -> dict[str, Any]:
    kind = draw(st.sampled_from(["call", "call", "call", "condition", "condition", "set", "parallel", "end"]))
    if kind == "end":
        return {"id": name, "type": "end", "outcome": draw(st.sampled_from(["success", "failure"]))}
    if kind == "condition":
        step = _condition(draw, name, targets)
    elif kind == "set":
        value = draw(st.sampled_from(["'k'", "'m'", *(f"${variable}" for variable in VARIABLES)]))
        step = {"id": name, "type": "set", "set": {draw(st.sampled_from(VARIABLES)): value}}
    elif kind == "parallel":
        parts = [_call(draw, f"{name}_{number}", targets, top=False) for number in range(draw(st.integers(1, 2)))]
        step = {"id": name, "type": "parallel", "parallel_steps": parts, **_failure(draw, targets, top=True)}
        for field in ("timeout_seconds", "on_timeout", "fallback"):
            step.pop(field, None)
    else:
        step = _call(draw, name, targets, top=True)
    if kind != "condition":
        route = draw(st.sampled_from(["fall", "fall", "next", "terminal"]))
        if route == "next":
            step["next_step"] = draw(st.sampled_from(targets))
        elif route == "terminal":
            step["is_terminal"] = True
    if draw(st.integers(0, 2)) == 0:
        step["max_visits"] = draw(st.integers(1, 2))
    return step


def _selector(draw: st.DrawFn, ids: list[str]) -> dict[str, str]:
    return draw(
        st.sampled_from([{"tool": "write"}, {"tool": "again"}, {"tool": "read"}, {"effect": "write"}])
        | st.builds(lambda name: {"step": name}, st.sampled_from(ids))
    )


def _guard(draw: st.DrawFn, steps: list[dict[str, Any]]) -> dict[str, Any]:
    conditions = [step for step in steps if step["type"] == "condition"]
    if conditions and draw(st.integers(0, 3)):
        step = draw(st.sampled_from(conditions))
        branches: list[Any] = [1, "second"] if "cases" in step else ["then"]
        if "otherwise" in step:
            branches.append("otherwise")
        return {"step": step["id"], "branch": draw(st.sampled_from(branches))}
    return {"step": draw(st.sampled_from([step["id"] for step in steps]))}


def _rule(draw: st.DrawFn, name: str, steps: list[dict[str, Any]]) -> dict[str, Any]:
    ids = [step["id"] for step in steps]
    kind = draw(st.sampled_from(["requires", "requires", "both", "at_most_once", "followed_by", "exclusive", "never"]))
    rule: dict[str, Any] = {"name": name}
    if kind == "requires":
        rule |= {"protects": _selector(draw, ids), "requires": _guard(draw, steps)}
        if draw(st.integers(0, 3)) == 0:
            rule["fresh"] = False
    elif kind == "both":
        guards = [_guard(draw, steps), _guard(draw, steps)]
        rule |= {"protects": _selector(draw, ids), "requires": {draw(st.sampled_from(["all_of", "any_of"])): guards}}
    elif kind == "at_most_once":
        rule["at_most_once"] = _selector(draw, ids)
    elif kind == "followed_by":
        rule["followed_by"] = {"first": _selector(draw, ids), "then": _selector(draw, ids)}
        if draw(st.booleans()):
            rule["ends"] = draw(st.sampled_from(["any", "success"]))
    elif kind == "exclusive":
        rule["exclusive"] = [_selector(draw, ids), _selector(draw, ids)]
    else:
        rule["never"] = _selector(draw, ids)
    return rule


def _stale_guard() -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """A guard whose variable is assigned again before the protected step."""
    steps = [
        {"id": "s0", "type": "llm", "prompt": "say", "output_key": "a"},
        {"id": "s1", "type": "condition", "condition": "$a == 'k'", "then": "s2", "otherwise": "s4"},
        {"id": "s2", "type": "llm", "prompt": "say", "output_key": "a", "next_step": "s3"},
        {"id": "s3", "type": "tool", "tool": "write", "is_terminal": True},
        {"id": "s4", "type": "end", "outcome": "failure"},
    ]
    return steps, {"name": "rule", "protects": {"tool": "write"}, "requires": {"step": "s1", "branch": "then"}}


def _lost_output() -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """A variable that a later step takes away when it fails and is skipped."""
    steps = [
        {"id": "s0", "type": "llm", "prompt": "say", "output_key": "a"},
        {"id": "s1", "type": "llm", "prompt": "say", "output_key": "a", "on_error": "skip"},
        {"id": "s2", "type": "tool", "tool": "write", "args": {"text": "$a"}},
        {"id": "s3", "type": "end", "outcome": "success"},
    ]
    return steps, {"name": "rule", "at_most_once": {"tool": "write"}}


def _used_up_visits() -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """A loop that leaves nothing but its own bound to end the run without the follow-up."""
    steps = [
        {"id": "s0", "type": "tool", "tool": "write", "next_step": "s1"},
        {"id": "s1", "type": "tool", "tool": "read", "max_visits": 1, "error_step": "s2", "next_step": "s3"},
        {"id": "s2", "type": "llm", "prompt": "say", "on_error": "skip", "next_step": "s1"},
        {"id": "s3", "type": "tool", "tool": "again", "is_terminal": True},
    ]
    return steps, {"name": "rule", "followed_by": {"first": {"tool": "write"}, "then": {"tool": "again"}}}


@st.composite
def programs(draw: st.DrawFn) -> dict[str, Any]:
    """A program of two to seven steps with one guardrail; arms are made unambiguous.

    Three in eleven are a known trap with at most one step changed: chance alone seldom builds those.
    """
    trap = draw(st.sampled_from([None] * 8 + [_stale_guard, _lost_output, _used_up_visits]))
    if trap is None:
        ids = [f"s{number}" for number in range(draw(st.integers(2, 7)))]
        steps = [_step(draw, name, ids) for name in ids]
        rule = _rule(draw, "rule", steps)
    else:
        steps, rule = trap()
        ids = [step["id"] for step in steps]
        changed = draw(st.integers(0, len(steps)))
        if changed < len(steps) and steps[changed]["type"] != "condition":
            steps[changed] = _step(draw, ids[changed], ids)
    _settle_arms(steps)
    return {
        "name": "random",
        "language": 1,
        "inputs": {"x": {"type": "string"}},
        "tools": TOOLS,
        "guardrails": [rule],
        "steps": steps,
    }


def longer(data: dict[str, Any], chance: Random) -> dict[str, Any]:
    """Return a program in which most steps that would end the run go on: else most runs end after two steps."""
    ids = [step["id"] for step in data["steps"]]
    steps = [
        {**step, "is_terminal": False, "next_step": chance.choice(ids)}
        if step.get("is_terminal") and chance.random() < 0.6
        else step
        for step in data["steps"]
    ]
    return data | {"steps": steps}


def _settle_arms(steps: list[dict[str, Any]]) -> None:
    """Say of every step that could be an ambiguous arm that it ends the run."""
    for step in steps:
        if step["type"] not in ("condition", "end") and "next_step" not in step:
            step["is_terminal"] = step.get("is_terminal", False) or _is_named(step["id"], steps)


def _is_named(name: str, steps: list[dict[str, Any]]) -> bool:
    return any(
        name in (step.get("then"), step.get("otherwise"), step.get("error_step"))
        or any(case["then"] == name for case in step.get("cases", ()))
        for step in steps
    )
