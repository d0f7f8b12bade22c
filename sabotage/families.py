"""Texts on each family of attacks: what it tries, and what a release can or can't count on."""

from __future__ import annotations

from typing import Final, NamedTuple

from stepward.sabotage.attack import Family


class FamilyWords(NamedTuple):
    """What the attacker does (`tried`), what a release can count on (`held`) or can't count on (`broken`)."""

    tried: str
    held: str
    broken: str


WORDS: Final[dict[Family, FamilyWords]] = {
    Family.INJECTION: FamilyWords(
        "models, tools and callers give values of other types, references, orders, forged names and secrets in errors",
        "data from outside stays data, and no policy is passed by",
        "what comes from outside can get past a type, a policy or the redaction",
    ),
    Family.REPLAY: FamilyWords(
        "tokens, deliveries, run ids, old journals and old vaults are used again, or at once",
        "nothing counts twice, and what was erased stays erased",
        "something can count twice, or come back",
    ),
    Family.HASHES: FamilyWords(
        "journals are edited, cut, swapped and grafted, record by record and byte by byte",
        "`stepward verify` finds every edit of a journal",
        "a journal can be edited, and nobody notices",
    ),
    Family.TRANSITIONS: FamilyWords(
        "journals leave out, add or reorder transitions, with all digests computed again",
        "a run goes only where the program and its guardrails allow",
        "a run can be led where the program or a guardrail does not allow",
    ),
    Family.CRASH: FamilyWords(
        "processes die at every point, while a run goes on, recovers, waits or ends, and disks fail or lose power",
        "after a crash no effect is doubled or lost; one that may have happened is in doubt",
        "a crash can double or lose an effect",
    ),
    Family.TIME: FamilyWords(
        "clocks jump, leases expire, time-outs strike, callers are cancelled, and several processes work on one run",
        "one process at a time drives a run, whatever the clocks say",
        "two processes can drive one run, or a late answer can count",
    ),
    Family.LOAD: FamilyWords(
        "values, budgets, visits and retries go to their limits and beyond, and everything fails at once",
        "budgets and limits hold",
        "a budget or a limit can be passed",
    ),
}
