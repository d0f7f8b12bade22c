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

`stepward sabotage` attacks the machine. This page lists the attackers, the limits of the promise, the invariants that
must hold during every attack, and all attacks. The page is generated from the attacks (`make docs`). Each attack is a
small class in `sabotage/attacks`. It attacks the same machine that `stepward run` uses, and it can succeed. For each
attack, the tests have a machine without the defence, on which the attack must break an invariant.

## The attackers

An attacker can do one of the following, and nothing else:

- control the replies of a model, the outputs of a tool, the deliveries of a person or the requests of a caller;
- write the program without a check, but not the policy;
- read and write the store, without the signing key;
- kill the process, fill the disk, cut the power, or stop and set the clock;
- run a second machine on the same store.

## What is out of scope

- **The signing key and the machine itself.** An attacker who has the key, or who changes the code or the memory of the
  machine, can write valid records.
- **A complete rewrite.** If nobody has a key or a receipt, an attacker can replace the journal of a run by another one
  that the program admits. Nothing in the store then shows the change. If nobody has a receipt, an attacker can also
  restore an older copy of the whole store.
- **A tool that lies.** For example, it raises an exception although it did its work, or it returns although it did not.
  *Failed* means that *nothing happened*.
- **A process that is paused inside a tool.** Its lease may expire before it continues. Then the fencing number stops
  the next effect and every record, but not the call in progress.
- **Copies outside the store.** An erasure covers the files of the store. It does not cover values that a tool, a model
  or a person has received, and not blocks, snapshots and backups of the file system.
- **Reading the vault.** The file of the vault is not encrypted.
- **A crash before the run exists.** A process may die after it stored the sensitive inputs of a run in the vault, and
  before it created the run. Then these inputs stay there until a run with that id is started and erased. So give ids to
  runs with sensitive inputs.
- **Denial of service** by an attacker who can write the store or can kill the process again and again.
"""


def page() -> str:
    """Return the page as Markdown."""
    return "\n".join([_INTRODUCTION, *_invariants(), *_outcomes(), *_attacks()]) + "\n"


def _invariants() -> Iterator[str]:
    yield "## The invariants\n"
    yield "| invariant | what it says | attacks that aim at it |"
    yield "|---|---|---|"
    for invariant in Invariant:
        aimed = ", ".join(f"`{attack.name}`" for attack in ATTACKS if attack.invariant is invariant)
        yield f"| {invariant.key} | {invariant.value} | {aimed} |"
    yield ""
    yield (
        "The oracle checks all invariants at every event of every attack on a program, whatever the attack aims at. An "
        "attack on what it makes itself checks its own.\n"
    )


def _outcomes() -> Iterator[str]:
    meanings = {
        Outcome.BLOCKED: "the machine refused the attack before an effect happened",
        Outcome.DETECTED: "the store was changed, and the machine or a verification reported it",
        Outcome.ABSORBED: "the run went as it would without the attack",
        Outcome.BREACHED: "an invariant was broken: do not release",
        Outcome.UNCONFIRMED: "an invariant was broken once, and a new process could not repeat it",
        Outcome.NOT_APPLICABLE: "the attack does not apply to the run of this case",
        Outcome.NOT_RUN: "no case of the attack started, so there is no result for the machine",
    }
    yield "## The outcomes of an attack\n"
    yield from (f"- *{str(outcome).replace('_', ' ')}*: {words}" for outcome, words in meanings.items())
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
    if attack.draws:
        lines.append("- attacks what it makes itself: programs, stores or files, and not your program")
    if attack.enumerates:
        lines.append(f"- enumerated, not sampled: {attack.enumerates}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(page(), end="")
