"""Fast: `stepward runs`: the list, and what is shown of one run, also on a terminal."""

from __future__ import annotations

import datetime
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from shops import GIVEN, STEPWARD, TOOLS, as_json, crashed, database, says, shop, stepward
from stepward.vm import SQLiteJournal

pytestmark = pytest.mark.usefixtures("in_shop", "warm")


def test_runs_are_listed_the_oldest_first() -> None:
    shop("--run-id", "b")
    shop("--run-id", "a", amount=60)
    result = stepward("runs")
    assert result.exit_code == 0
    lines = [line.split() for line in result.stdout.splitlines()]
    assert lines[0] == ["run", "program", "status", "records", "started", "updated"]
    assert [line[:4] for line in lines[1:3]] == [["b", "shop", "SUCCESS", "9"], ["a", "shop", "SUSPENDED", "6"]]
    assert lines[3:] == [[], ["2", "runs"]]
    assert "SUCCESS" not in stepward("runs", "--status", "SUSPENDED", "--status", "FAILED").stdout
    data = as_json(stepward("runs", "show", "--output-format", "json"))
    assert data["version"] == 1
    assert [(row["id"], row["seq"], row["leased_until"]) for row in data["runs"]] == [("b", 8, None), ("a", 5, None)]
    assert data["runs"][0].keys() == {"id", "program", "status", "seq", "started", "updated", "leased_until"}


def test_the_list_is_narrowed_without_a_record_being_read(monkeypatch: pytest.MonkeyPatch) -> None:
    for run in ("a", "b", "c"):
        stepward("run", "ends.yaml", "--journal", "runs.db", "--run-id", run)
    shop("--run-id", "d", amount=60)
    with database("runs.db") as connection:
        for days, run in enumerate(("d", "c", "b", "a")):
            connection.execute("UPDATE runs SET started = ? WHERE run = ?", (time.time() - days * 86_400 - 60, run))
    monkeypatch.setattr(SQLiteJournal, "read", None)

    def names(*options: str) -> list[str]:
        return [row["id"] for row in as_json(stepward("runs", *options, "--output-format", "json"))["runs"]]

    assert names() == ["a", "b", "c", "d"]
    assert names("--program", "ends") == ["a", "b", "c"]
    assert names("--limit", "2") == ["c", "d"]
    assert names("--since", "36h", "--program", "ends", "--status", "SUCCESS") == ["c"]
    assert names("--since", "2d", "--limit", "1", "--status", "SUCCESS") == ["c"]
    day = datetime.datetime.fromtimestamp(time.time() - 2.5 * 86_400, datetime.UTC)
    assert names("--since", day.strftime("%Y-%m-%dT%H:%M")) == ["b", "c", "d"]
    assert names("--since", "2999-01-01") == []
    assert names("--limit", "0") == names("--program", "none") == []


@pytest.mark.parametrize("text", ["yesterday", "7w", "", "12", "2026-13-01", "12:00"])
def test_what_is_no_time_is_said_to_be_none(text: str) -> None:
    says(stepward("runs", "--since", text), 2, "--since", "is no time; write `2026-07-01`")


@pytest.mark.parametrize("option", [["--program", "shop"], ["--since", "1d"], ["--limit", "0"]])
def test_what_narrows_the_list_is_not_for_one_run(option: list[str]) -> None:
    says(stepward("runs", "r", *option), 2, f"{option[0]} is for the list; leave it out to show a run")


@pytest.mark.parametrize(
    ("column", "value"), [("expires", "x"), ("started", b"7"), ("status", b"?"), ("program", b"p")]
)
def test_one_bad_row_stops_nothing_else(column: str, value: object) -> None:
    for run in ("good", "bad"):
        crashed(run, 9)
    with database("runs.db") as connection:
        connection.execute(f"UPDATE runs SET {column} = ? WHERE run = 'bad'", (value,))
    listed = stepward("runs")
    assert (listed.exit_code, listed.stdout.count("good")) == (0, 1)
    assert f"the list is damaged at run `bad`: `{column}` can't be read" in listed.stderr
    verified = stepward("verify", "runs.db")
    assert (verified.exit_code, verified.stdout.count("run `good`: 5 records, intact")) == (1, 1)
    assert f"the list of runs is damaged: `{column}` can't be read" in verified.stdout
    recovered = stepward("runs", "recover", *GIVEN)
    assert "IN_DOUBT" in recovered.stdout
    if column != "status":  # a run of no status is none that anybody looks for
        assert f"left: run `bad`: the list of runs is damaged at run `bad`: `{column}`" in recovered.stderr
    assert stepward("runs", "recover", "bad", *GIVEN).exit_code == 4
    assert "in doubt" in stepward("runs", "bad").stdout


def test_an_empty_list_is_no_error() -> None:
    sys.modules.pop("stepward_nothing", None)
    from stepward.vm import SQLiteJournal

    SQLiteJournal("empty.db").close()
    assert stepward("runs", "--journal", "empty.db").stdout == "0 runs\n"
    says(stepward("verify", "empty.db"), 3, "error: nothing to verify: the journal has no runs")
    assert as_json(stepward("runs", "--journal", "empty.db", "--output-format", "json")) == {"version": 1, "runs": []}


def test_a_run_is_shown_also_when_its_id_is_the_name_of_an_action() -> None:
    stepward("run", "ends.yaml", "--journal", "runs.db", "--run-id", "cancel")
    stepward("run", "ends.yaml", "--journal", "runs.db", "--run-id", "plain")
    assert "run `cancel` of `ends`" in stepward("runs", "show", "cancel").stdout
    for arguments in (["plain", "--journal", "runs.db"], ["--journal", "runs.db", "plain"], ["show", "plain"]):
        assert "run `plain` of `ends`" in stepward("runs", *arguments).stdout
    says(stepward("runs", "plain", "--status", "FAILED"), 2, "--status is for the list")
    says(stepward("runs", "none"), 2, "error: there is no run `none`", "`stepward runs` lists them")
    says(stepward("runs", "--journal", "none.db"), 2, "there is no journal at `none.db`", "--journal none.db")


def test_what_would_repaint_a_terminal_is_shown_as_signs() -> None:
    Path("tools.py").write_text(TOOLS.replace('"no money"', '"\\x1b[2Jred \\u202e"'))
    result = shop(amount=8)
    assert "\x1b" not in result.output
    assert "␛[2Jred \ufffd" in result.output


def test_a_long_detail_is_cut_in_the_table_and_whole_in_the_json() -> None:
    Path("long.yaml").write_text(
        "name: long\ninputs: {text: {type: string}}\nsteps: [{id: e, type: end, output: $text}]\n"
    )
    arguments = ["run", "long.yaml", "--input", "text=" + "é" * 5000]
    assert max(map(len, stepward(*arguments).stdout.splitlines()[:5])) < 250
    assert as_json(stepward(*arguments, "--output-format", "json"))["trace"][0]["body"]["inputs"]["text"] == "é" * 5000


@pytest.mark.skipif(sys.platform == "win32", reason="there is no pseudo-terminal")
@pytest.mark.parametrize(
    ("variables", "is_painted"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]
)
def test_on_a_terminal_the_table_is_painted_and_fits(variables: dict[str, str], is_painted: bool) -> None:
    import pty

    shop("--run-id", "r1")
    master, slave = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", **variables}
    if "NO_COLOR" not in variables:
        environment.pop("NO_COLOR", None)
    with subprocess.Popen([STEPWARD, "runs", "r1"], stdout=slave, stderr=subprocess.PIPE, env=environment):
        os.close(slave)
        out = b""
        while chunk := _read(master):
            out += chunk
    os.close(master)
    text = out.decode().replace("\r\n", "\n")
    assert ("\x1b[" in text) == is_painted
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert "[sensitive]" in plain
    assert "SUCCESS (declared) at `done`" in plain
    if is_painted:
        assert max(map(len, plain.split("\n\n")[1].splitlines())) <= 100
    assert not set(plain) & set("│┃━─┏╭|")


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # what Linux says when nobody has the other end any more
        return b""
