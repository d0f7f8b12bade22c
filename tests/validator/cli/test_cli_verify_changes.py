"""Fast: `stepward verify` says what was changed in a record, where a copy or the program can tell."""

from __future__ import annotations

import shutil

import pytest

from shops import as_json, database, shop, stepward

pytestmark = pytest.mark.usefixtures("in_shop")


def changed(kind: str, old: str, new: str, *, behind: str = "") -> int:
    """Change the text of the first record of a kind, as somebody who knows no digests would, and return its number."""
    with database("runs.db") as connection:
        for seq, record in connection.execute("SELECT seq, record FROM records ORDER BY seq").fetchall():
            text = record.decode()
            if f'"kind":"{kind}"' in text and old in text and behind in text:
                connection.execute(
                    "UPDATE records SET record = ? WHERE seq = ?", (text.replace(old, new).encode(), seq)
                )
                return int(seq)
    raise AssertionError(f"no record `{kind}` has `{old}`")


@pytest.fixture(autouse=True)
def _run_and_copy(in_shop: None) -> None:
    shop("--run-id", "r1")
    shutil.copy("runs.db", "copy.db")


def test_a_copy_shows_what_was_changed_value_by_value() -> None:
    seq = changed("started", '"amount":20', '"amount":99')
    result = stepward("verify", "runs.db", "--copy", "copy.db")
    assert result.exit_code == 1
    assert (
        f"  record {seq} was changed; the copy has it as it was written:\n    body.inputs.amount: 20 → 99\n"
        in result.stdout
    )
    data = as_json(stepward("verify", "runs.db", "--copy", "copy.db", "--output-format", "json"))
    (one,) = data["runs"][0]["changed"]
    assert one == {
        "seq": seq,
        "known_from": "copy",
        "differences": [{"path": ["body", "inputs", "amount"], "written": 20, "present": 99}],
    }


def test_a_copy_that_was_changed_as_well_says_nothing() -> None:
    changed("started", '"amount":20', '"amount":99')
    shutil.copy("runs.db", "copy.db")
    result = stepward("verify", "runs.db", "--copy", "copy.db")
    assert result.exit_code == 1
    assert "was changed; the copy" not in result.stdout
    assert (
        as_json(stepward("verify", "runs.db", "--copy", "copy.db", "--output-format", "json"))["runs"][0]["changed"]
        == []
    )


def test_what_the_machine_decides_is_known_without_a_copy_and_what_came_from_outside_is_not() -> None:
    seq = changed("branched", '"branch":"', '"branch":"no-')
    result = stepward("verify", "runs.db")
    said = f"  record {seq} was changed; the program says how it was written, and the chain confirms it:\n"
    assert f"{said}    body.branch: " in result.stdout
    assert '→ "no-' in result.stdout
    shutil.copy("copy.db", "runs.db")
    changed("attempt", '"kind":"success"', '"kind":"skipped"')
    assert "was changed; the program" not in stepward("verify", "runs.db").stdout


def test_bytes_that_are_no_record_any_more_are_said_to_be_none() -> None:
    seq = changed("attempt", '{"at":', '["at":')
    result = stepward("verify", "runs.db", "--copy", "copy.db")
    assert (
        f"record {seq} was changed; the copy has it as it was written:\n    what is here is no record any more\n"
        in result.stdout
    )


def test_an_intact_journal_has_no_changes_and_a_copy_that_is_none_is_refused() -> None:
    assert as_json(stepward("verify", "runs.db", "--output-format", "json"))["runs"][0]["changed"] == []
    refused = stepward("verify", "runs.db", "--copy", "none.db")
    assert refused.exit_code == 2
    assert "there is no journal at `none.db`" in refused.stderr
