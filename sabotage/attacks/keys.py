"""Keys: values that are encrypted by a key of each run, and heads that are signed anew by another key."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Collection, Mapping
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final

from stepward.sabotage.attack import Attack, Family
from stepward.sabotage.invariants import Invariant, Outcome
from stepward.sabotage.needs import SENSITIVE
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.every_tool import EveryTool
from stepward.sabotage.playing.trial import Trial
from stepward.sabotage.stores.forging import flipped, stranger
from stepward.vm.journal.encryption import EncryptedVault, ValuesLost, is_encrypted
from stepward.vm.journal.memory import MemoryJournal, MemoryVault
from stepward.vm.journal.rotation import sign_anew
from stepward.vm.journal.run_keys import FileKeys, key_name
from stepward.vm.journal.signing import SigningKey, VerifyKey
from stepward.vm.journal.store import JournalError, LeaseLost
from stepward.vm.journal.verify import verify
from stepward.vm.language.program import Program
from stepward.vm.machine.clock import ManualClock
from stepward.vm.machine.replay import replayer
from stepward.vm.machine.tools import Suspend, ToolContext

RUNS: Final = ("a", "b", "c")
NAMES: Final = ("x", "y", "token:pay:1:1")
MOVES: Final = (
    *["put"] * 4, "read", "erase", "erase", "half_erased", "half_erased", "old", "moved", "strange", "open", "torn"
)  # fmt: skip
MOST_MOVES: Final = 24
MASTER: Final = bytes(range(7, 39))
NEW_SEED: Final = bytes(range(64, 96))
"""The seed of the key that takes the place of the machine's."""


class EncryptedValues(Attack):
    """Sensitive values are stored under a key of each run, moved to other names and runs, read by processes with other
    keys, and read from a copy after an erasure. A plain model says what can be read."""

    family = Family.REPLAY
    surface = "vault and keys of runs"
    action = "values moved, copied, and read under other keys, or after the key is gone"
    invariant = Invariant.ERASURE
    defence = "a value is encrypted for its run and name, and the key of an erased run is destroyed"
    draws = True

    def play(self, case: Case) -> Outcome:
        """Compare each move with the model."""
        chance = Random(f"keys {case.seed()}")
        with tempfile.TemporaryDirectory(prefix="stepward-", ignore_cleanup_errors=True) as folder:
            safe = _Safe(case, chance, Path(folder))
            for _ in range(MOST_MOVES):
                move = chance.choice(MOVES)
                case.act(move)
                getattr(safe, move)(chance.choice(RUNS))
        return Outcome.BLOCKED


class _Away(FileKeys):
    """Keys whose service is away when one is to be destroyed."""

    def destroy(self, name: str) -> None:
        """Destroy nothing; raises JournalError."""
        raise JournalError(f"the keys are away, with `{name}`")


class _Safe:
    """An encrypted vault, whose keys are files, and a model of it: what is in it, and which runs were erased."""

    def __init__(self, case: Case, chance: Random, folder: Path) -> None:
        self.case, self.chance, self.folder = case, chance, folder / "keys"
        self.master = chance.choice((None, MASTER))
        self.inner = MemoryVault()
        self.values: dict[str, dict[str, bytes]] = {run: {} for run in RUNS}
        self.erased: set[str] = set()

    def vault(self, inner: MemoryVault | None = None, keys: FileKeys | None = None) -> EncryptedVault:
        """Return the vault as a new process opens it."""
        return EncryptedVault(inner or self.inner, keys or self.keys())

    def keys(self) -> FileKeys:
        """Return the keys as a new process finds them."""
        return FileKeys(self.folder, self.master)

    def hold(self, is_met: bool, what: str) -> None:
        """Raise Breach unless a requirement is met."""
        self.case.hold(is_met, Invariant.ERASURE, what)

    def put(self, run: str) -> None:
        """Put values, two of them equal; what is kept must not show them."""
        new = {name: self.chance.randbytes(30) for name in self.chance.sample(NAMES, self.chance.randint(0, 3))}
        new = dict.fromkeys(new, bytes(30)) if self.chance.random() < 0.3 else new
        is_refused = _refusal(lambda: self.vault().put(run, new), LeaseLost)
        self.hold(is_refused is (run in self.erased and bool(new)), f"values of `{run}` are refused: {is_refused}")
        if run not in self.erased:
            self.values[run] |= new
        stored = [raw for name, raw in self.inner.get(run).items() if name in new]
        is_open = any(not is_encrypted(raw) or value in raw for raw in stored for value in new.values())
        self.hold(not is_open, "the vault has a value in the open")
        self.hold(len({*stored}) == len(stored), "equal values look equal in the vault")
        self.read(run)

    def read(self, run: str) -> None:
        """Read all values, and look whether the run has a key."""
        found = self.vault().get(run)
        self.hold(found == self.values[run], f"of `{run}` {len(found)} of {len(self.values[run])} values are read")
        has = self.folder.is_dir() and self.keys().find(key_name(run)) is not None
        self.hold(not (has and run in self.erased), "the key of an erased run is still there")

    def old(self, run: str) -> None:
        """Put a value as a vault without keys stores it."""
        if run not in self.erased:
            value = self.chance.randbytes(20)
            self.inner.put(run, {"old": value})
            self.values[run]["old"] = value
        self.read(run)

    def erase(self, run: str) -> None:
        """Erase one run or two; nobody may read them from a copy of the vault."""
        copies = {name: self.inner.get(name) for name in RUNS}
        also = self.chance.choice(RUNS)
        runs = [run] if self.chance.random() < 0.5 or also == run else [run, also]
        due = sum(len(self.values[name]) for name in runs)
        count = self.vault().erase(run) if len(runs) == 1 else self.vault().erase_all(runs)
        self.hold(count == due, f"{count} values are erased, and there were {due}")
        for name in runs:
            self.erased.add(name)
            self.values[name] = {}
            self.read(name)
            self.lost("after its erasure", name, {name: copies[name]}, self.keys())

    def half_erased(self, run: str) -> None:
        """Erase a run while its keys are away, and once more when they are back."""
        away = EncryptedVault(self.inner, _Away(self.folder, self.master))
        is_told = _refusal(lambda: away.erase(run), JournalError)
        self.hold(is_told, f"the keys are away, and `{run}` is told to be erased")
        self.vault().erase(run)
        self.erased.add(run)
        self.values[run] = {}
        self.read(run)

    def lost(self, what: str, run: str, copies: Mapping[str, Mapping[str, bytes]], keys: FileKeys) -> None:
        """Check that nobody reads the encrypted values of a run from a vault with these contents."""
        inner = MemoryVault()
        for name, stored in copies.items():
            inner.put(name, stored)
        if any(map(is_encrypted, inner.get(run).values())):
            is_lost = _refusal(lambda: self.vault(inner, keys).get(run), ValuesLost)
            self.hold(is_lost, f"values of a run can be read {what}")

    def moved(self, run: str) -> None:
        """Exchange two values of a run, or bring one from another run, or change a bit."""
        stored, other = self.inner.get(run), self.inner.get(self.chance.choice([one for one in RUNS if one != run]))
        sealed = sorted(name for name, raw in stored.items() if is_encrypted(raw))
        if not sealed:
            return
        name = self.chance.choice(sealed)
        raws = [raw for one, raw in (*stored.items(), *other.items()) if is_encrypted(raw) and raw != stored[name]]
        at = self.chance.randrange(8 * 9, 8 * len(stored[name]))  # not in the mark of what is encrypted
        raw = self.chance.choice([*raws, flipped(stored[name], at), stored[name][:-1]])
        self.lost("that were moved or changed", run, {run: {**stored, name: raw}}, self.keys())

    def strange(self, run: str) -> None:
        """Read with keys of another folder, or with another master key."""
        self.lost("with other keys", run, {run: self.inner.get(run)}, FileKeys(self.folder.parent / "other"))
        if self.folder.is_dir() and self.keys().find(key_name(run)) is not None:
            other = FileKeys(self.folder, None if self.master else MASTER)
            self.hold(_refusal(lambda: other.find(key_name(run)), JournalError), "another master key opens a key")

    def open(self, run: str) -> None:
        """Let others into the folder of the keys."""
        if self.folder.is_dir():
            self.folder.chmod(self.chance.choice((0o750, 0o701, 0o704)))
            for ask in (self.keys().find, self.keys().make):
                is_refused = _refusal(lambda ask=ask: ask(key_name(run)), JournalError)  # type: ignore[misc]
                self.hold(is_refused, "keys are used that others may read")
            self.folder.chmod(0o700)

    def torn(self, run: str) -> None:
        """Tear the file of a key, and mend it."""
        path = self.folder / key_name(run)
        if path.is_file():
            whole = path.read_bytes()
            path.write_bytes(whole[:-1])
            self.hold(_refusal(lambda: self.keys().find(key_name(run)), JournalError), "half of a key is a key")
            path.write_bytes(whole)


def _refusal(call: Callable[[], Any], refusal: type[JournalError]) -> bool:
    """Return whether a call is refused."""
    try:
        call()
    except refusal:
        return True
    return False


class LockedVault(Attack):
    """A run has encrypted values. A machine and a verifier without the keys read it, then it is erased."""

    family = Family.REPLAY
    surface = "encrypted vault"
    action = "read by a machine and a verifier without the keys, and erased"
    invariant = Invariant.SECRECY
    defence = "without keys nothing is read, and a verification says so; an erasure destroys the key"
    severity = "high"
    needs = (SENSITIVE,)

    def play(self, case: Case) -> Outcome:
        """Play a run with keys, and read it without them."""
        store = MemoryJournal()
        plain = store.vault
        with tempfile.TemporaryDirectory(prefix="stepward-", ignore_cleanup_errors=True) as folder:
            keys = FileKeys(os.path.join(folder, "keys"))
            store.vault = EncryptedVault(plain, keys)  # type: ignore[assignment]
            trial = Trial(case, faults=False, store=store)
            run = trial.carry_on(trial.start())
            case.needs(plain.get(trial.run))
            sound = verify(store, trial.run, replay=replayer(store, trial.run)).faults
            case.hold(not sound, Invariant.REPLAY, f"a run with encrypted values is told of {sound[:1]}")
            case.act("read it without the keys")
            store.vault = plain
            faults = verify(store, trial.run, replay=replayer(store, trial.run)).faults
            case.hold(len(faults) == 1, Invariant.REPLAY, f"without keys there are {len(faults)} faults")
            is_read = not _refusal(lambda: case.do(trial.machine().get(trial.run)), JournalError)
            case.hold(not is_read, self.invariant, "a machine reads a run whose values it can't open")
            store.vault = EncryptedVault(plain, keys)  # type: ignore[assignment]
            case.act("erase it")
            case.do(trial.machine().erase(run.id))
            left = verify(store, trial.run, replay=replayer(store, trial.run)).faults
            case.hold(not left, Invariant.REPLAY, f"an erased run is told of {left[:1]}")
            has_key = keys.find(key_name(trial.run)) is not None
            case.hold(not has_key, Invariant.ERASURE, "the key of an erased run is still there")
        return Outcome.DETECTED


FATES: Final = ("sound", "sound", "changed", "of a stranger", "unsigned", "pruned", "pruned, of a stranger")


class SignedAnew(Attack):
    """A store has runs that the machine's key has signed, or a stranger, or nobody; one was changed, some were pruned.
    Then all heads are signed by a new key, twice."""

    family = Family.HASHES
    surface = "signatures of a store"
    action = "runs that were changed, or signed by another key, before all are signed by a new one"
    invariant = Invariant.TAMPERING
    defence = "a run is verified before its head is signed anew, and nothing else of it changes"
    weight = 4

    def play(self, case: Case) -> Outcome:
        """Sign all runs, and check which have the signature of the new key."""
        from hypothesis import strategies as st

        fates = case.pick("runs are", st.lists(st.sampled_from(FATES), min_size=2, max_size=4))
        store, new, old = MemoryJournal(), SigningKey.from_seed(NEW_SEED), case.key.public
        due: dict[str, bool] = {}
        for number, fate in enumerate(
            sorted(fates, key=lambda fate: "pruned" not in fate)
        ):  # pruning takes all before it
            trial = Trial(case, f"run {number}", faults=False, store=store)
            self._play(trial, store, fate)
            due[trial.run] = fate in ("sound", "pruned")
        before = {run: (store.read(run), store.row(run)) for run in due}
        for again in range(2):
            case.act("sign all runs with a new key")
            signed = {one.run: one for one in sign_anew(store, new, [old], lambda run: replayer(store, run))}
            case.hold(signed.keys() == due.keys(), self.invariant, f"of {len(due)} runs {len(signed)} are signed")
            for run, one in signed.items():
                is_new = due[run] and not again
                case.hold(one.is_new is is_new, self.invariant, f"`{run}` is signed anew: {one.is_new}, not {is_new}")
                case.hold(bool(one.faults) is not due[run], self.invariant, f"`{run}` has {len(one.faults)} faults")
        after = {run: (store.read(run), store.row(run)) for run in due}
        case.hold(after == before, Invariant.HISTORY, "more than the signature of a run has changed")
        self._verify(case, store, due, new.public)
        return Outcome.DETECTED

    def _play(self, trial: Trial, store: MemoryJournal, fate: str) -> None:
        case = trial.case
        key = {"of a stranger": stranger(), "pruned, of a stranger": stranger(), "unsigned": None}.get(fate, case.key)
        machine = trial.machine(key=key)
        run = trial.carry_on(trial.start(machine), machine)
        case.log(f"it is {fate}")
        if fate == "changed":
            entries = store._runs[run.id].entries
            entries[0] = entries[0]._replace(record=entries[0].record.replace(b'"at":', b'"at":1', 1))
        if fate.startswith("pruned"):
            case.needs(run.is_over)
            trial.clock.time += 86_400_000_000
            case.do(machine.prune(trial.clock.time / 1e6))
            case.needs(store.kept(run.id))

    def _verify(self, case: Case, store: MemoryJournal, due: Mapping[str, bool], key: VerifyKey) -> None:
        """Check that the new key alone verifies what it has signed, and nothing else."""
        sound: Collection[str] = [run for run in due if not verify(store, run, keys=[key]).faults]
        expected = [run for run, is_due in due.items() if is_due]
        case.hold(list(sound) == expected, self.invariant, f"with the new key {sound} are sound, and not {expected}")


class _Asking(EveryTool):
    """A tool that waits for somebody."""

    async def call(self, name: str, args: Mapping[str, Any], context: ToolContext) -> Any:
        """Wait."""
        del name, args, context
        return Suspend()


DEEDS: Final = ("recover", "resume", "cancel", "continue", "erase", "prune", "start again")


class KeyHandedOver(Attack):
    """Runs were signed by the key of before, by a stranger, or by nobody. Machines with a new key, which trust the old
    one or do not, resume, cancel, continue, erase and prune them, and the machine with the old key comes again."""

    family = Family.HASHES
    surface = "runs of the key of before"
    action = "everything that a machine can do with a run, by machines that trust the old key or do not"
    invariant = Invariant.TAMPERING
    defence = "a machine goes on with runs that its key or a trusted one has signed, and signs them with its own"
    weight = 4
    draws = True

    def play(self, case: Case) -> Outcome:
        """Make a run under some key, let a machine do something with it, and compare."""
        chance = Random(f"handed over {case.seed()}")
        old, new, other = case.key, SigningKey.from_seed(NEW_SEED), stranger()
        for deed in case.each("deed", DEEDS):
            for signed, trusted, is_due in (
                (old, (old,), True),
                (old, (), False),
                (old, (other,), False),
                (new, (), True),
                (other, (old,), False),
                (None, (old,), False),
                (None, (), False),
                (old, (other, old), True),
            ):
                if chance.random() < 0.5 or is_due:
                    self._play(case, deed, signed, (new, trusted), is_due=is_due)
        return Outcome.DETECTED

    def _play(
        self,
        case: Case,
        deed: str,
        signed: SigningKey | None,
        hands: tuple[SigningKey, tuple[SigningKey, ...]],
        *,
        is_due: bool,
    ) -> None:
        store, clock, (new, trusted) = MemoryJournal(), ManualClock(), hands
        first = case.machine(_Asking(), None, store, key=signed, clock=clock)
        program = _asks(waits=deed in ("recover", "resume", "cancel"))
        run = case.do(first.run(program, {"card": "4711"}, run_id="run"))
        case.act(f"{deed} a run of {_named(signed)}, by a machine that trusts {len(trusted)} keys")
        before = store.read("run")
        keys = [one.public for one in trusted]
        machine = case.machine(_Asking(), None, store, key=new, trusted=keys, clock=clock)
        clock.time += 99_000_000
        token = run.suspensions[0].token if run.suspensions else ""
        works: dict[str, Callable[[], Any]] = {
            "recover": lambda: machine.recover("run"),
            "resume": lambda: machine.resume(token, "yes"),
            "cancel": lambda: machine.cancel("run"),
            "continue": lambda: machine.continue_run("run", _asks(waits=False), ["card"], grant={"steps": 5}),
            "erase": lambda: machine.erase("run"),
            "prune": lambda: machine.prune(clock.time / 1e6),
            "start again": lambda: machine.run(program, {"card": "4711"}, run_id="run"),
        }
        try:
            result = case.do(works[deed]())
            is_done = deed != "prune" or result[0].why is None
        except JournalError:
            is_done = False
        case.hold(is_done is is_due, self.invariant, f"to {deed} a run of {_named(signed)} is done: {is_done}")
        if not is_due:
            case.hold(store.read("run") == before, Invariant.HISTORY, "a run that is refused has changed")
            return
        if store.read("run") != before:  # what is new is signed by the new key alone
            keys = [new.public]
            faults = verify(store, "run", keys=keys, replay=replayer(store, "run")).faults
            case.hold(not faults, self.invariant, f"a run that was handed over is told of {faults[:1]}")


def _named(key: SigningKey | None) -> str:
    return "nobody" if key is None else f"key {key.id[:4]}"


@cache
def _asks(*, waits: bool) -> Program:
    steps: list[dict[str, Any]] = [{"id": "ask", "type": "tool", "tool": "ask"}] if waits else []
    steps += [{"id": f"s{number}", "type": "set", "set": {"v": number}} for number in range(3)]
    return Program.from_dict(
        {
            "name": "asks",
            "inputs": {"card": {"type": "string", "sensitive": True}},
            "tools": {"ask": {"effect": "none", "suspends": True, "returns": {"type": "string"}}},
            "max_steps": 9 if waits else 2,
            "steps": steps,
        }
    )
