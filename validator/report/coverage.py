"""The report on what runs have taken of a program: as text and as plain data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from stepward.validator.report.text import counted, safe

if TYPE_CHECKING:
    from stepward.validator.coverage import Coverage, Goal, Kind

_TITLES: Final[dict[Kind, str]] = {"step": "steps", "branch": "branches", "error": "error routes"}
_WORDS: Final = {
    "fallback": "falls back after its time-out",
    "skipped": "is skipped when it fails",
    "failed": "fails",
    "visits": "has used up its visits",
    "no branch": "takes no branch",
}


def render(result: Coverage) -> str:
    """Return the coverage of a program as text: the numbers, and every way that no run has taken."""
    return "".join(f"{safe(line)}\n" for line in _lines(result))


def _lines(result: Coverage) -> Iterator[str]:
    covered, total = result.count()
    by = counted(result.runs, "run")
    yield f"coverage of `{result.program}` by {by}: {covered} of {total} ({_percent(result)} %)"
    for kind, title in _TITLES.items():
        done, all_of_it = result.count(kind)
        if all_of_it:
            yield f"  {title:<12}  {done:>4} of {all_of_it}"
    if result.others:
        yield f"  {counted(result.others, 'run')} of other programs, or of other versions of it, do not count"
    if result.missing:
        yield ""
        yield "no run has taken:"
        places = {goal: _place(goal, result.file) for goal in result.missing}
        width = max(map(len, places.values()))
        yield from (f"  {places[goal]:<{width}}  {_goal_words(goal)}" for goal in result.missing)


def _percent(result: Coverage) -> str:
    """Return the percentage, never rounded up: 100 means all."""
    return f"{int(result.percent * 10) / 10:g}"


def _place(goal: Goal, file: str) -> str:
    return goal.place if goal.span is None else f"{file}:{goal.span.line}:{goal.span.column}"


def _goal_words(goal: Goal) -> str:
    step, how = goal.way
    to = f", to `{goal.to}`" if goal.to else ""
    if goal.kind == "step":
        return f"step `{step}`"
    if goal.kind == "branch":
        return f"`{step}` takes `{how}`{to}"
    return f"`{step}` {_WORDS.get(how, f'takes `{how}`')}{to}"  # an entry of `catch` has its number


def to_data(result: Coverage) -> dict[str, Any]:
    """Return the coverage as plain data."""
    return {
        "version": 1,
        "program": result.program,
        "file": result.file,
        "runs": result.runs,
        "other_runs": result.others,
        "percent": float(_percent(result)),
        "summary": {
            title.replace(" ", "_"): dict(zip(("taken", "total"), result.count(kind), strict=True))
            for kind, title in _TITLES.items()
        },
        "goals": [
            {
                "step": goal.way.step,
                "kind": goal.kind,
                "how": goal.way.how or None,
                "to": goal.to or None,
                "taken": goal.way in result.taken,
                "line": goal.span.line if goal.span else None,
                "column": goal.span.column if goal.span else None,
            }
            for goal in result.goals
        ],
    }
