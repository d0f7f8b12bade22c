"""Fast: `stepward runs diff`, `export` and `show --follow`."""

from __future__ import annotations

import json
from contextlib import closing

import pytest

from shops import GIVEN, MAIL, as_json, says, shop, stepward
from stepward.validator.cli.run_studies import follow
from stepward.vm import SQLiteJournal

pytestmark = pytest.mark.usefixtures("in_shop")


def test_runs_of_equal_inputs_do_not_differ() -> None:
    shop("--run-id", "a")
    shop("--run-id", "b")
    result = stepward("runs", "diff", "a", "b")
    assert (result.exit_code, result.stdout) == (0, "`a` and `b` do not differ but in times and keys\n")
    assert as_json(stepward("runs", "diff", "a", "b", "--output-format", "json"))["same"] is True


def test_the_values_that_differ_are_shown_and_where_the_runs_part() -> None:
    shop("--run-id", "a")
    shop("--run-id", "b", amount=60)
    result = stepward("runs", "diff", "a", "b")
    assert result.exit_code == 1
    lines = [line.split() for line in result.stdout.splitlines()]
    assert lines[0] == ["where", "a", "b"]
    assert ["large:", "branch", '"otherwise"', '"then"'] in lines
    assert lines[-1][-4:] == ["they", "part", "at", "`large`"]
    data = as_json(stepward("runs", "diff", "a", "b", "--output-format", "json"))
    first = data["differences"][data["parting"]]
    assert (first["step"], first["path"], first["values"]) == ("large", ["branch"], ["otherwise", "then"])
    assert [run["id"] for run in data["runs"]] == ["a", "b"]
    assert data["runs"][0]["trace_hash"] != data["runs"][1]["trace_hash"]
    assert any(one["missing_in"] == "a" and one["step"] == "ask" for one in data["differences"])


def test_a_run_is_compared_with_one_of_another_journal() -> None:
    shop("--run-id", "a")
    assert shop("--run-id", "a", "--journal", "old.db").exit_code == 0
    assert stepward("runs", "diff", "a", "a", "--other-journal", "old.db").exit_code == 0
    says(stepward("runs", "diff", "a", "none"), 2, "there is no run `none`")
    says(stepward("runs", "diff", "a", "a", "--other-journal", "none.db"), 2, "there is no journal at `none.db`")


def test_nothing_sensitive_is_shown_or_exported() -> None:
    shop("--run-id", "a")
    shop("--run-id", "b", amount=60)
    commands = [["diff", "a", "b"], ["show", "a", "--follow"]]
    commands += [["export", "--format", form] for form in ("jsonl", "otlp", "chrome")]
    commands += [["export", "--values", "--format", form] for form in ("otlp", "chrome")]
    for command in commands:
        assert MAIL not in stepward("runs", *command).output


def test_runs_are_exported_by_name_and_by_filter() -> None:
    shop("--run-id", "a")
    shop("--run-id", "b", amount=60)
    lines = [json.loads(line) for line in stepward("runs", "export").stdout.splitlines()]
    assert [(line["run"], line["seq"]) for line in lines] == [("a", n) for n in range(9)] + [("b", n) for n in range(6)]
    assert {line["run"] for line in map(json.loads, stepward("runs", "export", "b").stdout.splitlines())} == {"b"}
    only = stepward("runs", "export", "--status", "SUSPENDED").stdout
    assert {line["run"] for line in map(json.loads, only.splitlines())} == {"b"}
    events = as_json(stepward("runs", "export", "--format", "chrome"))["traceEvents"]
    assert [event["args"]["name"] for event in events if event["ph"] == "M"] == ["a", "b"]
    assert stepward("runs", "export", "-o", "out.json", "--format", "otlp").stdout == ""
    with open("out.json") as file:
        spans = json.load(file)["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert {"invoke_workflow shop", "step pay", "execute_tool pay"} <= {span["name"] for span in spans}
    ids = {span["spanId"] for span in spans}
    assert all(span.get("parentSpanId", span["spanId"]) in ids for span in spans)


def test_names_and_filters_exclude_each_other_and_records_have_their_values() -> None:
    shop("--run-id", "a")
    says(stepward("runs", "export", "a", "--limit", "1"), 2, "name runs, or choose them with options: not both")
    says(stepward("runs", "export", "--values"), 2, "--values is for spans")
    says(stepward("runs", "show", "--follow"), 2, "--follow is for one run")


def test_a_run_is_followed_until_it_ends(capsys: pytest.CaptureFixture[str]) -> None:
    shop("--run-id", "a", amount=60)
    pauses: list[float] = []

    def answers(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            token = as_json(stepward("runs", "a", "--output-format", "json"))["run"]["suspensions"][0]["token"]
            assert stepward("runs", "resume", token, "--payload", '{"ok": true}', *GIVEN).exit_code == 0

    with closing(SQLiteJournal("runs.db")) as journal:
        follow(journal, "a", as_json=False, wait=answers)
    lines = capsys.readouterr().out.splitlines()
    numbers = [int(line.split()[0]) for line in lines if line[:4].strip().isdigit()]
    assert numbers == list(range(len(numbers)))
    assert lines[-1] == "SUCCESS; `stepward runs a` shows the whole"
    assert len(pauses) == 3


def test_a_run_is_followed_in_json_one_record_a_line() -> None:
    shop("--run-id", "a")
    result = stepward("runs", "show", "a", "--follow", "--output-format", "json")
    assert [json.loads(line)["seq"] for line in result.stdout.splitlines()] == list(range(9))
