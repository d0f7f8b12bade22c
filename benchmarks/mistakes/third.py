"""Mistakes of another such reader, planted after the campaign had learned to find the second set."""

from __future__ import annotations

from typing import Final

from mistakes.planted import Planted

THIRD: Final = (
    Planted(
        "a renewal always writes the same end of the lease",
        (
            (
                "vm/machine/driver.py",
                """        while True:
            now = setup.clock.now() / 1e6
""",
                """        now = setup.clock.now() / 1e6
        while True:
""",
            ),
        ),
    ),
    Planted(
        "the size of an output is compared in characters",
        (
            (
                "vm/machine/sizes.py",
                "    longest, limits = len(event.text) * MAX_CHARACTER, state.limits\n",
                "    longest, limits = len(event.text), state.limits\n",
            ),
        ),
    ),
    Planted(
        "a repeated read is the same performance",
        (
            (
                "vm/machine/plan.py",
                "        self.keeps_key = spec.idempotent\n",
                "        self.keeps_key = self.is_idempotent\n",
            ),
        ),
    ),
    Planted(
        "a constant first call is not asked of later policies",
        (
            (
                "vm/machine/plan.py",
                "        is_free = not any(terms.policies for terms in plan.terms)\n",
                "        is_free = not plan.policies\n",
            ),
        ),
    ),
    Planted(
        "a write that suspends undeclared is counted as failed",
        (
            (
                "vm/machine/ask.py",
                '        return Result("doubt" if plan.writes else "failed", error=why, name=BAD_OUTPUT)\n',
                '        return Result("failed", error=why, name=BAD_OUTPUT)\n',
            ),
        ),
    ),
    Planted(
        "a token budget is looked at once for a whole wave",
        (
            (
                "vm/machine/calls.py",
                """    if (plan.model_budgets or step.is_in_branch) and step.concurrency is not None:
""",
                """    if step.is_in_branch and step.concurrency is not None:
""",
            ),
        ),
    ),
    Planted(
        "replay takes what is sealed for erased",
        (
            (
                "vm/machine/replay.py",
                "    return any(has_gone(value) for chunk in state.slots for value in chunk)\n",
                "    return any(is_sealed(value) for chunk in state.slots for value in chunk)\n",
            ),
        ),
    ),
    Planted(
        "erased values are read from the vault",
        (
            (
                "vm/journal/sealing.py",
                """        if reference in erased:
            return Sealed(reference, committed, None, is_gone=True)
        secret = secrets.get(reference)
""",
                """        secret = secrets.get(reference)
        if secret is None and reference in erased:
            return Sealed(reference, committed, None, is_gone=True)
""",
            ),
        ),
    ),
    Planted(
        "of many values none is sought in groups",
        (
            (
                "vm/machine/redaction.py",
                "        for text in (*read.unbroken, *read.folded, *read.joined):\n",
                "        for text in (*read.unbroken, *read.folded):\n",
            ),
        ),
    ),
    Planted(
        "a starter without a name may approve",
        (
            (
                "vm/machine/authority.py",
                """    elif not state.by:
        why = f"{asks}, and that is not known"
""",
                "",
            ),
        ),
    ),
    Planted(
        "true is 1 in an enum",
        (
            (
                "vm/language/types.py",
                """    if isinstance(value, bool):
        return (bool, value)
""",
                """    if value is None or isinstance(value, str | int | Decimal):  # as most are
        return value
""",
            ),
        ),
    ),
    Planted(
        "an unsigned receipt is accepted under keys",
        (
            (
                "vm/journal/verify.py",
                """        elif keys and receipt.signer(keys) is None:
            what = "has no signature" if receipt.signature is None else "is signed by none of the given keys"
""",
                """        elif keys and receipt.signature is not None and receipt.signer(keys) is None:
            what = "is signed by none of the given keys"
""",
            ),
        ),
    ),
)
