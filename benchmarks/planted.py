"""Whether a campaign finds mistakes that a person planted in the machine: each is one edit, attacked by itself.

`python benchmarks/planted.py`. The campaign is the default one on `customer_refund` with specimens; it stops at the
first breach. A mistake counts as found when a fresh process repeats the breach. CPU seconds are those of the campaign
up to there.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
PROGRAM: Final = ROOT / "specs/programs/good/customer_refund.yaml"
SECONDS: Final = 600


class Planted(NamedTuple):
    """A mistake: its name, and the edits that make it, each a file, the text that it has, and the text that it gets."""

    name: str
    edits: tuple[tuple[str, str, str], ...]


DRIVER: Final = "vm/machine/driver.py"

PLANTED: Final = (
    Planted(
        "a lease is good one second too long",
        (
            (DRIVER, "if started / 1e6 >= self.lease.expires:", "if started / 1e6 >= self.lease.expires + 1:"),
            (DRIVER, "if now / 1e6 < self.lease.expires:", "if now / 1e6 < self.lease.expires + 1:"),
        ),
    ),
    Planted(
        "a lease is given back while a cancelled caller's tool runs",
        (
            (
                "vm/machine/runs.py",
                "            keeps = bool(left)\n",
                "            keeps = False\n",
            ),
        ),
    ),
    Planted(
        "an unsigned record is accepted under a key",
        (
            (
                "vm/machine/history.py",
                "if key is not None and signer_of",
                "if key is not None and head.signature is not None and signer_of",
            ),
        ),
    ),
    Planted("the vault is not rewritten on erasure", (("vm/journal/sqlite_vault.py", "        file.rewrite()\n", ""),)),
    Planted(
        "a request is redacted only at the top",
        (
            (
                DRIVER,
                "            return FrozenMap((self.redacted(key), self._redacted_value(item)) for key, item in value.items())\n",
                "            return value\n",
            ),
        ),
    ),
    Planted(
        "`never` lets a step start where its condition fails",
        (
            (
                "vm/machine/monitors.py",
                """        except EvaluationError as error:
            return f"`{self.text}` can't be evaluated: {error}"
""",
                """        except EvaluationError:
            return None
""",
            ),
        ),
    ),
    Planted(
        "a write that timed out counts as failed",
        (("vm/machine/ask.py", 'return Result("timeout", error=f"', 'return Result("failed", error=f"'),),
    ),
    Planted(
        "a limit of size is off by one",
        (("vm/machine/calls.py", "    if size > most:", "    if size > most + 1:"),),
    ),
    Planted(
        "a call starts after a cancellation",
        (
            (DRIVER, "        if self.state.is_cancelled and not call.is_started:\n            return\n", ""),
            (
                DRIVER,
                "            if self.state.is_cancelled and not self._is_open(call):\n                return\n",
                "",
            ),
        ),
    ),
    Planted(
        "staleness is ignored",
        (
            (
                "vm/machine/monitors.py",
                "return STALE if before == FRESH and left.position in self.stale_by[number] else before",
                "return before",
            ),
        ),
    ),
    Planted(
        "a lease is taken two seconds early",
        (
            ("vm/journal/memory.py", "kept.expires > now:", "kept.expires > now + 2:"),
            ("vm/journal/sqlite.py", "CAST(expires AS REAL) <= ?)", "CAST(expires AS REAL) <= ? + 2)"),
        ),
    ),
    Planted(
        "a replay believes the types of deliveries",
        (
            (
                "vm/machine/replay.py",
                "return _delivery_misfit(plan, state, happened) or _output_misfit(plan, state, happened)\n",
                "return _delivery_misfit(plan, state, happened)\n",
            ),
        ),
    ),
)


class Verdict(NamedTuple):
    """What became of one mistake: the breach that found it, or nothing; and the CPU seconds until then."""

    name: str
    breach: str
    seconds: float


def main(arguments: Sequence[str] | None = None) -> None:
    """Attack a machine with each mistake, and print which are found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="mistakes whose names have this text")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.child:
        print(_attacked(options.seed))
        return
    verdicts = [tried(planted, options.seed) for planted in PLANTED if options.only in planted.name]
    for verdict in verdicts:
        print(f"{verdict.seconds:7.1f} s  {verdict.name}: {verdict.breach or 'NOT FOUND'}")
    print(f"{sum(bool(verdict.breach) for verdict in verdicts)} of {len(verdicts)} are found")


def tried(planted: Planted, seed: int) -> Verdict:
    """Attack a copy of the package with a mistake in it."""
    with tempfile.TemporaryDirectory() as folder:
        plant(planted, Path(folder, "stepward"))
        environment = {**os.environ, "PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"}
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, __file__, "--child", "--seed", str(seed)]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False, cwd=folder
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        raise RuntimeError(f"the campaign on `{planted.name}` broke: {done.stderr[-2000:]}")
    return Verdict(planted.name, lines[-1] if lines[-1] != "none" else "", seconds)


def plant(planted: Planted, folder: Path) -> None:
    """Copy the package into a folder, and make the edits there; raises ValueError for a text that is not there once."""
    for package in ("vm", "sabotage", "validator"):
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    for file, old, new in planted.edits:
        path = folder / file
        text = path.read_text(encoding="utf-8")
        if text.count(old) != 1:
            raise ValueError(f"`{planted.name}`: `{file}` has the text {text.count(old)} times: {old!r}")
        path.write_text(text.replace(old, new), encoding="utf-8")


def _attacked(seed: int) -> str:
    """Play the default campaign until a breach is confirmed; return what was found, or `none`."""
    from stepward.sabotage.campaign import Orders, attack_program
    from stepward.validator.routes import routes
    from stepward.vm import Program

    program = Program.load(PROGRAM)
    orders = Orders(seed=seed, specimens=True, stops=True)
    matrix = attack_program(program, orders=orders, routes=routes(program))
    found = [f"{row.attack.name}: {row.breach.what}" for row in matrix.rows if row.breach is not None]
    return found[0] if found else "none"


if __name__ == "__main__":
    main()
