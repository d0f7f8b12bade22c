"""The mistakes that were named before the attacks were extended for them."""

from __future__ import annotations

from typing import Final

from mistakes.planted import Planted

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
                "            is_held = bool(calls)\n",
                "            is_held = False\n",
            ),
        ),
    ),
    Planted(
        "an unsigned record is accepted under a key",
        (
            (
                "vm/machine/history.py",
                "if keys and signer_of",
                "if keys and head.signature is not None and signer_of",
            ),
        ),
    ),
    Planted("the vault is not rewritten on erasure", (("vm/journal/sqlite_vault.py", "        file.rewrite()\n", ""),)),
    Planted(
        "a request is redacted only at the top",
        (
            (
                "vm/machine/known.py",
                "return FrozenMap((self.redacted(key, event), item) for key, item in items)",
                "return value",
            ),
        ),
    ),
    Planted(
        "`never` lets a step start where its condition fails",
        (
            (
                "vm/machine/monitors.py",
                """        except EvaluationError as error:
            return f"`{self.when}` can't be evaluated: {error}"
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
        (("vm/machine/sizes.py", "    if size > limit:", "    if size > limit + 1:"),),
    ),
    Planted(
        "a call starts after a cancellation",
        (
            (DRIVER, "(state.is_cancelled or self.stops() or", "(self.stops() or"),
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
                "self._stale.get(left.position, ())",
                "()",
            ),
        ),
    ),
    Planted(
        "a lease is taken two seconds early",
        (
            ("vm/journal/memory.py", "stored.expires > now:", "stored.expires > now + 2:"),
            ("vm/journal/sqlite.py", "CAST(expires AS REAL) <= ?)", "CAST(expires AS REAL) <= ? + 2)"),
        ),
    ),
    Planted(
        "a replay believes the types of deliveries",
        (
            (
                "vm/machine/replay.py",
                "return _delivery_misfit(plan, state, event) or _output_misfit(plan, state, event)\n",
                "return _delivery_misfit(plan, state, event)\n",
            ),
        ),
    ),
)
