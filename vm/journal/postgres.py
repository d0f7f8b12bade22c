"""A store for many machines: one schema of a PostgreSQL database."""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Final

from stepward.vm.arguments import TEXT, require
from stepward.vm.journal.encryption import EncryptedVault
from stepward.vm.journal.refusals import append_refused, erased, lease_lost, no_such_run
from stepward.vm.journal.store import KEYS, NOBODY, Append, Entry, Head, JournalError, Lease, Row, Switch

if TYPE_CHECKING:
    from stepward.vm.journal.postgres_connection import PostgresConnection
    from stepward.vm.journal.run_keys import RunKeys
    from stepward.vm.journal.store import Journal, Vault

PATIENCE_SECONDS: Final = 30
"""How long an erasure waits for transactions that still see the deleted rows."""

PAGE: Final = 1_000
"""Number of run names per query."""

# Each append is one statement: one round trip, and atomic. It sets what the commit waits for, for this transaction
# only. `writer` identifies the entries of an append that is repeated because the answer to it was lost.
_ENTRIES: Final = """unnest(%(seqs)b::bigint[], %(records)b::bytea[], %(digests)b::bytea[])
    AS entry (seq, record, digest), set_config('synchronous_commit', %(commit)s, true)"""
_CREATE: Final = f"""WITH made AS (
        INSERT INTO runs (run, program, status, seq, digest, signature, started, updated, holder, fence, expires,
            due)
        VALUES (%(run)s, %(program)s, %(status)s, %(seq)s, %(digest)b, %(signature)b, %(now)s, %(now)s, %(holder)s, 1,
            %(expires)s, %(due)s)
        ON CONFLICT (run) DO NOTHING RETURNING run)
    INSERT INTO records (run, seq, record, digest, writer)
    SELECT made.run, entry.seq, entry.record, entry.digest, %(writer)s FROM made, {_ENTRIES} RETURNING seq"""
_APPEND: Final = f"""WITH advanced AS (
        UPDATE runs SET status = %(status)s, seq = %(seq)s, digest = %(digest)b, signature = %(signature)b,
            updated = %(now)s, due = %(due)s, held = NULL
        WHERE run = %(run)s AND seq = %(expected)s AND fence = coalesce(%(fence)s::bigint, fence)
            AND kept IS NULL RETURNING run)
    INSERT INTO records (run, seq, record, digest, writer)
    SELECT advanced.run, entry.seq, entry.record, entry.digest, %(writer)s FROM advanced, {_ENTRIES} RETURNING seq"""
_WRITTEN: Final = "SELECT seq FROM records WHERE run = %(run)s AND seq = %(seq)s AND writer = %(writer)s"
# NaN, above all numbers here, is no end of a lease: SQLite reads what is none as 0, too.
_FREE: Final = "(expires <= %(now)s OR expires = 'NaN')"
_LEASE: Final = f"""UPDATE runs SET holder = %(holder)s, fence = fence + 1, expires = %(expires)s
    WHERE run = %(run)s AND (holder = %(holder)s OR {_FREE}) AND kept IS NULL
    RETURNING run, fence, expires"""
# Rows that another call is about to lease are skipped, not waited for. A repeated call finds its own leases.
_DUE: Final = f"due <= %(now)s AND ({_FREE} OR holder = %(holder)s) AND kept IS NULL"
_CLAIM: Final = f"""WITH found AS (
        SELECT number FROM runs WHERE {_DUE}
        AND (%(programs)s::text[] IS NULL OR program = ANY(%(programs)s))
        AND NOT EXISTS (SELECT 1 FROM unnest(%(passed)s::text[], %(seqs)s::bigint[]) AS passed (run, seq)
            WHERE passed.run = runs.run AND passed.seq = runs.seq)
        ORDER BY due, number LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED)
    UPDATE runs SET holder = %(holder)s, fence = fence + 1, expires = %(expires)s FROM found
    WHERE runs.number = found.number RETURNING runs.run, runs.fence, runs.expires, runs.due, runs.number"""
_SIGN: Final = """UPDATE runs SET signature = %(signature)b
    WHERE run = %(run)s AND seq = %(seq)s AND digest = %(digest)b AND kept IS NULL RETURNING run"""
# The row stays, so that no other run is made with its id. A driver that is still there loses its lease.
_PRUNE: Final = """WITH gone AS (
        UPDATE runs SET kept = %(kept)b, signature = NULL, due = NULL, held = NULL, fence = fence + 1, expires = 0
        WHERE run = %(run)s AND seq = %(seq)s AND digest = %(digest)b RETURNING run),
    cleared AS (DELETE FROM records USING gone WHERE records.run = gone.run)
    SELECT run FROM gone"""
_FENCE: Final = "SELECT seq, fence FROM runs WHERE run = %(run)s AND kept IS NULL"
_OPENED: Final = """SELECT name FROM switches AS one WHERE is_open
    AND NOT EXISTS (SELECT 1 FROM switches AS later WHERE later.name = one.name AND later.number > one.number)"""
# Whoever switches or holds waits for the others of the same breaker: a lock that ends with the transaction.
_TURN: Final = "SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || %(name)s, 1))"
_SWITCH: Final = f"""WITH made AS (
        INSERT INTO switches (name, is_open, at, why, by)
        SELECT %(name)s, %(is_open)s, %(at)s, %(why)s, %(by)s
        WHERE %(is_open)s <> EXISTS ({_OPENED} AND one.name = %(name)s) RETURNING is_open),
    freed AS (UPDATE runs SET due = 0, held = NULL FROM made WHERE held = %(name)s AND NOT made.is_open)
    SELECT is_open FROM made"""
_HOLD: Final = f"""UPDATE runs SET held = %(name)s, due = NULL, expires = 0
    WHERE run = %(run)s AND fence = %(fence)s AND kept IS NULL AND EXISTS ({_OPENED} AND one.name = %(name)s)
    RETURNING run"""
_EXPIRE: Final = "UPDATE runs SET expires = %(expires)s WHERE run = %(run)s AND fence = %(fence)s RETURNING run"
# The row with an empty reference is the gate of a run: empty while the vault accepts values, a tombstone afterwards.
# Each put locks it until its commit, so that an erasure, which waits for the lock, sees all values.
_PUT: Final = """WITH gate AS (
        INSERT INTO secrets (run, reference, value) VALUES (%(run)s, '', '')
        ON CONFLICT (run, reference) DO UPDATE SET value = secrets.value RETURNING value)
    INSERT INTO secrets (run, reference, value)
    SELECT %(run)s, secret.reference, secret.value FROM gate, unnest(%(references)s::text[], %(values)b::bytea[])
        AS secret (reference, value) WHERE gate.value = ''
    ON CONFLICT (run, reference) DO UPDATE SET value = excluded.value RETURNING reference"""
_MARK_ERASED: Final = """INSERT INTO secrets (run, reference, value) VALUES (%(run)s, '', '\\x01')
    ON CONFLICT (run, reference) DO UPDATE SET value = excluded.value RETURNING run"""
_ERASE: Final = "DELETE FROM secrets WHERE run = %(run)s AND reference <> '' RETURNING 1"


class PostgresVault:
    """The values of a PostgresJournal's runs, in a table of their own.

    After `erase` no file of the table holds them. PostgreSQL's write-ahead log does until it is recycled, and so do its
    archives, lagging replicas, backups, and the server's own log if it logs parameters.
    """

    def __init__(self, connection: PostgresConnection) -> None:
        self._connection = connection

    def put(self, run: str, secrets: Mapping[str, bytes]) -> None:
        if secrets:
            values = {"run": run, "references": list(secrets), "values": list(secrets.values())}
            if not self._connection.rows(_PUT, values):
                raise erased(run)

    def get(self, run: str) -> dict[str, bytes]:
        query = "SELECT reference, value FROM secrets WHERE run = %(run)s AND reference <> ''"
        found = self._connection.rows(query, {"run": run})
        return {reference: value for reference, value in found if type(value) is bytes}

    def erase(self, run: str) -> int:
        """Destroy every value of a run, and return their number; on return no file of the table holds them.

        Call it again if it fails: then it destroys values that are deleted but still in a file.
        """
        return self.erase_all([run])

    def erase_all(self, runs: Collection[str]) -> int:
        count = 0
        for run in runs:
            self._connection.rows(_MARK_ERASED, {"run": run})
            count += len(self._connection.rows(_ERASE, {"run": run}))
        deadline = time.monotonic() + PATIENCE_SECONDS
        # Rewriting the table retains deleted rows that some transaction in the database could still see; the server
        # reports their number at the start of a notice's detail.
        while not any(detail.startswith("0 ") for detail in self._connection.noticed("VACUUM (FULL, VERBOSE) secrets")):
            if time.monotonic() > deadline:
                why = "a transaction that began before still sees them; end it, and erase again"
                which = ", ".join(f"`{run}`" for run in list(runs)[:3])
                raise JournalError(f"the values of the run {which} are deleted but not destroyed: {why}")
            time.sleep(0.1)
        return count


class PostgresJournal:
    """Runs in a schema of a PostgreSQL database, made on first use unless `create` is false.

    `conninfo` is that of libpq: a URL or `key=value` pairs. If the connection is lost, it is opened again once and the
    call repeated: an append recognises its own entries, a lease may skip a fencing number, an erasure may count none.
    Durable appends are on the server's disk on return. A pooler before the server must keep sessions. With `keys`,
    sensitive values are encrypted (`encryption.py`).
    """

    blocks = True

    def __init__(
        self, conninfo: str, *, schema: str = "stepward", create: bool = True, keys: RunKeys | None = None
    ) -> None:
        require(TEXT, conninfo=conninfo, schema=schema)
        require(KEYS.or_none(), keys=keys)
        try:
            from stepward.vm.journal.postgres_connection import PostgresConnection
        except ImportError as error:
            advice = "install Stepward with its extra: `pip install 'stepward[postgres]'`"
            raise JournalError(f"a journal in PostgreSQL needs psycopg ({error}); {advice}") from error
        self._connection = PostgresConnection(conninfo, schema, create=create)
        self._opened = (conninfo, schema, keys)
        values = PostgresVault(self._connection)
        self.vault: Vault = values if keys is None else EncryptedVault(values, keys)

    def create(self, append: Append, program: str, holder: str, ttl: float) -> Lease | None:
        assert append.expected == -1, "a new run has no entry before its first"
        lease = Lease(append.run, 1, append.now + ttl)
        values = {"program": program, "holder": holder, "expires": lease.expires}
        return lease if self._write(_CREATE, append, values) else None

    def append(self, append: Append, fence: int | None) -> None:
        if not self._write(_APPEND, append, {"expected": append.expected, "fence": fence}):
            has = self._connection.rows(_FENCE, {"run": append.run})
            raise append_refused(append, fence, has[0] if has else None)

    def acquire(self, run: str, holder: str, now: float, ttl: float) -> Lease | None:
        leased = self._connection.rows(_LEASE, {"run": run, "holder": holder, "now": now, "expires": now + ttl})
        if leased:
            return Lease._make(leased[0])
        if not self.head(run):
            raise no_such_run(run)
        return None

    def claim(
        self,
        holder: str,
        now: float,
        ttl: float,
        limit: int,
        programs: Collection[str] | None = None,
        passed: Mapping[str, int] = NOBODY,
    ) -> list[Lease]:
        values = {
            "holder": holder,
            "now": now,
            "expires": now + ttl,
            "limit": limit,
            "programs": None if programs is None else list(programs),
            "passed": list(passed),
            "seqs": list(passed.values()),
        }
        claimed = sorted(self._connection.rows(_CLAIM, values), key=lambda row: row[3:])
        return [Lease(*row[:3]) for row in claimed]

    def due(self, now: float) -> dict[str, int]:
        which = f"due <= %(now)s AND {_FREE} AND kept IS NULL"
        query = f"SELECT program, count(*) FROM runs WHERE {which} GROUP BY program"
        return dict(self._connection.rows(query, {"now": now}))

    def renew(self, lease: Lease, now: float, ttl: float) -> Lease:
        renewed = lease._replace(expires=now + ttl)
        if not self._connection.rows(_EXPIRE, renewed._asdict()):
            raise lease_lost(lease.run, lease.fence)
        return renewed

    def release(self, lease: Lease) -> None:
        self._connection.rows(_EXPIRE, lease._replace(expires=0.0)._asdict())

    def read(self, run: str, start: int = 0) -> list[Entry]:
        query = "SELECT seq, record, digest FROM records WHERE run = %(run)s AND seq >= %(start)s ORDER BY seq"
        return list(map(Entry._make, self._connection.rows(query, {"run": run, "start": start})))

    def head(self, run: str) -> Head | None:
        query = "SELECT run, seq, digest, signature FROM runs WHERE run = %(run)s AND kept IS NULL"
        found = self._connection.rows(query, {"run": run})
        return Head._make(found[0]) if found else None

    def sign(self, head: Head) -> bool:
        return bool(self._connection.rows(_SIGN, head._asdict()))

    def rows(
        self,
        statuses: Iterable[str] | None = None,
        *,
        program: str | None = None,
        since: float | None = None,
        limit: int | None = None,
    ) -> list[Row]:
        query = """SELECT run, program, status, seq, started, updated, expires FROM runs
            WHERE kept IS NULL AND (%(statuses)s::text[] IS NULL OR status = ANY(%(statuses)s))
            AND program = coalesce(%(program)s::text, program) AND started >= coalesce(%(since)s::float8, started)
            ORDER BY started DESC, number DESC LIMIT %(limit)s::bigint"""
        values = {
            "statuses": None if statuses is None else list(statuses),
            "program": program,
            "since": since,
            "limit": limit,
        }
        return [Row.read(found) for found in reversed(self._connection.rows(query, values))]

    def row(self, run: str) -> Row | None:
        query = """SELECT run, program, status, seq, started, updated, expires FROM runs
            WHERE run = %(run)s AND kept IS NULL"""
        found = self._connection.rows(query, {"run": run})
        return Row.read(found[0]) if found else None

    def names(self) -> Iterator[str]:
        return self._named("kept IS NULL")

    def pruned(self) -> Iterator[str]:
        return self._named("kept IS NOT NULL")

    def _named(self, which: str) -> Iterator[str]:
        query = f"SELECT number, run FROM runs WHERE number > %(last)s AND {which} ORDER BY number LIMIT %(page)s"
        last: int | None = -1
        while last is not None:
            page = self._connection.rows(query, {"last": last, "page": PAGE})
            last = page[-1][0] if page else None
            yield from (run for _, run in page)

    def prune(self, head: Head, kept: bytes) -> bool:
        return bool(self._connection.rows(_PRUNE, head._asdict() | {"kept": kept}))

    def kept(self, run: str) -> bytes | None:
        found = self._connection.rows("SELECT kept FROM runs WHERE run = %(run)s", {"run": run})
        return found[0][0] if found else None

    def switch(self, switch: Switch) -> bool:
        return bool(self._connection.rows(_SWITCH, switch._asdict(), before=_TURN))

    def switches(self, name: str | None = None) -> list[Switch]:
        query = """SELECT name, is_open, at, why, by FROM switches WHERE name = coalesce(%(name)s::text, name)
            ORDER BY number"""
        return list(map(Switch.read, self._connection.rows(query, {"name": name})))

    def opened(self) -> frozenset[str]:
        return frozenset(name for (name,) in self._connection.rows(_OPENED, {}))

    def hold(self, lease: Lease, name: str) -> bool:
        values = {"run": lease.run, "fence": lease.fence, "name": name}
        if self._connection.rows(_HOLD, values, before=_TURN):
            return True
        has = self._connection.rows(_FENCE, values)
        if not has or has[0][1] != lease.fence:
            raise lease_lost(lease.run, lease.fence)
        return False

    @contextmanager
    def frozen(self) -> Iterator[Journal]:
        conninfo, schema, keys = self._opened
        with closing(PostgresJournal(conninfo, schema=schema, create=False, keys=keys)) as still:
            still._connection.hold()
            yield still

    def put_document(self, digest: str, text: bytes) -> None:
        statement = """INSERT INTO documents (digest, text) VALUES (%(digest)s, %(text)b)
            ON CONFLICT (digest) DO NOTHING RETURNING digest"""
        self._connection.rows(statement, {"digest": digest, "text": text})

    def document(self, digest: str) -> bytes | None:
        found = self._connection.rows("SELECT text FROM documents WHERE digest = %(digest)s", {"digest": digest})
        return found[0][0] if found else None

    def close(self) -> None:
        self._connection.close()

    def _write(self, statement: str, append: Append, values: Mapping[str, object]) -> bool:
        """Add entries by a statement that changes nothing if they don't fit; return whether they are stored."""
        last = append.entries[-1]
        assert last.seq == append.expected + len(append.entries), "entries follow the expected one without a gap"
        seqs, records, digests = map(list, zip(*append.entries, strict=True))
        everything = {
            **append._asdict(),
            **values,
            "seq": last.seq,
            "digest": last.digest,
            "seqs": seqs,
            "records": records,
            "digests": digests,
            "writer": uuid.uuid4(),
            "commit": "on" if append.durable else "off",
        }
        return bool(self._connection.rows(statement, everything) or self._connection.rows(_WRITTEN, everything))
