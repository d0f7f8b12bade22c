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
        "models, tools and callers send wrong types, references, orders, forged names, and secrets in errors",
        "data from outside stays data, and no policy can be avoided",
        "data from outside can get past a type, a policy or the redaction",
    ),
    Family.REPLAY: FamilyWords(
        "tokens, deliveries, run ids, old journals and old vaults are used again, or several times at once",
        "nothing counts twice, and erased values stay erased",
        "something can count twice, or erased values can come back",
    ),
    Family.HASHES: FamilyWords(
        "journals are edited, cut, swapped and grafted, record by record and byte by byte",
        "`stepward verify` finds every edit of a journal",
        "a journal can be edited, and nobody notices",
    ),
    Family.TRANSITIONS: FamilyWords(
        "transitions in journals are removed, added or reordered, and all digests are recomputed",
        "a run takes only transitions that the program and its guardrails allow",
        "a run can take a transition that the program or a guardrail does not allow",
    ),
    Family.CRASH: FamilyWords(
        "processes die at every point while a run continues, recovers, waits or ends, and disks fail or lose power",
        "after a crash, no effect happens twice or is lost; an effect that may have happened is in doubt",
        "a crash can repeat or lose an effect",
    ),
    Family.TIME: FamilyWords(
        "clocks jump, leases expire, calls time out, callers are cancelled, and several processes work on one run",
        "only one process at a time drives a run, whatever the clocks say",
        "two processes can drive one run, or a late answer can count",
    ),
    Family.LOAD: FamilyWords(
        "values, budgets, visits and retries reach their limits and exceed them, and everything fails at once",
        "budgets and limits hold",
        "a budget or a limit can be exceeded",
    ),
}
