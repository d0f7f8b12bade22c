"""The waivers of policies: each allows some findings of a rule, for a reason and until a day."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import replace

from stepward.validator.findings import Finding
from stepward.vm.language.meaning import Meaning


def with_waivers(findings: Iterable[Finding], meaning: Meaning, today: datetime.date) -> list[Finding]:
    """Return findings on a program, each with its waiver in the policy, or with a message about an expired one.

    `today` is the day by which waivers are judged.
    """
    return [finding if finding.policy is None else _with_waiver(finding, meaning, today) for finding in findings]


def _with_waiver(finding: Finding, meaning: Meaning, today: datetime.date) -> Finding:
    assert finding.policy is not None, "a waiver is for a finding of a policy"
    name, rule, _ = finding.policy
    expired = ""
    for policy in meaning.policies:
        for waiver in policy.waivers_of(meaning.program.name, rule, finding.code) if policy.policy == name else ():
            if not waiver.is_expired(today):
                return replace(finding, waiver=f"{waiver.reason} (until {waiver.expiry})")
            expired += f" (its waiver expired on {waiver.expiry})"
    return replace(finding, message=finding.message + expired)
