"""The check before the first run of a program on a machine: its checker must find no errors."""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol

from stepward.vm.arguments import TEXT, require_each, shown_type
from stepward.vm.errors import NoCheckerWarning
from stepward.vm.language.policy import Policy
from stepward.vm.language.program import Program
from stepward.vm.machine.plan import Plan
from stepward.vm.machine.refusals import RunRefused
from stepward.vm.machine.runs import INLINE

MAX_VERDICTS: Final = 1_024
"""Maximal number of cached verdicts of a machine; the oldest is dropped first."""


class Finding(Protocol):
    """A finding of a checker, as far as the machine needs it."""

    @property
    def code(self) -> str:
        """The code of its rule."""
        ...

    @property
    def message(self) -> str:
        """What is wrong."""
        ...

    @property
    def severity(self) -> str:
        """`error` or `warning`."""
        ...


Checker = Callable[[Program, Sequence[Policy]], Iterable[Finding]]

_Key = tuple[str, tuple[str, ...], frozenset[str]]


def unnamed(program: Program, policies: Sequence[Policy]) -> Iterable[Finding]:
    """Find nothing: the default checker, if the `checker` argument is left out."""
    del program, policies
    return ()


class Admission:
    """Asks `checker` about each program once, and caches its verdict; the checker None accepts every program.

    A verdict is cached by the digests of a program and of the policies that apply to it, and by the rules that are
    waived on that day. In an event loop, the checker works in a thread, one program at a time, so that the other runs
    of the loop go on.
    """

    def __init__(self, checker: Checker | None) -> None:
        self._checker = checker
        self._verdicts: dict[_Key, tuple[Finding, ...]] = {}
        self._lock = threading.Lock()
        self._thread = ThreadPoolExecutor(1, "stepward-checker")  # it starts when it is first needed

    @property
    def asks(self) -> bool:
        """Whether there is a checker."""
        return self._checker is not None

    async def require(self, plan: Plan, policies: Sequence[Policy], accept: Collection[str]) -> None:
        """Raise RunRefused for a program with an error whose code is not in `accept`."""
        require_each(TEXT, accept=accept)
        errors = await self.errors(plan, policies) if self.asks else ()
        found = [finding for finding in errors if finding.code not in accept]
        if found:
            more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
            codes = ", ".join(sorted({finding.code for finding in found}))
            raise RunRefused(
                f"{found[0].code}: {found[0].message}{more}; correct the program, or accept {codes} by name"
            )

    async def errors(self, plan: Plan, policies: Sequence[Policy]) -> tuple[Finding, ...]:
        """Return the errors that the checker finds in a program under policies."""
        if self._checker is None:
            return ()
        key = (plan.digest, plan.policy_digests, plan.waived)
        errors = self._verdicts.get(key)
        if errors is None and INLINE.get():
            errors = self._errors_of(self._checker, key, plan, policies)
        elif errors is None:
            loop = asyncio.get_running_loop()
            errors = await loop.run_in_executor(self._thread, self._errors_of, self._checker, key, plan, policies)
        return errors

    def _errors_of(self, checker: Checker, key: _Key, plan: Plan, policies: Sequence[Policy]) -> tuple[Finding, ...]:
        """Return the errors that the checker finds in a program, cached."""
        with self._lock:
            if key not in self._verdicts:
                found = checker(plan.program, policies)
                if not isinstance(found, Iterable):
                    raise TypeError(f"`checker` must return findings, as `check_program` does, not {shown_type(found)}")
                errors = tuple(one for one in found if str(one.severity) == "error")
                while len(self._verdicts) >= MAX_VERDICTS:
                    del self._verdicts[next(iter(self._verdicts))]
                self._verdicts[key] = errors
            return self._verdicts[key]


def warn_of_no_checker(stacklevel: int) -> None:
    """Warn at the line that makes a machine without a `checker` argument; `stacklevel` is as in `warnings.warn`."""
    warnings.warn(
        "this machine also runs programs with errors that `stepward check` finds: give it `checker=check_program` "
        "(`from stepward.validator import check_program`), or `checker=None` if that is meant",
        NoCheckerWarning,
        stacklevel=stacklevel + 1,
    )
