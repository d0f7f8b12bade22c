"""Mistakes in the machine that a campaign has to find, each as edits of the package; `planted.py` plants them.

`FIRST` are those that were named before the attacks were extended for them.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Planted(NamedTuple):
    """A mistake: its name, and the edits that make it, each a file, the text that it has, and the text that it gets."""

    name: str
    edits: tuple[tuple[str, str, str], ...]


DRIVER: Final = "vm/machine/driver.py"

FIRST: Final = (
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

SETS: Final = {"first": FIRST}
"""The sets by name."""
