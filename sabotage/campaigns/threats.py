"""The generator of the threat model, from the attacks: `python -m stepward.sabotage.campaigns.threats >
specs/threat-model.md`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Final

from stepward.sabotage.attack import Attack, Family
from stepward.sabotage.invariants import Invariant, Outcome
from stepward.sabotage.registry import ATTACKS

_INTRODUCTION: Final = """# The threat model

What `stepward sabotage` does to the machine, what has to hold all the while, and what nobody promises. This page is
written from the attacks (`make docs`): each of them is a small class in `sabotage/attacks`, drives the machine that
`stepward run` drives, and can win; for each the tests have a machine without the defence, and the attack breaches it.

## Who attacks

Whoever can do one of these, and nothing else:

- write what a model replies, what a tool returns, what somebody delivers, what a caller asks;
- write the program, past the checker, but not the policy;
- read and write the store, without the signing key;
- kill the process, fill the disk, cut the power, stop and set the clock;
- run a second machine on the same store.

## What is out of scope

- An attacker with the signing key, or one who changes the machine's code or memory: what they write is the machine's
  word.
- A journal that is rewritten whole, where nobody has a key or a receipt, into another run that the program admits:
  nothing in the store is left that could tell. The same holds for a store that is set back to an older copy of itself,
  where nobody has a receipt.
- A tool that lies: one that raises and has done it, or returns and has not. *Failed* means *did not happen*.
- A process that is stopped inside a tool, past its lease, and goes on there: a fence holds the next effect and every
  record, not the call that is under way.
- Values that a tool, a model or a person has been given: erasing reaches the files of the store, not them, and not the
  blocks, snapshots and backups that a file system keeps.
- Who reads the vault's file: it is not encrypted.
- A process that dies once the sensitive inputs of a run are in the vault, and before the run is made: they stay there
  until a run of that id is started and erased. So give ids to runs with sensitive inputs.
- Denial of service by whoever can write the store or kill the process again and again.
"""


def page() -> str:
    """Return the page as Markdown."""
    return "\n".join([_INTRODUCTION, *_invariants(), *_outcomes(), *_attacks()]) + "\n"


def _invariants() -> Iterator[str]:
    yield "## What has to hold\n"
    yield "| invariant | what it says | attacks that aim at it |"
    yield "|---|---|---|"
    for invariant in Invariant:
        aimed = ", ".join(f"`{attack.name}`" for attack in ATTACKS if attack.invariant is invariant)
        yield f"| {invariant.key} | {invariant.value} | {aimed} |"
    yield ""
    yield "The oracle holds all of them against every event of every attack, whatever the attack aims at.\n"


def _outcomes() -> Iterator[str]:
    said = {
        Outcome.BLOCKED: "the machine refused it, before an effect",
        Outcome.DETECTED: "it happened to the store, and the machine or a verification said so",
        Outcome.ABSORBED: "all went as it goes without an attack",
        Outcome.BREACHED: "an invariant was broken: the release is off",
        Outcome.UNCONFIRMED: "an invariant was broken once, and a fresh process could not repeat it",
        Outcome.NOT_APPLICABLE: "the run of this case gave the attack no hold",
        Outcome.NOT_RUN: "no case of the attack began, so it says nothing about the machine",
    }
    yield "## What becomes of an attack\n"
    yield from (f"- *{str(outcome).replace('_', ' ')}*: {words}" for outcome, words in said.items())
    yield ""


def _attacks() -> Iterator[str]:
    yield f"## The {len(ATTACKS)} attacks\n"
    for family in Family:
        members = [attack for attack in ATTACKS if attack.family is family]
        if members:
            yield f"### {str(family).capitalize()}\n"
            yield from (_section(attack) for attack in members)


def _section(attack: type[Attack]) -> str:
    lines = [
        f"#### {attack.name}\n",
        inspect.cleandoc(attack.__doc__ or "") + "\n",
        f"- surface: {attack.surface}",
        f"- action: {attack.action}",
        f"- aims at: *{attack.invariant.key}*, {attack.invariant.value}",
        f"- defence: {attack.defence}",
        f"- a breach is: {attack.severity}",
    ]
    if attack.enumerates:
        lines.append(f"- enumerated, not sampled: {attack.enumerates}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(page(), end="")
