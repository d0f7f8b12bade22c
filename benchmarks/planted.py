"""Whether a campaign finds mistakes that a person planted in the machine: each is one edit, attacked by itself.

`python benchmarks/planted.py`. The campaign is the default one on `customer_refund` with specimens; it stops at the
first breach. A mistake counts as found when a fresh process repeats the breach. CPU seconds are those of the campaign
up to there. `--patches FOLDER` plants the unified diffs of a folder instead, each by itself.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from mistakes import SETS, Planted

if TYPE_CHECKING:
    from stepward.sabotage.campaigns.shard import Shard

ROOT: Final = Path(__file__).parents[1]
PROGRAM: Final = ROOT / "specs/programs/good/customer_refund.yaml"
POLICY: Final = ROOT / "specs/policies/payments.yaml"
WITHIN: Final = 120
"""Seconds of CPU within which a mistake should be found."""

LIMIT: Final = 180
"""Seconds of CPU after which a campaign is stopped, and has found nothing."""


class Mistake(NamedTuple):
    """A mistake to plant: its name, and what makes it in a copy of the package, which stands in a folder.

    `plant` raises ValueError where it does not fit the code.
    """

    name: str
    plant: Callable[[Path], None]


class Verdict(NamedTuple):
    """What became of one mistake: the breach that found it, or nothing; and the CPU seconds until then."""

    name: str
    breach: str
    seconds: float


def main(arguments: Sequence[str] | None = None) -> None:
    """Attack a machine with each mistake, and print which are found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="mistakes whose names have this text")
    parser.add_argument("--set", default="all", choices=["all", *SETS], help="which of the sets")
    parser.add_argument("--patches", type=Path, metavar="FOLDER", help="plant the diffs `*.patch` of this folder")
    parser.add_argument("--attacks", default="", help="only these attacks, with commas between them")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.child:
        print(_attacked(options.seed, options.attacks))
        return
    found = patches(options.patches) if options.patches else edits(options.set)
    mistakes = [mistake for mistake in found if options.only in mistake.name]
    for mistake in mistakes:
        with tempfile.TemporaryDirectory() as folder:
            planted(mistake, Path(folder, "stepward"))
    verdicts = []
    for mistake in mistakes:
        verdicts.append(tried(mistake, options.seed, options.attacks))
        name, breach, seconds = verdicts[-1]
        print(f"{seconds:7.1f} s  {name}: {breach or 'NOT FOUND'}", flush=True)
    breaches = [verdict for verdict in verdicts if verdict.breach]
    in_time = sum(verdict.seconds <= WITHIN for verdict in breaches)
    print(f"{len(breaches)} of {len(verdicts)} are found, {in_time} within {WITHIN} s of CPU")


def tried(mistake: Mistake, seed: int, attacks: str = "") -> Verdict:
    """Attack a copy of the package with a mistake in it."""
    with tempfile.TemporaryDirectory() as folder:
        planted(mistake, Path(folder, "stepward"))
        environment = {**os.environ, "PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"}
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, __file__, "--child", "--seed", str(seed), "--attacks", attacks]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=folder)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    lines = ["none"] if done.returncode == -signal.SIGXCPU else done.stdout.strip().splitlines()
    if not lines or done.returncode not in (0, -signal.SIGXCPU):
        raise RuntimeError(f"the campaign on `{mistake.name}` broke: {done.stderr[-2000:]}")
    return Verdict(mistake.name, lines[-1] if lines[-1] != "none" else "", seconds)


def planted(mistake: Mistake, folder: Path) -> None:
    """Copy the package into a folder, and make a mistake there."""
    for package in ("vm", "sabotage", "validator"):
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    mistake.plant(folder)


def edits(name: str = "all") -> Iterator[Mistake]:
    """Yield the mistakes of one set, or of all, that are edits of texts."""
    for planned in (one for key, members in SETS.items() if name in (key, "all") for one in members):
        yield Mistake(planned.name, lambda folder, planned=planned: _edit(planned, folder))


def _edit(planned: Planted, folder: Path) -> None:
    for file, old, new in planned.edits:
        path = folder / file
        text = path.read_text(encoding="utf-8")
        if text.count(old) != 1:
            raise ValueError(f"`{planned.name}`: `{file}` has the text {text.count(old)} times: {old!r}")
        path.write_text(text.replace(old, new), encoding="utf-8")


def patches(folder: Path) -> Iterator[Mistake]:
    """Yield the mistakes that are unified diffs in a folder; `patch` applies them."""
    for path in sorted(folder.resolve().glob("*.patch")):
        yield Mistake(path.stem, lambda package, path=path: _patch(path, package))


def _patch(path: Path, package: Path) -> None:
    command = ["patch", "--strip=1", "--batch", "--silent", "--directory", str(package)]
    done = subprocess.run([*command, f"--input={path}"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(f"`{path.name}` does not fit: {done.stdout}{done.stderr}")


def _attacked(seed: int, attacks: str) -> str:
    """Play the default campaign until a breach is confirmed; return what was found, or `none`."""
    from stepward.sabotage.campaign import Orders, attack_program
    from stepward.validator import check_program
    from stepward.validator.routes import routes
    from stepward.vm import Policy, Program

    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT + 1))
    program, policies = Program.load(PROGRAM), [Policy.load(POLICY)]
    orders = Orders(seed=seed, attacks=tuple(filter(None, attacks.split(","))), specimens=True, stops=True)
    played: list[Shard] = []
    known = routes(program, policies, check=partial(check_program, recheck=False))
    matrix = attack_program(program, policies, orders, routes=known, progress=lambda shard, *_: played.append(shard))
    found = [f"{row.attack.name}: {row.breach.what}" for row in matrix.rows if row.breach is not None]
    if not found:
        return "none"
    on = f"specimen {played[-1].specimen}" if played[-1].specimen else PROGRAM.stem
    return f"{found[0]} (on {on}, round {played[-1].number + 1})"


if __name__ == "__main__":
    main()
