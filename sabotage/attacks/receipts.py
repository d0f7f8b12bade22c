"""Hash corruption: a whole store is verified with receipts, after runs were cut, edited or removed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any, Final

from stepward.sabotage.attack import Attack, Family
from stepward.sabotage.attacks.tampering import receipt_for
from stepward.sabotage.invariants import Breach, Invariant, Outcome
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.trial import Trial
from stepward.sabotage.stores.forging import flipped
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.journal.receipts import Receipt, ReceiptRefused
from stepward.vm.journal.signing import SigningKey
from stepward.vm.journal.store import JournalError
from stepward.vm.journal.verify import verify_all
from stepward.vm.machine.replay import replayer

MOST_STOPS: Final = 4
"""The largest number of deliveries to a run whose receipts are collected."""


class StoreAudited(Attack):
    """A whole store of runs is verified, with one receipt or several for some of them. Runs are cut, edited and
    removed, one receipt of a run is edited, and the text of a receipt is changed."""

    family = Family.HASHES
    surface = "store of many runs"
    action = "runs cut, edited or removed"
    invariant = Invariant.TAMPERING
    defence = (
        "every run is verified, and every receipt is compared with the run that it names, even if this run is missing"
    )
    severity = "high"
    weight = 2

    def play(self, case: Case) -> Outcome:
        """Verify all, and check which runs are reported as damaged."""
        from hypothesis import strategies as st

        deeds = case.pick("runs are", st.lists(st.sampled_from(_DEEDS), min_size=1, max_size=4))
        with_key = case.pick("with the key", st.booleans())
        store = MemoryJournal()
        receipts: list[Receipt] = []
        due: dict[str, bool] = {}
        pruned: list[str] = []
        for number, deed in enumerate(deeds):
            trial = Trial(case, f"run {number}", faults=False, store=store)
            own = self._receipts(trial)
            run = trial.reload()
            _hold_text(case, own[-1])
            case.log(f"run {number}: {deed}")
            due[run.id] = self._forge(trial, store, deed, with_key=with_key)
            if deed in _FORGED:
                one = case.pick(f"receipt of run {number} that is edited", st.integers(0, len(own) - 1))
                own[one] = _FORGED[deed](own[one], case.key if with_key else None)
            if run.id not in store._runs:
                pruned.append(run.id)
            if not deed.endswith("without a receipt"):
                receipts += own
        Random(len(receipts)).shuffle(receipts)
        self._audit(case, store, receipts, due, pruned, keys=[case.key] if with_key else [])
        return Outcome.DETECTED if not all(due.values()) else Outcome.ABSORBED

    def _receipts(self, trial: Trial) -> list[Receipt]:
        """Play a run, and return the receipts that somebody was given at its first stops and at its end."""
        run = trial.start()
        receipts = [receipt_for(run, trial.case.key)]
        for _ in range(MOST_STOPS):
            if run.is_over:
                break
            run = trial.deliver(run, trial.machine())
            receipts.append(receipt_for(run, trial.case.key))
        return receipts

    def _forge(self, trial: Trial, store: MemoryJournal, deed: str, *, with_key: bool) -> bool:
        """Do a deed to a run. Return whether it must still be sound."""
        stored = store._runs[trial.run]
        if deed in _FORGED:
            return False
        if deed.startswith("left"):
            return True
        if deed.startswith("taken away"):
            del store._runs[trial.run]
            return deed.endswith("without a receipt")
        if deed.startswith("cut"):
            del stored.entries[-1]
            return not with_key and deed.endswith("without a receipt") and bool(stored.entries)
        stored.entries[0] = stored.entries[0]._replace(record=flipped(stored.entries[0].record, 9))
        return False

    def _audit(
        self,
        case: Case,
        store: MemoryJournal,
        receipts: list[Receipt],
        due: dict[str, bool],
        pruned: list[str],
        *,
        keys: list[SigningKey],
    ) -> None:
        case.count()
        public = [key.public for key in keys]
        found = {
            verdict.run: verdict
            for verdict in verify_all(
                store, keys=public, receipts=receipts, replay=lambda run, own: replayer(store, run, own)
            )
        }
        named = [run for run in due if run not in pruned]
        by_receipt = list(dict.fromkeys(receipt.run for receipt in receipts if receipt.run in pruned))
        case.hold(list(found) == [*named, *by_receipt], self.invariant, f"the runs that are verified are {list(found)}")
        for run, verdict in found.items():
            what = f"a run that is {'in order' if due[run] else 'damaged'} is told of {verdict.faults[:1]}"
            case.hold(verdict.is_intact == due[run], self.invariant, what)


def _signed_again(receipt: Receipt, key: SigningKey | None, **fields: Any) -> Receipt:
    """Return a receipt with other fields: signed for those by the right key, or by nobody."""
    changed = replace(receipt, **fields)
    return Receipt.give(changed.run, changed.seq, changed.digest, changed.status, changed.trace, key)


_FORGED: Final[dict[str, Callable[[Receipt, SigningKey | None], Receipt]]] = {
    "left, and a receipt has another status": lambda one, key: _signed_again(one, key, status=f"{one.status}?"),
    "left, and a receipt has another trace": lambda one, key: _signed_again(one, key, trace=flipped(one.trace, 3)),
    "left, and a receipt has another digest": lambda one, key: _signed_again(one, key, digest=flipped(one.digest, 7)),
    "left, and a receipt is for a later record": lambda one, key: _signed_again(one, key, seq=one.seq + 1),
}
"""What is edited in one of the receipts of a run, by its deed."""

_DEEDS: Final = (
    *_FORGED,
    "left as it is",
    "left as it is, without a receipt",
    "cut",
    "cut, without a receipt",
    "edited",
    "edited, without a receipt",
    "taken away",
    "taken away, without a receipt",
)


def _hold_text(case: Case, receipt: Receipt) -> None:
    """Check that a receipt is restored from its text, and that no other text is accepted."""
    text = receipt.to_json()
    case.hold(Receipt.from_json(text) == receipt, Invariant.TAMPERING, "a receipt is read as another one")
    data = json.loads(text)
    spread = json.dumps(dict(reversed(data.items())), indent=1)
    case.hold(Receipt.from_json(spread) == receipt, Invariant.TAMPERING, "spaces in a receipt matter")
    for name, values in _NO_RECEIPTS.items():
        for value in values:
            _refused(case, json.dumps({**data, name: value}), f"`{name}` is {value!r}")
        _refused(case, json.dumps({key: data[key] for key in data if key != name}), f"`{name}` is missing")
    _refused(case, json.dumps({**data, "more": 1}), "a field more")
    _refused(case, text[:-1] + ',"seq":0}', "a field that occurs twice")
    _refused(case, f"[{text}]", "a list")
    _refused(case, text[1:], "half a text")


_NO_RECEIPTS: Final[dict[str, tuple[Any, ...]]] = {
    "v": (2, True, "1", None),
    "run": (7, None, "\ud800"),
    "status": (7, None),
    "seq": (-1, True, "1", 1.0, 2**53, None),
    "digest": ("", "0" * 63, "F" * 64, "g" * 64, None),
    "trace": ("", "0" * 65, "F" * 64, None),
    "key": ("0" * 15, None, 7),
    "signature": ("0" * 127, None, 7),
}
"""Invalid values of the fields of a receipt."""


def _refused(case: Case, text: str, what: str) -> None:
    case.count()
    try:
        Receipt.from_json(text)
    except ReceiptRefused:
        return
    except JournalError as error:
        raise Breach(Invariant.REFUSAL, f"a receipt in which {what} is refused as {error}") from None
    raise Breach(Invariant.TAMPERING, f"a text in which {what} is taken for a receipt")


# -- receipts ------------------------------------------------------------------------------------------------------

SOUND: Final[dict[str, Any]] = {
    "digest": "ab" * 32,
    "key": None,
    "run": "r",
    "seq": 3,
    "signature": None,
    "status": "SUCCESS",
    "trace": "0f" * 32,
    "v": 1,
}
SIGNED: Final = {**SOUND, "key": "c" * 16, "signature": "d" * 128}
TEXTS: Final = (
    *('"v"', "[]", '["v"]', "1", "null", "{}", "", "NaN", "[" * 100_000, '{"v": 1, "v": 1}'),
    *(json.dumps({**SOUND, "v": version}) for version in (0, 2, True, "1", 1.0, None)),
    *(json.dumps({**SOUND, "seq": seq}) for seq in (-1, True, 3.0, "3", None, 2**53)),
    *(json.dumps({**SOUND, "digest": text}) for text in ("AB" * 32, "ab" * 31, "zz" * 32, "ab" * 32 + "\n", 5, None)),
    *(json.dumps({**SOUND, "trace": text}) for text in ("AB" * 32, "ab" * 33, "", None)),
    *(json.dumps({**SOUND, "run": text}) for text in (5, None, "\ud800")),
    json.dumps({**SOUND, "status": 7}),
    json.dumps({**SOUND, "more": 1}),
    json.dumps({**SIGNED, "key": None}),
    json.dumps({**SIGNED, "signature": None}),
    *(json.dumps({**SIGNED, "key": text}) for text in ("c" * 15, "C" * 16, 5)),
    *(json.dumps({**SIGNED, "signature": text}) for text in ("d" * 126, "D" * 128, 5)),
    *(json.dumps({key: value for key, value in SOUND.items() if key != one}) for one in SOUND),
)


_SPELLED: Final = tuple(json.dumps(dict(reversed(one.items())), indent=3) for one in (SOUND, SIGNED))
"""Receipts that are sound, in another spelling."""


class OddReceipts(Attack):
    """Texts are handed over as receipts that are none: other JSON, other versions, fields that lack, come twice, or
    can't be what they say."""

    family = Family.HASHES
    surface = "text of a receipt"
    action = "JSON that is no receipt"
    invariant = Invariant.REFUSAL
    defence = "a text is read as a receipt only if every field can be what it says"
    severity = "medium"
    enumerates = "texts that are no receipts, each in one way"
    weight = 50
    draws = True

    def play(self, case: Case) -> Outcome:
        """Read each text, and one in another spelling."""
        from hypothesis import strategies as st

        case.pick("the case", st.just(0))
        for text in case.each("text", (*TEXTS, *_SPELLED)):
            case.act(f"read {text[:200]}")
            try:
                found = Receipt.from_json(text)
            except ReceiptRefused:
                case.hold(text not in _SPELLED, self.invariant, "a receipt in another spelling is refused")
                continue
            is_so = text in _SPELLED and json.loads(found.to_json()) == json.loads(text)
            case.hold(is_so, self.invariant, f"{text[:200]} is read as {found}")
        return Outcome.BLOCKED
