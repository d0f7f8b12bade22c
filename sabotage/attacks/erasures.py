"""Replay: values that were erased or belong to another run are restored, or left traces."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from random import Random
from typing import Any, Final

from stepward.sabotage.attack import Attack, Family
from stepward.sabotage.invariants import Breach, Invariant, Outcome
from stepward.sabotage.needs import SENSITIVE
from stepward.sabotage.playing.answers import CallAnswer, answers
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.delivering import refused
from stepward.sabotage.playing.trial import Trial
from stepward.sabotage.playing.world import Asking
from stepward.sabotage.stores.faulty_file import FaultyFile
from stepward.sabotage.stores.forging import Forger
from stepward.vm.journal.canonical import ErasedError
from stepward.vm.journal.sqlite import SQLiteJournal
from stepward.vm.journal.store import JournalError
from stepward.vm.language.types import TypeSpec, refusal
from stepward.vm.machine.data import REDACTED
from stepward.vm.machine.refusals import RunRefused
from stepward.vm.machine.replay import replay
from stepward.vm.machine.run import Run
from stepward.vm.machine.views import ERASED


class ErasureAttack(Attack):
    """The base of attacks on sensitive values."""

    family = Family.REPLAY
    invariant = Invariant.ERASURE
    needs = (SENSITIVE,)


def _some_run(trial: Trial) -> Run:
    """Return a run that has stopped or ended, chosen by the attack."""
    from hypothesis import strategies as st

    run = trial.start()
    if trial.case.pick(trial.named("the run has"), st.sampled_from(["stopped", "ended"])) == "ended":
        run = trial.carry_on(run)
    return run


def _values(trial: Trial) -> dict[str, bytes]:
    """Return the vault's sensitive values of the run, by reference, without tokens."""
    secrets = trial.store.inner.vault.get(trial.run)
    return {name: secret for name, secret in secrets.items() if not name.startswith("token:")}


def _erase(trial: Trial) -> Run:
    trial.case.act("erase the run")
    run = trial.case.do(trial.machine().erase(trial.run))
    trial.case.hold(run.is_over, Invariant.ENDINGS, f"an erased run is {run.status}")
    return run


def not_gone(run: Run) -> list[str]:
    """Return the names under which an erased run still shows a sensitive value."""
    shown = run.view("trace")
    try:
        run.view("tool")
    except ErasedError:
        pass
    else:
        return [name for name, value in shown.items() if _has(value, REDACTED) or _has(value, ERASED)]
    return [name for name, value in shown.items() if _has(value, REDACTED)]


def _has(value: Any, text: str) -> bool:
    if isinstance(value, Mapping):
        return any(_has(item, text) for item in value.values())
    return any(_has(item, text) for item in value) if isinstance(value, tuple) else value == text


class VaultRestored(ErasureAttack):
    """The run is erased, and then the attacker restores the vault's rows from an earlier copy."""

    surface = "vault"
    action = "erased values restored from a copy"
    defence = "the record of an erasure remains: the values that it names count as erased, whatever the vault contains"
    weight = 2

    def play(self, case: Case) -> Outcome:
        """Erase, restore, and check that nothing can be read, a verification reports it, and a second erasure repairs
        it."""
        trial = Trial(case, faults=False)
        _some_run(trial)
        trial.oracle.rest()
        stored, values = trial.store.inner.vault.get(trial.run), _values(trial)
        _erase(trial)
        case.needs(values)
        case.log("the rows of the vault are put back")
        Forger(trial).put_secrets(stored)
        shown = not_gone(trial.reload())
        case.hold(not shown, Invariant.ERASURE, f"`{shown[:1]}` can be read after its erasure")
        case.hold(bool(trial.faults()), Invariant.ERASURE, "values that were erased are in the vault, and nobody tells")
        _erase(trial)
        case.hold(not _values(trial), Invariant.ERASURE, "a second erasure leaves values in the vault")
        case.hold(not trial.faults(), Invariant.REPLAY, "a run that was erased twice is called damaged")
        return Outcome.DETECTED


class VaultOfAnotherRun(ErasureAttack):
    """The attacker replaces the sensitive values of a run by those of another run of the program."""

    surface = "vault"
    action = "filled with the values of another run"
    invariant = Invariant.TAMPERING
    defence = "the journal contains a salted commitment to each value"
    weight = 2

    def play(self, case: Case) -> Outcome:
        """Run twice, exchange the values, and check that the run can't be read, and a verification reports it."""
        from hypothesis import strategies as st

        trial, other = Trial(case, faults=False), Trial(case, "other", faults=False)
        run = _some_run(trial)
        other.start()
        own, foreign = _values(trial), _values(other)
        case.needs(own and foreign)
        strangers = sorted(foreign.values())
        exchanged = {name: strangers[number % len(strangers)] for number, name in enumerate(sorted(own))}
        case.log("the values of another run are put in place of its own")
        Forger(trial).put_secrets(trial.store.inner.vault.get(trial.run) | exchanged)
        machine = trial.machine()
        how = case.pick("the run is", st.sampled_from(["read", "recovered", "cancelled", "resumed"]))
        case.needs(how != "resumed" or run.suspensions)
        requests: dict[str, Callable[[], Coroutine[Any, Any, Any]]] = {
            "read": lambda: machine.get(trial.run),
            "recovered": lambda: machine.recover(trial.run),
            "cancelled": lambda: machine.cancel(trial.run),
            "resumed": lambda: machine.resume(run.suspensions[0].token, None, by=trial.settler),
        }
        refused(trial, f"the run is {how}", requests[how](), invariant=Invariant.TAMPERING, errors=(JournalError,))
        case.hold(bool(trial.faults()), Invariant.TAMPERING, "a verification takes the values of another run")
        return Outcome.BLOCKED


class ErasedRunAskedFor(ErasureAttack):
    """A run whose values were erased is read, recovered, cancelled, replayed, verified, started and erased again."""

    surface = "erased run"
    action = "read, recovered, replayed and erased again"
    defence = "an erasure destroys the rows of the vault, and writes a record of it"
    weight = 2

    def play(self, case: Case) -> Outcome:
        """Erase, make one more request, and check that no value has come back and the run is sound."""
        from hypothesis import strategies as st

        trial = Trial(case, faults=False)
        _some_run(trial)
        ended = _erase(trial)
        machine = trial.machine()
        how = case.pick(
            "then it is", st.sampled_from(["read", "recovered", "cancelled", "erased", "started", "replayed"])
        )
        case.act(f"then it is {how}")
        if how == "started":
            self._start(trial)
        elif how == "replayed":
            again = replay(trial.store.inner, trial.run)
            case.hold(again is not None and not again.faults, Invariant.REPLAY, "an erased run can't be replayed")
        else:
            requests: dict[str, Callable[[], Coroutine[Any, Any, Any]]] = {
                "read": lambda: machine.get(trial.run),
                "recovered": lambda: machine.recover(trial.run),
                "cancelled": lambda: machine.cancel(trial.run),
                "erased": lambda: machine.erase(trial.run),
            }
            case.do(requests[how]())
        run = trial.reload()
        shown = not_gone(run)
        case.hold(not shown, Invariant.ERASURE, f"`{shown[:1]}` can be read after its erasure")
        left = trial.store.inner.vault.get(trial.run)
        case.hold(not left, Invariant.ERASURE, f"the vault has {len(left)} values of a run that was erased")
        case.hold(run.trace_hash == ended.trace_hash, Invariant.REPLAY, "the trace of an erased run has changed")
        case.hold(not trial.faults(), Invariant.REPLAY, "an erased run is called damaged")
        return Outcome.ABSORBED

    def _start(self, trial: Trial) -> None:
        target = trial.case.target
        request = trial.machine().run(target.program, trial.inputs, run_id=trial.run, by=trial.by)
        refused(trial, "start it again", request, invariant=Invariant.ERASURE, errors=(RunRefused,))


def _marker(trial: Trial) -> str:
    """Return a text that occurs only in the sensitive values of this run."""
    return f"Sensitive-{trial.run}-7d1f0c9a"


class ErasureLeavesBytes(ErasureAttack):
    """The attacker takes the disk and searches the bytes of every file of the store for sensitive values, before and
    after an erasure. The erasure may fail at any statement and is then repeated. Blocks that the file system retains,
    and earlier copies, are out of scope."""

    surface = "files of the store"
    action = "searched for sensitive values, before and after their erasure"
    defence = (
        "values are in a vault without a write-ahead log, and each erasure overwrites the vault and writes it again"
    )
    weight = 5
    store = "sqlite"

    def play(self, case: Case) -> Outcome:
        """Run with recognizable values, search, erase, and search again."""
        # In its own files: which bytes are left depends on the other content of a file.
        with tempfile.TemporaryDirectory(prefix="stepward-", ignore_cleanup_errors=True) as folder:
            store = SQLiteJournal(os.path.join(folder, "runs.db"))
            with closing(store):
                return self._play(case, store)

    def _play(self, case: Case, store: SQLiteJournal) -> Outcome:
        from hypothesis import strategies as st

        trial = Trial(case, faults=False, store=store)
        text = _marker(trial)
        marker = text.encode()
        trial.inputs = {
            name: _marked(value, case.target.plan.input_types[name], text) for name, value in trial.inputs.items()
        }
        trial.world.decides.append(lambda asking: _marking(trial, asking))
        _some_run(trial)
        path = store._file._path
        case.count()
        found = [name for name in _files_with(path, marker) if not name.endswith(".vault")]
        if found:
            raise Breach(Invariant.SECRECY, f"`{_suffix(found[0], path)}` has a sensitive value")
        case.needs(any(marker in secret for secret in _values(trial).values()))
        fails = case.pick("statement of the erasure that fails", st.one_of(st.none(), st.integers(0, ERASING)))
        if fails is not None:
            self._fail(trial, store, fails)
        _erase(trial)
        case.count()
        left = list(_files_with(path, marker))
        if left:
            raise Breach(Invariant.ERASURE, f"`{_suffix(left[0], path)}` still has a value that was erased")
        return Outcome.ABSORBED

    def _fail(self, trial: Trial, store: SQLiteJournal, fails: int) -> None:
        """Start an erasure that fails at a statement of the vault, so that rows may be gone but their bytes remain."""
        file = store._values._file()
        # SQLite overwrites deleted rows, but no copies on split pages. This setting makes every row such a copy.
        file._connection.execute("PRAGMA secure_delete = OFF")
        faulty = FaultyFile(file, fails)
        trial.case.log(f"erase the run; statement {fails} of the vault fails")
        with suppress(JournalError):
            trial.case.do(trial.machine().erase(trial.run))
        faulty.restore()
        file._connection.execute("PRAGMA secure_delete = ON")


class ErasedAmongOthers(ErasureAttack):
    """The vault has the values of so many runs that its pages were split. The attacker takes the disk and searches for
    the values of erased runs."""

    surface = "files of the store"
    action = "searched for values whose pages were split before they were erased"
    defence = "the vault is written again when something in it is erased"
    weight = 10
    store = "sqlite"

    def play(self, case: Case) -> Outcome:
        """Fill the vault with runs, erase half of them, and search for the values of each."""
        from hypothesis import strategies as st

        trial = Trial(case)
        store = trial.store.inner
        assert isinstance(store, SQLiteJournal), "it is played on files"
        dice = Random(case.pick("values are thrown from", st.integers(0, 2**16)))
        live: list[tuple[str, bytes]] = []
        for number in range(CROWD):
            marker = b"<%05d of %05d>" % (dice.randrange(10**5), number)
            run = f"{dice.randrange(10**6)}-{trial.run}-{number}"
            store.vault.put(run, {f"{dice.random()}": marker * size for size in SIZES})
            live.append((run, marker))
            if number % 2:
                erased, marker = live.pop(dice.randrange(len(live)))
                case.count()
                store.vault.erase(erased)
                left = list(_files_with(store._file._path, marker))
                case.hold(not left, Invariant.ERASURE, f"the values of run `{erased}` are in a file after its erasure")
        for run, _ in live:
            store.vault.erase(run)
        return Outcome.ABSORBED


ERASING: Final = 5
"""The number of statements of an erasure, the last of which rewrites the file."""

CROWD: Final = 100
"""The number of runs whose values are in one vault."""

SIZES: Final = (8, 40, 80)
"""How often each value of a run repeats its marker. Some values share a page, so that it is split."""


def _files_with(path: str, text: bytes) -> Iterator[str]:
    """Yield the files of a store whose bytes contain a text."""
    folder, name = os.path.split(path)
    for file in sorted(Path(folder).iterdir()):
        if file.name.startswith(name) and text in file.read_bytes():
            yield str(file)


def _suffix(file: str, path: str) -> str:
    return f"runs.db{file[len(path) :]}"


def _marking(trial: Trial, asking: Asking) -> CallAnswer | None:
    """Return the answer of the world with recognizable sensitive values."""
    target, call = trial.case.target, asking.call
    data = trial.case.pick(trial.named(asking.name), answers(target, call, faults=False))
    if data["does"] != "returns" or call.returns is None:
        return None
    return CallAnswer("returns", _marked(data["value"], call.returns, _marker(trial)))


def _marked(value: Any, spec: TypeSpec | None, text: str, *, inside: bool = False) -> Any:
    """Return a value of the type with recognizable sensitive texts, where the type allows them."""
    if spec is None:
        return value
    inside = inside or spec.sensitive
    if isinstance(value, dict):
        known = spec.properties or {}
        return {name: _marked(item, known.get(name), text, inside=inside) for name, item in value.items()}
    if isinstance(value, list):
        return [_marked(item, spec.items, text, inside=inside) for item in value]
    # Repeat the marker if there is room: overwriting a part leaves the others.
    forms = (text * 8, f"{text * 8}@example.org", text, f"{text}@example.org")
    fitting = [form for form in forms if inside and isinstance(value, str) and refusal(form, spec) is None]
    return fitting[0] if fitting else value
