"""Whether a campaign finds small mistakes in the machine: one-line edits of its functions, each attacked by itself.

`python benchmarks/mutants.py --mutants 100 --seed 1`. The campaign is the default one on `customer_refund` with
specimens. It is played once, to see which shards come to which function, within `--shards` shards: about as many as
120 s of CPU reach. Then each mistake is put into a fork of this process, as new code of the function, and attacked by
the shards that come to it, in the order of the campaign, for `--seconds` of CPU at most. A mistake that survives may
change nothing (read it), or may be found by a longer play.
"""

from __future__ import annotations

import argparse
import ast
import gc
import importlib
import json
import os
import select
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from random import Random
from types import CodeType, FunctionType
from typing import Final, NamedTuple

import coverage
from mutations import Edit, edited, edits_of

from stepward.sabotage.campaign import Orders, _in_turns
from stepward.sabotage.campaigns import specimen_programs
from stepward.sabotage.campaigns.shard import Shard, run_shard
from stepward.sabotage.campaigns.specimen_programs import specimen_target
from stepward.sabotage.registry import ATTACK_BY_NAME
from stepward.sabotage.target import Target
from stepward.validator import check_program
from stepward.validator.routes import routes
from stepward.vm import Policy, Program

ROOT: Final = Path(__file__).parents[1]
PROGRAM: Final = ROOT / "specs/programs/good/customer_refund.yaml"
POLICY: Final = ROOT / "specs/policies/payments.yaml"
WEIGHTS: Final = {"vm/machine": 6, "vm/journal": 2, "vm/language": 1, "vm/expressions": 1, "vm/telemetry": 1}
"""How often a file of a folder is drawn from: about as often as readers have planted mistakes there."""

NOT_PLAYED: Final = ("conformance.py", "upkeep.py", "trials.py", "postgres.py", "postgres_connection.py")
"""Files that a campaign without a server does not come to."""

FIRST: Final = 3
"""Shards of drawn programs that come first: they find most of what can be found."""

PATIENCE: Final = 600
"""Seconds of wall time after which a fork is given up."""


class Verdict(NamedTuple):
    """What became of a mistake: `found`, `survived`, `broke` (no campaign could be played), or `hung`."""

    how: str
    attack: str = ""
    seconds: float = 0.0


def main(arguments: Sequence[str] | None = None) -> None:
    """Put mistakes into the machine, attack each, and say which survive."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutants", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=8.0, help="CPU seconds of attacks on one mistake")
    parser.add_argument("--shards", type=int, default=700, help="shards of the campaign that are played")
    parser.add_argument("--map", type=Path, help="a file that keeps which shards come to which function")
    parser.add_argument("--only", default="", help="files whose path has this text")
    options = parser.parse_args(arguments)
    campaign = Campaign(options.shards)
    reach = campaign.reach(options.map)
    found: dict[str, Counter[str]] = defaultdict(Counter)
    functions = Functions()
    for edit in drawn(Random(options.seed), options.mutants, reach, options.only):
        verdict = played(campaign, functions, edit, reach[edit.file, edit.function], options.seconds)
        found[verdict.how][edit.kind] += 1
        if verdict.how != "found":
            print(f"{verdict.how}: {edit.file}:{edit.line}: {edit.kind}: {edit.text}", flush=True)
    for how, kinds in sorted(found.items()):
        print(f"{kinds.total()} {how}: {', '.join(f'{count} {kind}' for kind, count in kinds.most_common())}")


Reach = dict[tuple[str, str], list[int]]
"""The numbers of the shards that come to a function, by its file and its name with that of its class."""


class Campaign:
    """The first shards of the default campaign, with their targets."""

    def __init__(self, most: int) -> None:
        self.program, self.policies = Program.load(PROGRAM), [Policy.load(POLICY)]
        self.routes = routes(self.program, self.policies, check=partial(check_program, recheck=False))
        target, orders = self._target(), Orders(specimens=True)
        chosen = orders.chosen()
        shards = (list(orders.shards(one, has_hold=one().misses(target) is None)) for one in chosen)
        self.shards: list[Shard] = _in_turns(shards)[:most]

    def _target(self) -> Target:
        return Target(self.program, self.policies, self.routes)

    def play(self, number: int, own: Target | None = None) -> bool:
        """Play a shard, and return whether it was breached."""
        shard = self.shards[number]
        target = specimen_target(shard.specimen) if shard.specimen else own or self._target()
        return run_shard(target, ATTACK_BY_NAME[shard.attack](), shard).found is not None

    def reach(self, kept: Path | None) -> Reach:
        """Return which shards come to each function. They are played for that, unless a file has it."""
        if kept is not None and kept.exists():
            return {tuple(key.split(" ")): value for key, value in json.loads(kept.read_text()).items()}  # type: ignore[misc]
        data = coverage.Coverage(data_file=None, source_pkgs=["stepward.vm"], config_file=False)
        data.start()
        for number in range(len(self.shards)):
            data.switch_context(str(number))
            self.play(number)
        data.stop()
        found: Reach = {}
        for path in data.get_data().measured_files():
            file = str(Path(path).relative_to(ROOT))
            lines = data.get_data().contexts_by_lineno(path)
            for name, body in bodies(ast.parse(Path(path).read_text(encoding="utf-8"))):
                numbers = {int(one) for line in body for one in lines.get(line, ()) if one}
                if numbers:
                    found[file, name] = sorted(numbers)
        if kept is not None:
            kept.write_text(json.dumps({" ".join(key): value for key, value in found.items()}))
        return found


def bodies(tree: ast.Module) -> Iterator[tuple[str, range]]:
    """Yield the name of each function of a file, with that of its class, and the lines of its body."""
    for node in ast.walk(tree):
        inside = node.body if isinstance(node, ast.ClassDef | ast.Module) else []
        prefix = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
        for one in inside:
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
                yield prefix + one.name, range(one.body[0].lineno, (one.end_lineno or one.lineno) + 1)


def drawn(chance: Random, count: int, reach: Reach, only: str) -> Iterator[Edit]:
    """Yield edits of functions that are come to, from each file in its turn."""
    files = {}
    for path in sorted((ROOT / "vm").rglob("*.py")):
        file = str(path.relative_to(ROOT))
        weight = WEIGHTS.get(str(Path(file).parent), 0)
        edits = [one for one in edits_of(ROOT, file) if (file, one.function) in reach]
        if weight and edits and only in file and path.name not in NOT_PLAYED:
            files[file] = (weight * len(edits) ** 0.5, chance.sample(edits, len(edits)))
    for _ in range(min(count, sum(len(edits) for _, edits in files.values()))):
        left = [file for file, (_, edits) in files.items() if edits]
        (file,) = chance.choices(left, [files[one][0] for one in left])
        yield files[file][1].pop()


class Functions:
    """The functions of the machine in this process, by file, name and first line."""

    def __init__(self) -> None:
        for path in (ROOT / "vm").rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            if path.name not in NOT_PLAYED:
                importlib.import_module(".".join(("stepward", *parts)).removesuffix(".__init__"))
        self._found: dict[tuple[str, str, int], list[FunctionType]] = defaultdict(list)
        for one in gc.get_objects():
            if isinstance(one, FunctionType):
                code = one.__code__
                self._found[code.co_filename, code.co_qualname, code.co_firstlineno].append(one)

    def replace(self, edit: Edit) -> bool:
        """Give a function the code of an edit; return whether there is such a function."""
        path = str(ROOT / edit.file)
        whole = compile(edited(ROOT, edit), path, "exec", dont_inherit=True)
        codes = [one for one in _codes(whole) if (one.co_qualname, one.co_firstlineno) == edit.place]
        functions = [one for code in codes for one in self._found[path, code.co_qualname, code.co_firstlineno]]
        fit = [one for one in functions if one.__code__.co_freevars == codes[0].co_freevars]
        for one in fit:
            one.__code__ = codes[0]
        return bool(fit)


def _codes(code: CodeType) -> Iterator[CodeType]:
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield one
            yield from _codes(one)


def played(campaign: Campaign, functions: Functions, edit: Edit, shards: Sequence[int], seconds: float) -> Verdict:
    """Attack the machine with an edit in a fork of this process."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        try:
            said = _attacked(campaign, functions, edit, shards, seconds)
        except BaseException as error:
            said = Verdict("broke", type(error).__name__)
        os.write(writing, json.dumps(said).encode())
        os._exit(0)
    os.close(writing)
    is_there, _, _ = select.select([reading], [], [], PATIENCE)
    text = os.read(reading, 1 << 16) if is_there else b""
    os.close(reading)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return Verdict(*json.loads(text)) if text else Verdict("hung")


def _attacked(campaign: Campaign, functions: Functions, edit: Edit, shards: Sequence[int], seconds: float) -> Verdict:
    if not functions.replace(edit):
        return Verdict("broke", "no such function")
    for thing in vars(specimen_programs).values():
        if hasattr(thing, "cache_clear"):
            thing.cache_clear()
    began = time.process_time()
    of_drawn = [number for number in shards if campaign.shards[number].attack.startswith("drawn")][:FIRST]
    own = campaign._target()
    for number in dict.fromkeys((*of_drawn, *shards)):
        if campaign.play(number, own):
            return Verdict("found", campaign.shards[number].attack, time.process_time() - began)
        if time.process_time() - began > seconds:
            break
    return Verdict("survived", "", time.process_time() - began)


if __name__ == "__main__":
    main()
