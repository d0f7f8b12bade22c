"""What people call a command that has another name, and the command that they mean."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_RUNS: Final = ("list", "show", "resume", "reconcile", "recover", "cancel", "erase", "receipt")

_MEANT: Final = {
    "baseline": "`stepward check --write-baseline FILE` writes a baseline, and `--baseline FILE` uses it",
    "policy": "`stepward check --policy FILE` applies a policy, and `stepward schema policy` describes the format",
    "waiver": "a waiver is written into the policy; `stepward explain SW702` shows one",
    "fix": "`stepward check --fix` applies the safe fixes, and `--diff` shows them",
    "statistics": "`stepward check --statistics` counts findings, and shows the most that a run can do",
    "rules": "`stepward explain` lists the codes, and `stepward explain CODE` describes one",
    **dict.fromkeys(("lint", "validate", "prove"), "`stepward check` checks programs"),
    **dict.fromkeys(("diagram", "draw"), "`stepward graph` draws a program"),
    **dict.fromkeys(("attack", "fuzz"), "`stepward sabotage` attacks the machine that runs a program"),
    **{action: f"`stepward runs {action}`" for action in _RUNS},
}

_PLURALS: Final = {"baselines": "baseline", "policies": "policy", "waivers": "waiver", "rule": "rules"}


def meant_by(word: str, commands: Iterable[str]) -> str:
    """Return the help for a word that is no command: the command that is meant or spelt alike, or an empty text."""
    from stepward.vm.language.similar import near_name

    known = word.lower()
    found = _MEANT.get(_PLURALS.get(known, known))
    near = None if found else near_name(known, list(commands))
    return found or (f"did you mean `stepward {near}`?" if near else "")
