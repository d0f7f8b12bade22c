"""A script: a case that broke an invariant, saved in a file that another process can replay."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from stepward.sabotage.invariants import Breach, Outcome
from stepward.sabotage.playing.choices import Recorded
from stepward.sabotage.target import Target
from stepward.vm.arguments import PATH, TEXT, require
from stepward.vm.errors import StepwardError
from stepward.vm.values import freeze, to_json

VERSION: Final = 1
_FIELDS: Final = ("attack", "choices", "invariant", "policies", "program", "routes", "seed", "story", "version", "what")


class ScriptRefused(StepwardError):  # noqa: N818 - reads better where it is caught than with a suffix
    """A file is not an attack script, or has an unknown version or attack."""


@dataclass(frozen=True, slots=True)
class Script:
    """A saved case: the attack, its program and policies, and every decision.

    `what` and `invariant` say what broke. `story` is the log of the case. `seed` is that of the campaign.
    """

    attack: str
    program: Mapping[str, Any]
    policies: tuple[Mapping[str, Any], ...]
    routes: tuple[tuple[Mapping[str, Any], tuple[Mapping[str, Any], ...]], ...]
    choices: Mapping[str, Any]
    invariant: str
    what: str
    story: tuple[str, ...]
    seed: int

    def to_json(self) -> str:
        """Return the text of the file. Numbers are exact."""
        data = {name: getattr(self, name) for name in _FIELDS if name != "version"}
        return to_json(freeze(data | {"version": VERSION}), indent=2) + "\n"

    @classmethod
    def load(cls, path: str | Path) -> Script:
        """Read a script. Raises ScriptRefused if the file is not a script, OSError if it can't be read."""
        require(PATH, path=path)
        try:
            data = json.loads(Path(path).read_bytes(), parse_float=Decimal)
        except (ValueError, RecursionError):
            raise ScriptRefused(f"`{path}` is no attack script: it is no JSON") from None
        if not isinstance(data, dict) or sorted(data) != sorted(_FIELDS):
            raise ScriptRefused(f"`{path}` is no attack script; `stepward sabotage --save` writes them")
        if data["version"] != VERSION:
            raise ScriptRefused(f"`{path}` is an attack script of another version than {VERSION}")
        return cls._read(data, str(path))

    @classmethod
    def _read(cls, data: dict[str, Any], path: str) -> Script:
        kinds: dict[str, type | tuple[type, ...]] = {
            "attack": str,
            "choices": dict,
            "invariant": str,
            "policies": list,
            "program": dict,
            "routes": list,
            "seed": int,
            "story": list,
            "what": str,
        }
        wrong = [name for name, kind in kinds.items() if not isinstance(data[name], kind)]
        if wrong:
            raise ScriptRefused(f"`{wrong[0]}` of the attack script `{path}` is not what it must be")
        return cls(
            data["attack"],
            data["program"],
            tuple(data["policies"]),
            tuple((inputs, tuple(script)) for inputs, script in data["routes"]),
            data["choices"],
            data["invariant"],
            data["what"],
            tuple(data["story"]),
            data["seed"],
        )

    def target(self) -> Target:
        """Return the target of the attack. Raises ProgramError or PolicyError if it is not valid."""
        return Target.of(self.program, self.policies, self.routes)

    def replay(self, postgres: str | None = None) -> tuple[Outcome, Breach | None, tuple[str, ...]]:
        """Replay the attack. Return its outcome, the breach (if any) and the story.

        `postgres` is as in `Orders`. Raises ScriptRefused for an unknown attack, ScriptMisfit if the choices do not fit
        it.
        """
        from stepward.sabotage.campaigns.shard import play, runner
        from stepward.sabotage.registry import ATTACK_BY_NAME

        require(TEXT.or_none(), postgres=postgres)
        if self.attack not in ATTACK_BY_NAME:
            raise ScriptRefused(f"there is no attack `{self.attack}`")
        attack = ATTACK_BY_NAME[self.attack]()
        with runner(self.target(), attack, postgres=postgres) as made_by:
            case = made_by.case(Recorded(self.choices))
            try:
                return play(attack, case), None, tuple(case.story)
            except Breach as breach:
                return Outcome.BREACHED, breach, breach.story
