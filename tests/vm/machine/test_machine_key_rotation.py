"""Fast: a machine with a new key goes on with the runs of an old one, which signs nothing that counts any more."""

from __future__ import annotations

from functools import partial

import pytest

from journals import KEY, STRANGER
from machines import Bench, end, program, tool
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.journal.records import read_record, write_record
from stepward.vm.journal.rotation import TRIES, Signed, sign_anew
from stepward.vm.journal.signing import SigningKey, signer_of
from stepward.vm.journal.store import Append, Head, JournalError
from stepward.vm.journal.verify import verify
from stepward.vm.machine.replay import replayer
from stepward.vm.machine.tools import Suspend

NEW = SigningKey.from_seed(bytes([7] * 32))
PROGRAM = program(tool("a", "ask"), tool("b", "again"), end())


def waiting() -> Bench:
    """Return a bench with the old key, on which the run `run` waits for an answer."""
    bench = Bench({"a": Suspend("may I?")}, key=KEY)
    assert bench.run(PROGRAM).status == "SUSPENDED"
    return bench


def test_a_new_key_goes_on_with_what_an_old_one_signed_and_signs_it() -> None:
    old = waiting()
    new = Bench(journal=old.journal, key=NEW, trusted=[KEY.public])
    assert new.resume(new.vm.get_sync("run"), "yes").status == "SUCCESS"
    assert signer_of("run", new.journal.head("run"), [KEY.public, NEW.public]) == NEW.public
    assert verify(new.journal, "run", keys=[NEW.public]).is_intact
    assert verify(new.journal, "run", keys=[KEY.public, NEW.public]).is_intact


def test_a_machine_that_is_not_told_of_the_old_key_refuses_its_runs() -> None:
    old = waiting()
    new = Bench(journal=old.journal, key=NEW, trusted=[STRANGER.public])
    both = f"not signed by one of the keys {NEW.id}, {STRANGER.id}; go on with the key that has signed it"
    with pytest.raises(JournalError, match=both):
        new.vm.get_sync("run")
    alone = Bench(journal=old.journal, key=NEW)
    with pytest.raises(JournalError, match=f"not signed by the key {NEW.id}"):
        alone.vm.cancel_sync("run")


def test_a_machine_with_the_old_key_signs_nothing_behind_the_new_one() -> None:
    old = waiting()
    token = old.vm.get_sync("run").suspensions[0].token
    assert list(sign_anew(old.journal, NEW, [KEY.public])) == [Signed("run", True)]
    before = old.journal.read("run")
    for act in (lambda: old.vm.resume_sync(token, "yes"), lambda: old.vm.cancel_sync("run")):
        with pytest.raises(JournalError, match=f"not signed by the key {KEY.id}"):
            act()
    assert old.journal.read("run") == before


def test_a_record_that_a_stolen_old_key_signs_is_a_fault_once_heads_are_signed_anew() -> None:
    old = waiting()
    list(sign_anew(old.journal, NEW, [KEY.public]))
    last = old.journal.read("run")[-1]
    forged = write_record(last.seq + 1, last.digest, "cancel", "{}", "{}", read_record(last).at + 1)
    signature = KEY.sign_head("run", forged.seq, forged.digest)
    old.journal.append(Append("run", last.seq, [forged], "RUNNING", 1.0, True, signature), None)
    (fault,) = verify(old.journal, "run", keys=[NEW.public]).faults
    assert "is signed by none of the given keys" in fault.what
    with pytest.raises(JournalError, match=f"not signed by the key {NEW.id}"):
        Bench(journal=old.journal, key=NEW).vm.get_sync("run")


def test_signing_anew_leaves_alone_what_is_damaged_foreign_or_signed_already() -> None:
    bench = Bench(key=KEY)
    for name in ("good", "rewritten"):
        bench.run(PROGRAM, name)
    Bench(journal=bench.journal, key=STRANGER).run(PROGRAM, "foreign")
    Bench(journal=bench.journal, key=NEW).run(PROGRAM, "new")
    entries = bench.journal._runs["rewritten"].entries
    entries[1] = entries[1]._replace(record=entries[1].record.replace(b'"visit":1', b'"visit":2'))
    found = {one.run: one for one in sign_anew(bench.journal, NEW, [KEY.public], partial(replayer, bench.journal))}
    assert (found["good"].is_new, found["good"].faults) == (True, ())
    assert (found["new"].is_new, found["new"].faults) == (False, ())
    assert "is signed by none of the given keys" in found["foreign"].faults[0].what
    assert found["rewritten"].faults[0].what == "record 1 was changed: its stored digest does not match"
    signers = {name: signer_of(name, bench.journal.head(name), [KEY.public, NEW.public]) for name in found}
    assert signers == {"good": NEW.public, "new": NEW.public, "foreign": None, "rewritten": KEY.public}


class Hurried(MemoryJournal):
    """A store in which a machine with the old key appends before each signature comes."""

    left = 0

    def sign(self, head: Head) -> bool:
        if self.left:
            self.left -= 1
            return False
        return super().sign(head)


@pytest.mark.parametrize(("times", "is_new"), [(1, True), (TRIES - 1, True), (TRIES, False)])
def test_a_head_that_changes_meanwhile_is_verified_and_signed_again(times: int, is_new: bool) -> None:
    store = Hurried()
    Bench(journal=store, key=KEY).run(PROGRAM)
    store.left = times
    (found,) = sign_anew(store, NEW, [KEY.public])
    assert found.is_new is is_new
    assert bool(found.faults) is not is_new
