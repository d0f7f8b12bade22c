"""Fast: `stepward replay`, `verify` and `key`: what was changed is found, and receipts."""

from __future__ import annotations

import re
from functools import partialmethod
from pathlib import Path
from typing import Any

import pytest

from shops import as_json, database, says, shop, stepward
from stepward.vm.journal.sqlite_file import DatabaseFile
from stepward.vm.journal.store import JournalError

pytestmark = pytest.mark.usefixtures("in_shop")


def test_a_replay_tells_the_same() -> None:
    shop("--run-id", "r1")
    result = stepward("replay", "runs.db", "r1")
    assert result.exit_code == 0
    assert result.stdout.endswith("the same: the machine would have written 9 records as they are\n")
    data = as_json(stepward("replay", "runs.db", "r1", "--output-format", "json"))
    assert (data["same"], data["faults"], data["run"]["status"]) == (True, [], "SUCCESS")
    assert len(data["trace"]) == 9
    says(stepward("replay", "runs.db", "none"), 2, "error: there is no run `none`")
    says(stepward("replay", "none.db", "r1"), 2, "error: there is no journal at `none.db`")
    says(stepward("replay", "runs.db"), 2, "Missing argument 'RUN'")


def rewritten(seq: int, old: str, new: str) -> None:
    """Change a record of the only run, and hash everything behind it, and the head, anew."""
    from hashlib import sha256

    with database("runs.db") as connection:
        rows = connection.execute("SELECT seq, record FROM records ORDER BY seq").fetchall()
        before = ""
        for number, record in rows:
            text = record.decode()
            if number == seq:
                assert old in text
                text = text.replace(old, new)
            if number > seq:
                text = re.sub(r'"prev":"[0-9a-f]{64}"', f'"prev":"{before}"', text)
            digest = sha256(b"stepward.record.1\n" + text.encode()).digest()
            before = digest.hex()
            connection.execute(
                "UPDATE records SET record = ?, digest = ? WHERE seq = ?", (text.encode(), digest, number)
            )
        connection.execute("UPDATE runs SET digest = ?", (digest,))


def test_a_journal_rewritten_whole_is_found_by_running_it_again() -> None:
    shop("--run-id", "r1")
    rewritten(4, '"amount":20', '"amount":99')
    replayed = stepward("replay", "runs.db", "r1")
    assert replayed.exit_code == 1
    assert "not the same: record 4: `pay` has other arguments than the program says" in replayed.stdout
    data = as_json(stepward("replay", "runs.db", "r1", "--output-format", "json"))
    assert (data["same"], [fault["seq"] for fault in data["faults"]]) == (False, [4])
    verified = stepward("verify", "runs.db")
    assert verified.exit_code == 1
    assert "  error: record 4: `pay` has other arguments" in verified.stdout


def test_a_changed_bit_is_found_where_it_is() -> None:
    shop("--run-id", "r1")
    stepward("run", "ends.yaml", "--journal", "runs.db", "--run-id", "r2")
    assert stepward("verify", "runs.db").stdout.splitlines()[:3] == [
        "run `r1`: 9 records, intact",
        "run `r2`: 2 records, intact",
        "2 of 2 runs intact",
    ]
    with database("runs.db") as connection:
        (record,) = connection.execute("SELECT record FROM records WHERE run = 'r1' AND seq = 5").fetchone()
        changed = record.replace(b"paid 20", b"paid 21")
        connection.execute("UPDATE records SET record = ? WHERE run = 'r1' AND seq = 5", (changed,))
    result = stepward("verify", "runs.db")
    assert result.exit_code == 1
    assert "run `r1`: 9 records, 1 fault\n  error: record 5 was changed" in result.stdout
    assert "1 of 2 runs intact" in result.stdout
    assert stepward("verify", "runs.db", "r2").exit_code == 0
    data = as_json(stepward("verify", "runs.db", "r1", "--output-format", "json"))
    assert data["version"] == 1
    (run,) = data["runs"]
    assert (run["intact"], run["records"], [fault["seq"] for fault in run["faults"]]) == (False, 9, [5])
    assert run.keys() == {"run", "records", "head", "signed_by", "receipts", "intact", "faults", "changed", "pruned"}
    for command in (["runs", "r1"], ["replay", "runs.db", "r1"], ["runs", "receipt", "r1"], ["runs", "cancel", "r1"]):
        says(stepward(*command), 2, "error: record 5 of run `r1` is not what was written; see `stepward verify`")


def test_a_journal_whose_columns_have_other_types_is_damaged_not_a_bug() -> None:
    shop("--run-id", "r1")
    with database("runs.db") as connection:
        connection.execute("UPDATE records SET record = CAST(record AS TEXT) WHERE seq = 3")
    assert stepward("verify", "runs.db").exit_code == 1
    says(stepward("runs", "r1"), 2, "error: record 3 of run `r1` is not what was written")


def test_a_run_that_is_gone_or_was_never_there_is_a_fault() -> None:
    shop("--run-id", "r1")
    result = stepward("verify", "runs.db", "r9")
    assert result.exit_code == 1
    assert "error: there is no run `r9`" in result.stdout


def test_a_pair_of_keys_signs_and_verifies() -> None:
    made = stepward("key", "k")
    assert re.fullmatch("key [0-9a-f]{16}: private `k`, public `k.pub`\n", made.stdout)
    assert Path("k").stat().st_mode & 0o777 == 0o600
    says(stepward("key", "k"), 2, "error: `k.pub` exists already, and a key is never written over")
    Path("k.pub").rename("public")
    says(stepward("key", "k"), 2, "error: `k` exists already, and a key is never written over")
    says(stepward("key", "none/k"), 2, "error: `none/k` can't be written: no such file")
    shop("--run-id", "r1", "--key", "k")
    assert "run `r1`: 9 records, signed by " in stepward("verify", "runs.db", "--key", "public").stdout
    assert "note:" not in stepward("verify", "runs.db", "--key", "public").stdout
    assert "note: without a key or a receipt" in stepward("verify", "runs.db").stdout
    says(stepward("verify", "runs.db", "--key", "k"), 2, "error: `k` is a private key")
    stepward("key", "other")
    assert stepward("verify", "runs.db", "--key", "other.pub").exit_code == 1
    assert stepward("verify", "runs.db", "--key", "other.pub", "--key", "public").exit_code == 0
    shop("--run-id", "r2", "--key", "k", amount=60)
    assert stepward("runs", "cancel", "r2", "--key", "k").exit_code == 0
    assert stepward("runs", "erase", "r2", "--yes", "--key", "k").exit_code == 0
    assert stepward("verify", "runs.db", "--key", "public").exit_code == 0


def test_runs_of_an_old_key_go_on_under_a_new_one_which_then_signs_them_all() -> None:
    stepward("key", "old")
    stepward("key", "new")
    shop("--run-id", "r1", "--key", "old")
    shop("--run-id", "r2", "--key", "old", amount=60)
    says(stepward("runs", "cancel", "r2", "--key", "new"), 2, "go on with the key that has signed it, name that one")
    says(stepward("runs", "cancel", "r2", "--old-key", "old.pub"), 2, "`--old-key` names a key of before, and there is")
    says(stepward("runs", "cancel", "r2", "--key", "new", "--old-key", "old"), 2, "`old` is a private key")
    both = ("--key", "new", "--old-key", "old.pub")
    assert stepward("runs", "receipt", "r2", *both, "-o", "r2.json").exit_code == 0
    assert stepward("runs", "cancel", "r2", *both).exit_code == 0
    assert stepward("verify", "runs.db", "--key", "new.pub").exit_code == 1
    says(stepward("runs", "sign", "--key", "new"), 2, "the old public one with --old-key")
    result = stepward("runs", "sign", *both)
    assert (result.exit_code, result.stdout.startswith("1 run signed by ")) == (0, True)
    assert result.stdout.endswith(", 1 had been\n")
    assert stepward("verify", "runs.db", "--key", "new.pub", "--receipt", "r2.json").exit_code == 0
    shop("--run-id", "r3")
    result = stepward("runs", "sign", *both)
    assert (result.exit_code, "left: run `r3`: the stored head has no signature" in result.stderr) == (1, True)
    data = as_json(stepward("runs", "sign", *both, "--output-format", "json"))
    assert (data["signed"], data["had"], [one["run"] for one in data["left"]]) == (0, 2, ["r3"])


def test_a_receipt_shows_what_was_cut() -> None:
    stepward("key", "k")
    shop("--run-id", "r1", "--key", "k")
    printed = stepward("runs", "receipt", "r1")
    assert as_json(printed).items() >= {"run": "r1", "seq": 8, "status": "SUCCESS", "signature": None}.items()
    assert stepward("runs", "receipt", "r1", "--key", "k", "-o", "receipt.json").stdout == ""
    says(stepward("runs", "receipt", "r1", "-o", "none/r"), 2, "error: `none/r` can't be written: no such file")
    verified = stepward("verify", "runs.db", "--receipt", "receipt.json", "--key", "k.pub")
    assert ", 1 receipt, intact" in verified.stdout
    Path("unsigned.json").write_text(printed.stdout)
    assert stepward("verify", "runs.db", "--receipt", "unsigned.json").exit_code == 0
    assert stepward("verify", "runs.db", "--receipt", "unsigned.json", "--key", "k.pub").exit_code == 1
    stepward("key", "other")
    shop("--run-id", "r2")
    for run, key in (("r1", "other"), ("r2", "k")):
        refused = stepward("runs", "receipt", run, "--key", key)
        says(refused, 2, f"error: the head of run `{run}` is not signed by the key")
    with database("runs.db") as connection:
        connection.execute("DELETE FROM records")
        connection.execute("DELETE FROM runs")
    gone = stepward("verify", "runs.db", "--receipt", "receipt.json")
    assert gone.exit_code == 1
    assert "there is no run `r1`" in gone.stdout
    for file, words in (("none.json", "can't be read: no such file"), ("list.yaml", "one JSON object")):
        says(
            stepward("verify", "runs.db", "--receipt", file),
            2,
            f"error: {'the receipt ' * (file[0] == 'n')}`{file}`",
            words,
        )


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("fails", ["opening", "writing"])
def test_a_new_copy_that_can_not_be_written_leaves_no_file(
    monkeypatch: pytest.MonkeyPatch, fails: str, there: bool
) -> None:
    """What was there stays."""
    shop("--run-id", "r1")
    if there:
        assert stepward("runs", "copy", "copy.db").exit_code == 0
        shop("--run-id", "r2")

    def full(self: DatabaseFile, real: Any, *given: Any, **named: Any) -> Any:
        if self._path.endswith("copy.db"):
            raise JournalError("the disk is full; make room, and try again")
        return real(self, *given, **named)

    method = "begin" if fails == "writing" else "_connect"
    monkeypatch.setattr(DatabaseFile, method, partialmethod(full, getattr(DatabaseFile, method)))
    says(stepward("runs", "copy", "copy.db"), 2, "the disk is full")
    assert {path.name for path in Path().glob("copy.db*")} - {"copy.db-wal", "copy.db-shm"} == (
        {"copy.db", "copy.db.vault"} if there else set()
    )


def test_a_journal_is_copied_and_a_copy_is_a_journal() -> None:
    shop("--run-id", "r1")
    shop("--run-id", "r2", amount=60)
    result = stepward("runs", "copy", "copy.db")
    assert (result.exit_code, result.stdout) == (0, "2 runs in `copy.db`, 15 records copied\n")
    assert stepward("verify", "copy.db").exit_code == 0
    assert stepward("runs", "--journal", "copy.db").stdout == stepward("runs").stdout
    assert stepward("runs", "cancel", "r2").exit_code == 0
    data = as_json(stepward("runs", "copy", "copy.db", "--output-format", "json"))
    assert data == {"version": 1, "runs": 2, "records": 2, "left": []}
    with database("runs.db") as connection:
        connection.execute("UPDATE records SET record = ? WHERE run = ? AND seq = 1", (b"{}", "r1"))
    result = stepward("runs", "copy", "other.db")
    assert (result.exit_code, "left: run `r1`: record 1 was changed" in result.stderr) == (1, True)
    assert result.stdout.startswith("1 run in `other.db`")


def test_what_can_not_be_copied_is_told() -> None:
    shop("--run-id", "r1")
    says(stepward("runs", "copy", "./runs.db"), 2, "a journal can't be copied into itself")
    says(stepward("runs", "copy", "copy.db", "--journal", "none.db"), 2, "there is no journal at `none.db`")
    assert not Path("copy.db").exists()
    Path("text").write_text("this is no database, although it is long enough for its head to be looked at " * 3)
    says(stepward("runs", "copy", "text"), 2, "`text` can't be opened: it is no database")


def test_old_runs_are_pruned_and_their_receipts_still_verify() -> None:
    shop("--run-id", "r1")
    shop("--run-id", "r2", amount=60)
    assert stepward("runs", "receipt", "r1", "-o", "r1.json").exit_code == 0
    says(stepward("runs", "prune"), 2, "--older-than")
    says(stepward("runs", "prune", "--older-than", "soon"), 2, "--older-than: `soon` is no time")
    assert stepward("runs", "prune", "--older-than", "1d").stdout == "0 runs to prune; add `--apply`\n"
    assert stepward("runs", "prune", "--older-than", "0s").stdout == "r1\n1 run to prune; add `--apply`\n"
    data = as_json(stepward("runs", "prune", "--older-than", "0s", "--apply", "--output-format", "json"))
    assert data == {"version": 1, "applied": True, "pruned": ["r1"], "left": []}
    result = stepward("verify", "runs.db", "--receipt", "r1.json")
    assert (result.exit_code, "run `r1`: pruned, 10 records, 1 receipt, intact\n" in result.stdout) == (0, True)
    assert as_json(stepward("verify", "runs.db", "r1", "--output-format", "json"))["runs"][0]["pruned"] is True
    says(stepward("runs", "r1"), 2, "run `r1` was pruned")
    says(shop("--run-id", "r1"), 2, "run `r1` was pruned, and no other run gets its id")
    with database("runs.db") as connection:
        connection.execute("UPDATE runs SET kept = x'00'")
    assert "what is kept of a pruned run can't be read" in stepward("verify", "runs.db", "r1").stdout


def test_runs_that_reach_an_open_breaker_are_held_and_who_closes_it_is_recorded() -> None:
    shop("--run-id", "r1")
    says(stepward("breaker", "open", "pay", "--why", "x", "--by", "ann"), 2, "`pay` is no breaker")
    opened = ("breaker", "open", "tool:pay", "--why", "the bank is down", "--by", "ann")
    assert stepward(*opened).stdout == "breaker `tool:pay` is open\n"
    assert stepward(*opened).stdout == "breaker `tool:pay` is open, as it was before\n"
    result = shop("--run-id", "r2")
    assert (result.exit_code, "held: breaker `tool:pay` is open; after" in result.stderr) == (4, True)
    assert "pick it up" not in result.stdout, "the breaker holds it from whoever does"
    assert "tool:pay" in stepward("breaker", "list").stdout
    assert stepward("breaker", "close", "tool:pay", "--why", "it is up", "--by", "bob").exit_code == 0
    assert stepward("breaker", "list").stdout == "0 open breakers\n"
    data = as_json(stepward("breaker", "list", "--all", "--output-format", "json"))["breakers"]
    assert [(one["state"], one["by"], one["why"]) for one in data] == [
        ("open", "ann", "the bank is down"),
        ("closed", "bob", "it is up"),
    ]
    recovered = stepward("runs", "recover", "--tools", "tools.py", "--model", "script:replies.yaml")
    assert recovered.exit_code == 0, recovered.output


def test_a_tool_that_fails_often_is_not_called_any_more() -> None:
    for number in range(2):
        assert shop("--run-id", f"f{number}", "--break-after", "1", amount=8).exit_code == (1 if number == 0 else 4)
    assert "1 failures in a row" in stepward("breaker", "list").stdout
