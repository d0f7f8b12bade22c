"""Which writes the runs before a continuation have started: none of them is repeated."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from hashlib import sha256
from typing import Any

from stepward.vm.journal.canonical import canonical, opened, portable
from stepward.vm.language.policy import Policy


def digest_of_arguments(args: Mapping[str, Any], without: Collection[str] = ()) -> str:
    """Return the digest of the arguments of a call, but for some; raises ErasedError if a value was erased."""
    shown = {name: opened(value) for name, value in args.items() if name not in without}
    return sha256(canonical(portable(shown)).encode()).hexdigest()


def repeated(policies: Iterable[Policy], tool: str, args: Any) -> str | None:
    """Return why a call must not start that repeats a write of the runs before, or None; raises ErasedError.

    Sensitive arguments are not compared: two calls that differ in nothing else count as the same.
    """
    arguments = args if isinstance(args, dict) else {}
    for policy in policies:
        for one in policy.performed:
            if one.tool == tool and digest_of_arguments(arguments, one.without) == one.args:
                return f"a run before this one, from `{policy.continues}` on, has called tool `{tool}` in this way"
    return None
