"""The campaign on the PostgreSQL store: it holds, and a store there that lacks a defence is breached."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing

import psycopg
import pytest

from canaries import repeated_here
from databases import Place
from paths import ROOT
from sizes import size
from stepward.sabotage.attacks import disks, drawn, files, kills, operations
from stepward.sabotage.campaign import Orders, attack_program
from stepward.sabotage.invariants import Outcome
from stepward.sabotage.operations.stores import new_stores
from stepward.sabotage.registry import ATTACKS, attacks_in
from stepward.vm import Program
from stepward.vm.journal import postgres as module
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.journal.postgres import PostgresJournal, PostgresVault
from stepward.vm.journal.records import document_digest
from stepward.vm.journal.store import Journal, JournalError

PROGRAM = ROOT / "specs/programs/good/customer_refund.yaml"
OWN_STORES = [attack for module in (disks, drawn, files, kills) for attack in attacks_in(module)]
PLAYED = tuple(attack.name for attack in ATTACKS if attack.store == "memory" and attack not in OWN_STORES)
PARTS = size(48, 4)
"""Four parts of the attacks are played: all by night, each twelfth by day. Each is played on the store in memory by
day, by `test_sabotage.py`, and the kit of `test_journal_stores.py` holds the stores to one contract."""

SECRET = {
    "name": "secret",
    "inputs": {"card": {"type": "string", "sensitive": True}},
    "tools": {"pay": {"effect": "write", "idempotent": False, "args": {"card": {"type": "string"}}}},
    "steps": [
        {"id": "first", "type": "tool", "tool": "pay", "args": {"card": "$card"}},
        {"id": "second", "type": "tool", "tool": "pay", "args": {"card": "$card"}},
    ],
}


def keeps_values(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PostgresVault, "erase", lambda self, run: len(self.get(run)))


def without(name: str, text: str) -> Callable[[pytest.MonkeyPatch], None]:
    def changed(patch: pytest.MonkeyPatch) -> None:
        statement = getattr(module, name)
        assert text in statement
        patch.setattr(module, name, statement.replace(text, ""))

    return changed


WEAK = [
    ("two-drivers", without("_LEASE", " AND (holder = %(holder)s OR (expires <= %(now)s OR expires = 'NaN'))")),
    ("stale-driver", without("_EXPIRE", " AND fence = %(fence)s")),
    ("cancelled-anywhere", without("_APPEND", " AND seq = %(expected)s")),
    ("erased-run-asked-for", keeps_values),
]


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_no_attack_breaches_the_machine_on_the_server(postgres: Place, part: int) -> None:
    orders = Orders(examples=size(1, 6), attacks=PLAYED[part::PARTS], postgres=postgres.conninfo)
    matrix = attack_program(Program.load(PROGRAM), orders=orders)
    assert matrix.ok, (*matrix.breaches, *matrix.unconfirmed)
    assert matrix.ran > 48 // PARTS
    with psycopg.connect(postgres.conninfo) as connection:
        assert connection.execute("SELECT nspname FROM pg_namespace WHERE nspname ~ 'sabotage'").fetchall() == []


@pytest.mark.slow
@pytest.mark.parametrize(("attack", "weaken"), WEAK, ids=[attack for attack, _ in WEAK])
def test_a_server_without_a_defence_is_breached_there_and_again(
    postgres: Place, attack: str, weaken: Callable[[pytest.MonkeyPatch], None]
) -> None:
    program = Program.from_dict(dict(SECRET))
    with pytest.MonkeyPatch.context() as patch:
        weaken(patch)
        matrix = attack_program(
            program, orders=Orders(attacks=(attack,), postgres=postgres.conninfo), confirm=repeated_here
        )
        assert len(matrix.breaches) == 1
        script = matrix.breaches[0]
        assert script.replay(postgres.conninfo)[0] is Outcome.BREACHED
        assert script.replay()[0] is not Outcome.BREACHED, "the store in memory has the defence"
    assert script.replay(postgres.conninfo)[0] is not Outcome.BREACHED


def test_operations_are_played_in_stores_on_the_server(postgres: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """They were played in memory and in files alone, so that nobody saw what a copy within one database comes to."""
    asked: list[Journal] = []

    def noting(beside: Journal, *_: object, in_files: bool) -> type[Journal]:
        asked.append(beside)
        return MemoryJournal

    monkeypatch.setattr(operations, "new_stores", noting)
    orders = Orders(examples=1, attacks=("operations-in-any-order",), postgres=postgres.conninfo)
    assert attack_program(Program.load(PROGRAM), orders=orders).ok
    assert [type(store) for store in asked] == [PostgresJournal] * operations.OperationsInAnyOrder.sequences
    with closing(PostgresJournal(postgres.conninfo, schema=postgres.schema)) as beside, ExitStack() as stack:
        made = [new_stores(beside, stack, in_files=True)() for _ in range(2)]
        assert [type(store) for store in made] == [PostgresJournal] * 2
        digest = document_digest(b"text")
        made[0].put_document(digest, b"text")
        assert made[1].document(digest) is None


def test_a_server_that_is_not_there_is_said(postgres: Place) -> None:
    del postgres  # it says that the client library is there
    orders = Orders(examples=1, attacks=PLAYED[:1], postgres="host=127.0.0.1 port=1")
    with pytest.raises(JournalError, match="can't be opened"):
        attack_program(Program.load(PROGRAM), orders=orders)
