"""Scenes of the kit that tests stores, with sound ones and weak ones, and of the store on a server, whose answers are
drawn."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, Final, cast

from stepward.sabotage.recorded.notes import text_of
from stepward.sabotage.recorded.shared.probe import Probe
from stepward.vm.journal import postgres
from stepward.vm.journal.conformance import CHECKS, Check
from stepward.vm.journal.encryption import EncryptedVault
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.journal.store import Append, Entry, Head, Journal, Lease, LeaseLost, Switch

RACES: Final = (
    *(
        "create_once",
        "append_race",
        "append_whole",
        "one_store_many_threads",
        "fences_rise",
        "lease_race",
        "claim_race",
    ),
    *("pruned_race", "reopened", "vault_apart", "documents"),
)
"""Checks with threads or stores of their own: what comes of them in a weak store depends on the order of threads."""

WEAK: Final = (
    *(
        "create",
        "append",
        "acquire",
        "claim",
        "due",
        "renew",
        "release",
        "read",
        "head",
        "sign",
        "rows",
        "row",
        "names",
    ),
    *(
        "prune",
        "kept",
        "pruned",
        "switch",
        "switches",
        "opened",
        "hold",
        "put_document",
        "document",
        "put",
        "get",
        "erase",
    ),
    "erase_all",
)
"""The methods of which one is weak."""

LONG: Final = 200
"""Bytes of a value of which a note has only the digest."""

_NAME: Final = re.compile("[0-9a-f]{32}")


class _Weak:
    """A store, or its vault, of which a method does nothing, does everything twice, or refuses. Each call is noted."""

    def __init__(self, probe: Probe, inner: Any, weak: str, how: str) -> None:
        self._of = probe, inner, weak, how

    def __getattr__(self, name: str) -> Any:
        probe, inner, weak, how = self._of
        found = getattr(inner, name)
        if name == "vault":
            return _Weak(probe, found, weak, how)
        if not callable(found):
            return found

        def call(*args: Any, **more: Any) -> Any:
            probe.note(name, _named(text_of([*map(_short, args), more])))
            if name != weak:
                return found(*args, **more)
            match how:
                case "nothing":
                    return None
                case "twice":
                    found(*args, **more)
                case "refuses":
                    raise LeaseLost("no")
                case "other":
                    return (found(*args, **more), 1)
            return found(*args, **more)

        return call


def _named(text: str) -> str:
    """Return a text without the names that a kit makes at random."""
    return _NAME.sub("NAME", text)


def _short(value: Any) -> Any:
    """Return a value of which no bytes are long."""
    if isinstance(value, bytes) and len(value) > LONG:
        return f"{len(value)} bytes {sha256(value).hexdigest()}"
    if isinstance(value, Mapping):
        return {name: _short(item) for name, item in value.items()}
    return [_short(item) for item in value] if isinstance(value, list | tuple) else value


def kits(probe: Probe) -> None:
    """Test a sound store and weak ones, by some checks of the kit."""
    sound = MemoryJournal()
    quiet = [check for check in CHECKS if check.name not in RACES]
    for check in probe.chance.sample(quiet, 5):
        probe.note(check.name, check.demand)
        _try(probe, check, lambda: sound)
        for _ in range(2):
            inner, weak, how = MemoryJournal(), probe.draw(*WEAK), probe.draw("nothing", "twice", "refuses", "other")
            probe.note(weak, how)
            store = cast("Journal", _Weak(probe, inner, weak, how))
            _try(probe, check, lambda store=store: store)  # type: ignore[misc]


def _try(probe: Probe, check: Check, make: Callable[[], Journal]) -> None:
    try:
        check.run(make)
    except AssertionError as error:
        probe.note("fails", _named(str(error)))
    except Exception as error:
        probe.note("fails", type(error).__name__)
    else:
        probe.note("holds")


# -- a server ----------------------------------------------------------------------------------------------------------


class _Server:
    """A connection to a server whose answers are drawn. Statements and their values are noted."""

    def __init__(self, probe: Probe) -> None:
        self._desk = probe
        self.answers: list[list[tuple[Any, ...]]] = []

    def rows(self, statement: str, values: Mapping[str, Any], *, before: str | None = None) -> list[tuple[Any, ...]]:
        """Return the next answer."""
        shown = {
            name: type(value).__name__ if isinstance(value, uuid.UUID) else value for name, value in values.items()
        }
        self._desk.note(before, statement, shown)
        return self.answers.pop(0) if self.answers else []

    def noticed(self, statement: str) -> list[str]:
        """Return the details of notices."""
        self._desk.note(statement)
        return ["5 rows", "0 rows can't be removed"]

    def hold(self) -> None:
        """Stay at a moment."""
        self._desk.note("hold")

    def close(self) -> None:
        """Close the connection."""
        self._desk.note("close")


def servers(probe: Probe) -> None:
    """Ask a journal on a server everything, with answers that fit, and with none."""
    server = _Server(probe)
    store = postgres.PostgresJournal.__new__(postgres.PostgresJournal)
    store._connection = server  # type: ignore[assignment]
    store.vault = postgres.PostgresVault(server)  # type: ignore[arg-type]
    probe.note(isinstance(store.vault, EncryptedVault), store.blocks)
    entries = [Entry(0, b"0", bytes(32)), Entry(1, b"1", bytes(32))]
    first, durable = (
        Append("r", -1, entries, "RUNNING", 5.0, probe.draw(True, False), None, 7.0),
        probe.draw(True, False),
    )
    more = Append("r", 1, [Entry(2, b"2", bytes(32))], "SUCCESS", 6.0, durable, b"s")
    lease, head, row = Lease("r", 2, 9.0), Head("r", 1, bytes(32), b"s"), ("r", "p", "RUNNING", 1, 5.0, 6.0, 0.0)
    switch = Switch("tool:a", probe.draw(True, False), 5.0, "why", "ann")
    questions: list[tuple[Callable[..., Any], tuple[Any, ...], list[Any]]] = [
        (store.create, (first, "p", "ann", 4.0), [[(1,)], []]),
        (store.append, (more, probe.draw(None, 2)), [[], [], [probe.draw((1, 2), (2, 3))]]),
        (
            store.acquire,
            ("r", "ann", 5.0, 4.0),
            [probe.draw([("r", 3, 9.0)], []), [probe.draw(tuple(head), tuple(head))]],
        ),
        (store.claim, ("ann", 5.0, 4.0, 3), [[("r", 1, 9.0, 2.0, 1), ("s", 2, 9.0, 1.0, 2), ("q", 1, 9.0, 1.0, 1)]]),
        (store.claim, ("ann", 5.0, 4.0, 3, ("p",), {"r": 1}), [[("s", 2, 9.0, 1.0, 2)]]),
        (store.due, (5.0,), [[("p", 2), ("q", 1)]]),
        (store.renew, (lease, 5.0, 4.0), [[("r",)]]),
        (store.release, (lease,), [[]]),
        (store.read, ("r", probe.draw(0, 1)), [[tuple(entry) for entry in entries]]),
        (store.head, ("r",), [[tuple(head)]]),
        (store.sign, (head,), [[("r",)]]),
        (store.rows, (probe.draw(None, ["RUNNING"], ()),), [[row, ("s", *row[1:])]]),
        (store.row, ("r",), [[row]]),
        (lambda: list(store.names()), (), [[(1, "r"), (2, "s")], []]),
        (lambda: list(store.pruned()), (), [[(1, "r")], []]),
        (store.prune, (head, b"kept"), [[("r",)]]),
        (store.kept, ("r",), [[(b"kept",)]]),
        (store.switch, (switch,), [[(1,)]]),
        (store.switches, (probe.draw(None, "tool:a"),), [[tuple(switch)]]),
        (store.opened, (), [[("tool:a",)]]),
        (store.hold, (lease, "tool:a"), [[(probe.draw(True, False),)]]),
        (store.put_document, ("d", b"1"), [[]]),
        (store.document, ("d",), [[(b"1",)]]),
        (store.vault.put, ("r", probe.draw({"a": b"1"}, {})), [[(1,)]]),
        (store.vault.get, ("r",), [[("a", b"1")]]),
        (store.vault.erase, ("r",), [[], [(1,), (2,)]]),
        (store.vault.erase_all, (["r", "s"],), [[], [(1,)], [], [(2,)]]),
        (store.close, (), []),
    ]
    filters = {"program": probe.draw(None, "p"), "since": probe.draw(None, 5.0), "limit": probe.draw(None, 0, 2)}
    questions.append((lambda: store.rows(["RUNNING", "SUCCESS"], **filters), (), [[row]]))  # type: ignore[arg-type]
    for call, args, answers in probe.chance.sample(questions, 14):
        server.answers = list(answers) if probe.some(0.7) else []
        probe.ask(getattr(call, "__name__", "call"), call, *args)
