"""Paths of steps in a document: in the program's own list, in bodies, and as sub-steps."""

from __future__ import annotations

from stepward.vm.reading.source import Path


def step_path(path: Path) -> Path:
    """Return the path of the innermost step or sub-step to which a path leads; empty if it leads to none."""
    end = 0
    while end < len(path):
        if path[end] in ("steps", "parallel_steps") and end + 1 < len(path) and isinstance(path[end + 1], int):
            end += 2
        elif path[end] == "do" and end:
            end += 1
        elif end and path[end] == "branches" and path[end + 2 : end + 3] == ("steps",) and end + 3 < len(path):
            end += 4
        else:
            break
    return path[:end]


def is_sub_step(path: Path) -> bool:
    """Return whether a path is that of a sub-step: in a parallel step, or the `do` of a for_each step."""
    return path == step_path(path) and ("parallel_steps" in path[-2:-1] or path[-1:] == ("do",))
