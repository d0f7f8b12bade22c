"""Fast: `stepward runs`: resuming, reconciling, recovering, cancelling and erasing."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from shops import (
    GIVEN,
    MAIL,
    ORDER,
    SHOP,
    STEPWARD,
    advice,
    as_json,
    crashed,
    database,
    says,
    shop,
    stepward,
    trace,
)

pytestmark = pytest.mark.usefixtures("in_shop", "warm")


def test_a_suspended_run_is_resumed_by_the_command_that_it_prints() -> None:
    suspended = shop("--run-id", "it's me", amount=60, journal="other.db")
    arguments = advice(suspended, "resume:")
    assert arguments[:2] == ["runs", "resume"]
    assert arguments[3:5] == ["--payload", "JSON"]
    assert arguments[5:] == ["--journal", "other.db", *GIVEN]
    arguments[4] = '{"ok": 1}'
    says(stepward(*arguments), 2, "error: the output of `ask`: `ok` must be a boolean, not `1`", "`stepward runs RUN`")
    arguments[4] = "{ok: true"
    says(stepward(*arguments), 2, "error: the payload can't be read")
    arguments[4] = '{"ok": true}'
    result = stepward(*arguments, "--output-format", "json")
    assert result.exit_code == 0
    assert trace(result)[4:9] == ["ask intent", "ask attempt", "- refused", "ask resumed", "agreed branched"]
    says(stepward(*arguments), 2, "error: the token was used: `ask` of run `it's me` has its answer")
    assert (
        trace(stepward("runs", "show", "it's me", "--journal", "other.db", "--output-format", "json"))[-1]
        == "- refused"
    )


def test_a_token_of_nothing_is_refused() -> None:
    shop("--run-id", "r1")
    says(stepward("runs", "resume", "x", "--payload", "1"), 2, "error: this is no resume token")
    says(stepward("runs", "resume", "r2.x", "--payload", "1"), 2, "error: there is no run `r2`")
    says(stepward("runs", "resume", "r1.x", "--payload", "1"), 2, "error: the token is of another program, or misspelt")
    says(stepward("runs", "resume", "r1.x"), 2, "Missing option '--payload'")
    token = as_json(shop("--output-format", "json", amount=60))["run"]["suspensions"][0]["token"]
    says(stepward("runs", "resume", token, "--payload", "1"), 2, "error: the program calls tools `ask`, `pay`, `tell`")


def test_a_run_in_memory_that_waits_says_that_it_is_gone() -> None:
    result = shop(amount=60, journal=None)
    assert result.exit_code == 4
    assert "this run was in memory and is gone" in result.stdout
    assert "stepward runs" not in result.stdout


def test_a_write_in_doubt_is_reconciled_by_the_commands_that_it_prints() -> None:
    for run in ("done", "again", "up"):
        doubt = shop("--run-id", run, amount=7)
    assert advice(doubt, "give up:") == ["runs", "reconcile", "up", "pay", "abandon", *GIVEN]
    assert advice(doubt, "it did not:")[4] == "not-done"
    assert advice(doubt, "it did:")[4:7] == ["done", "--output", "JSON"]
    done = stepward("runs", "reconcile", "done", "pay", "done", "--output", "paid 7", *GIVEN)
    assert done.exit_code == 0
    assert re.search(r'pay +reconciled +done; "paid 7"\n', done.stdout)
    again = stepward("runs", "reconcile", "again", "pay", "not-done", *GIVEN, "--output-format", "json")
    assert again.exit_code == 4, "the line goes dead again"
    assert trace(again)[-4:] == ["pay attempt", "pay reconciled", "pay intent", "pay attempt"]
    up = stepward("runs", "reconcile", "up", "pay", "abandon")
    assert up.exit_code == 1
    assert "CANCELLED (abandoned) at `pay`" in up.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["r1", "pay", "done"], ["`done` needs --output"]),
        (["r1", "pay", "abandon", "--output", "1"], ["--output is for `done`"]),
        (["r1", "pay", "perhaps"], ["'perhaps' is not one of 'done', 'not-done', 'abandon'"]),
        (["none", "pay", "not-done"], ["error: there is no run `none`", "`stepward runs` lists them"]),
        (["r1", "tell", "not-done", *GIVEN], ["error: `tell` is not in doubt in run `r1`"]),
        (["r1", "pay", "not-done"], ["error: the program calls tools"]),
    ],
)
def test_bad_reconciliations_are_refused(arguments: list[str], words: list[str]) -> None:
    shop("--run-id", "r1", amount=7)
    says(stepward("runs", "reconcile", *arguments), 2, *words)


def test_a_crashed_run_is_recovered() -> None:
    crashed("r1", 9)
    shown = stepward("runs", "r1")
    assert advice(shown, "stepward runs recover") or "stepward runs recover r1" in shown.stdout
    result = stepward("runs", "recover", "r1", *GIVEN)
    assert result.exit_code == 4
    assert "IN_DOUBT at `pay`" in result.stdout
    assert "`pay` is in doubt: the machine stopped while it ran" in result.stdout
    shop("--run-id", "over")
    assert stepward("runs", "recover", "over").exit_code == 0, "there is nothing left to do"
    says(stepward("runs", "recover", "none"), 2, "error: there is no run `none`")


def test_all_crashed_runs_are_recovered_and_those_of_other_tools_left() -> None:
    crashed("r1", 9)
    left = stepward("runs", "recover")
    assert left.exit_code == 4
    assert left.stdout == "0 runs\n"
    assert left.stderr.startswith("left: run `r1`: the program calls tools `ask`, `pay`, `tell`, and there is no")
    result = stepward("runs", "recover", *GIVEN)
    assert result.exit_code == 4
    assert re.search(r"r1 +shop +IN_DOUBT +6 ", result.stdout)
    assert result.stdout.endswith("\n1 run\n")
    nothing = stepward("runs", "recover", *GIVEN)
    assert (nothing.exit_code, nothing.stdout, nothing.stderr) == (0, "0 runs\n", "")


def test_a_run_that_somebody_drives_is_left_to_them() -> None:
    crashed("r1", 9)
    with database("runs.db") as connection:
        connection.execute("UPDATE runs SET expires = ?", (time.time() + 99,))
    says(stepward("runs", "recover", "r1", *GIVEN), 2, "error: somebody else drives run `r1`", "= help: wait until")
    assert "left: run `r1`: somebody else drives it" in stepward("runs", "recover", *GIVEN).stderr
    seen = stepward("runs", "r1")
    assert seen.exit_code == 0
    assert "stepward runs recover r1" in seen.stdout
    assert shop("--run-id", "r1", amount=9).exit_code == 4
    cancelled = stepward("runs", "cancel", "r1")
    assert cancelled.exit_code == 4
    assert "cancel asked for" in cancelled.stdout
    says(stepward("runs", "erase", "r1", "--yes"), 2, "error: somebody else drives run `r1`")


def test_a_lease_of_a_clock_that_was_wrong_is_passed_over_by_naming_the_run() -> None:
    crashed("r1", 9)
    with database("runs.db") as connection:
        connection.execute("UPDATE runs SET expires = ?", (time.time() + 10 * 365 * 86_400,))
    refused = stepward("runs", "erase", "r1", "--yes")
    says(
        refused,
        2,
        "error: the lease of run `r1` lasts 3,650 more days",
        "`stepward runs recover RUN` passes such a lease",
    )
    assert "wait" not in refused.stderr, "it would be for years"
    left = stepward("runs", "recover", *GIVEN)
    assert left.exit_code == 4
    assert "left: run `r1`: its lease is of a clock that was wrong" in left.stderr
    assert f"`stepward runs recover r1 {' '.join(GIVEN)}` passes it over" in left.stderr
    assert "CANCELLED" in stepward("runs", "recover", "r1", *GIVEN).stdout, "the erasure had asked for it"


def test_a_run_is_cancelled() -> None:
    shop("--run-id", "waits", amount=60)
    shop("--run-id", "over")
    assert stepward("runs", "cancel", "waits").exit_code == 0
    assert "CANCELLED (cancelled) at `ask`" in stepward("runs", "waits").stdout
    assert stepward("runs", "cancel", "waits").exit_code == 0
    late = stepward("runs", "cancel", "over")
    assert late.exit_code == 1, "it had ended in another way"
    assert late.stderr == "nothing was cancelled: the run had ended SUCCESS\n"
    says(stepward("runs", "cancel", "none"), 2, "error: there is no run `none`")
    says(stepward("runs", "cancel"), 2, "Missing argument 'RUN'")


def test_an_erased_value_is_in_no_file_and_the_run_still_tells() -> None:
    shop("--run-id", "r1")
    shop("--run-id", "waits", amount=60)
    assert MAIL.encode() in Path("runs.db.vault").read_bytes()
    asked = stepward("runs", "erase", "r1", stdin="n\n")
    assert asked.exit_code != 0
    assert "destroy every sensitive value of run `r1` for ever?" in asked.stderr
    erased = stepward("runs", "erase", "r1", stdin="y\n")
    assert erased.exit_code == 0
    assert erased.stderr.endswith("destroyed: 1 sensitive value\n")
    again = stepward("runs", "erase", "r1", "--yes")
    assert (again.exit_code, again.stderr) == (0, "nothing was destroyed: no sensitive value is stored\n")
    assert stepward("runs", "erase", "waits", "--yes").exit_code == 0
    assert all(MAIL.encode() not in path.read_bytes() for path in Path().glob("runs.db*"))
    shown = stepward("runs", "r1")
    assert 'to: "[erased]"' in shown.stdout
    assert re.search(r"erased +1 value\n", shown.stdout)
    assert "CANCELLED" in stepward("runs", "waits").stdout
    assert stepward("replay", "runs.db", "r1").exit_code == 0
    assert stepward("verify", "runs.db").exit_code == 0


def test_an_interrupted_run_stays_in_the_journal() -> None:
    arguments = ["run", "shop.yaml", *ORDER, "--input", "amount=10", *GIVEN, "--journal", "runs.db", "--run-id", "r1"]
    with subprocess.Popen([STEPWARD, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr
        assert running.stderr.readline() == "a tool prints\n"
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=20)
    assert (running.returncode, out) == (130, "")
    again = f"stepward runs recover r1 {' '.join(GIVEN)}"
    assert f"interrupted: `{again}` goes on with it" in err.replace(" --journal runs.db", "")
    assert stepward("runs", "recover", "r1", *GIVEN).exit_code == 4


# -- policies, and who -------------------------------------------------------------------------------------------------


def test_a_run_that_goes_on_keeps_the_policies_that_are_given_and_configured(tmp_path: Path) -> None:
    assert shop("--run-id", "r", amount=60).exit_code == 4
    token = as_json(stepward("runs", "r", "--output-format", "json"))["run"]["suspensions"][0]["token"]
    Path("closed.yaml").write_text("policy: closed\nallow: [pay]\n")
    Path("open.yaml").write_text("policy: open\nallow: [ask, pay]\n")
    resume = ["runs", "resume", token, "--payload", '{"ok": true}', *GIVEN]
    refused = stepward(*resume, "--policy", "closed.yaml")
    says(
        refused,
        2,
        "run `r` breaks rule `allow`",
        "in record",
        "policy `closed` does not allow tool `ask`",
        "= help: cancel it",
    )
    Path("stepward.toml").write_text('policies = ["closed.yaml"]\n')
    says(stepward(*resume), 2, "breaks rule `allow`")
    says(stepward(*resume, "--isolated", "--config", "stepward.toml"), 2, "--config names a configuration")
    done = stepward(*resume, "--isolated", "--policy", "open.yaml", "--by", "ann", "--output-format", "json")
    assert done.exit_code == 1, "what the policy does not allow any more fails"
    assert trace(done)[-6:] == [
        "- governed",
        "ask resumed",
        "agreed branched",
        "pay intent",
        "pay attempt",
        "tell rejected",
    ]
    shown = stepward("runs", "r")
    assert "by ann" in shown.stdout
    assert "also under policies" in shown.stdout


def test_recover_takes_policies_and_tells_which_run_is_left_and_why() -> None:
    crashed("r", 9)
    Path("closed.yaml").write_text("policy: closed\nallow: [tell]\n")
    result = stepward("runs", "recover", *GIVEN, "--policy", "closed.yaml")
    assert result.exit_code == 4
    assert "left: run `r`: run `r` breaks rule `allow` of this machine's policies" in result.stderr
    says(stepward("runs", "recover", "r", *GIVEN, "--policy", "closed.yaml"), 2, "breaks rule `allow`")
    assert stepward("runs", "cancel", "r", "--by", "ann").exit_code == 0
    assert "by ann" in stepward("runs", "r").stdout


def test_four_eyes_on_the_command_line() -> None:
    Path("eyes.yaml").write_text("policy: eyes\nfour_eyes: [ask]\n")
    assert shop("--run-id", "r", "--policy", "eyes.yaml", "--by", "ann", amount=60).exit_code == 4
    token = as_json(stepward("runs", "r", "--output-format", "json"))["run"]["suspensions"][0]["token"]
    resume = ["runs", "resume", token, "--payload", '{"ok": true}', *GIVEN]
    says(stepward(*resume, "--by", "ann"), 2, "another settles a call of `ask`", "that was `ann`")
    says(stepward(*resume), 2, "say who you are")
    assert stepward(*resume, "--by", "bob").exit_code == 0


OK_TYPE = '{"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}'
FILLED = {"MODULE": GIVEN[1], "NAME": "bob", "JSON": '{"ok": true}'}


@pytest.mark.parametrize("by", [(), ("--by", "ann")])
@pytest.mark.parametrize("eyes", [(), ("--policy", "eyes.yaml")])
def test_the_command_that_a_shown_run_prints_works_when_its_names_are_filled_in(
    by: tuple[str, ...], eyes: tuple[str, ...]
) -> None:
    Path("eyes.yaml").write_text("policy: eyes\nfour_eyes: [ask]\n")
    started = shop("--run-id", "r", *eyes, *by, amount=60)
    if eyes and not by:  # nobody could answer
        says(started, 2, "another settles a call of `ask`", "and nobody is named", "add `--by NAME`")
        return
    shown = stepward("runs", "r")
    assert f"  the answer must have this type: {OK_TYPE}\n" in shown.stdout
    command = advice(shown, "resume:")
    assert command[5:] == [*(["--by", "NAME"] if by or eyes else []), "--tools", "MODULE", "--model", "NAME"]
    command[-1] = GIVEN[3]
    assert stepward(*(FILLED.get(word, word) for word in command)).exit_code == 0


@pytest.mark.parametrize(
    "named",
    [
        [*ORDER, "--input", "amount=1", *GIVEN],
        [*ORDER, "--input", "amount=1", "--queue"],
        ["--continues", "old", "--after-failure", *GIVEN],
    ],
    ids=["run", "queue", "continuation"],
)
def test_who_starts_a_run_is_named_where_two_people_settle_a_call(named: list[str]) -> None:
    Path("eyes.yaml").write_text("policy: eyes\nfour_eyes: [ask]\n")
    shop("--run-id", "old", amount=8)
    command = ["run", "shop.yaml", "--journal", "runs.db", *named, "--policy"]
    says(stepward(*command, "eyes.yaml"), 2, "another settles a call of `ask`", "add `--by NAME`")
    assert stepward("runs", "--output-format", "json").stdout.count('"id"') == 1, "nothing was started"
    Path("eyes.yaml").write_text("policy: eyes\nfour_eyes: [wipe]\ntools: {wipe: {}}\n")
    assert "nobody is named" not in stepward(*command, "eyes.yaml").stderr


@pytest.mark.parametrize(("expiry", "status"), [("2999-01-01", 4), ("2001-01-01", 2)])
def test_nobody_has_to_be_named_while_a_waiver_counts(expiry: str, status: int) -> None:
    waiver = f"{{program: shop, rule: four_eyes, reason: a drill, expiry: {expiry}}}"
    Path("eyes.yaml").write_text(f"policy: eyes\nfour_eyes: [ask]\nwaivers: [{waiver}]\n")
    assert shop("--run-id", "r", "--policy", "eyes.yaml", amount=60).exit_code == status


ASK = "{id: ask, type: tool, tool: ask, args: {order: x}}"
ITEMS = "type: for_each, items: [1, 2], as: one"
IN_PARTS = {
    "an item": f"{{id: each, {ITEMS}, do: {ASK}}}",
    "items at once": f"{{id: each, {ITEMS}, max_concurrency: 2, do: {ASK}}}",
    "a branch": f"{{id: both, type: parallel, branches: {{left: {{steps: [{ASK}]}}}}}}",
}


NESTED = """
name: nested
language: 2
inputs: {}
tools: {look: {effect: read, errors: [NotFound], args: {n: {type: integer}}, returns: {type: integer}}}
programs:
  inner:
    language: 2
    inputs: {n: {type: integer}}
    tools: {look: {effect: read, errors: [NotFound], args: {n: {type: integer}}, returns: {type: integer}}}
    steps: [{id: found, type: tool, tool: look, args: {n: $n}}]
steps:
  - id: both
    type: parallel
    branches:
      left:
        steps:
          - id: each
            type: for_each
            items: [1, 2]
            as: one
            on_item_error: skip
            steps: [{id: asked, type: call, program: inner, args: {n: $one}}]
      right: {steps: [{id: other, type: set, set: {x: 1}}]}
  - {id: done, type: end}
"""


def test_a_trace_says_in_which_item_branch_and_call_a_step_is_and_which_error_it_had() -> None:
    Path("nested.yaml").write_text(NESTED)
    Path("looks.py").write_text(
        "class NotFound(Exception): ...\n\ndef look(n):\n    if n == 2:\n        raise NotFound('no 2')\n    return n\n"
    )
    lines = [line.split()[2:] for line in stepward("run", "nested.yaml", "--tools", "looks.py").stdout.splitlines()]
    inside = [words for words in lines if words[:1] and "[" in words[0]]
    assert ["both[left]", "begins"] in inside
    assert ["both[left]/each[1]", "begins"] in inside
    assert ["both[right]/other", "set", "x:", "1"] in inside
    (failed,) = [words for words in inside if words[:2] == ["both[left]/each[1]/asked/found", "failed"]]
    assert failed[-3:] == ["NotFound:", "no", "2"]


@pytest.mark.parametrize("part", IN_PARTS.values(), ids=IN_PARTS)
def test_a_token_is_used_once_wherever_its_call_stands(part: str) -> None:
    asks = SHOP[SHOP.index("  ask:") : SHOP.index("  pay:")]
    Path("parts.yaml").write_text(
        f"name: parts\nlanguage: 2\ninputs: {{}}\ntools:\n{asks}steps:\n  - {part}\n  - {{id: end, type: end}}\n"
    )
    started = stepward(
        "run", "parts.yaml", "--journal", "runs.db", *GIVEN[:2], "--run-id", "r", "--output-format", "json"
    )
    token = as_json(started)["run"]["suspensions"][0]["token"]
    resume = ["runs", "resume", token, "--payload", '{"ok": true}', *GIVEN[:2]]
    assert stepward(*resume).exit_code in (0, 4)
    says(stepward(*resume), 2, "error: the token was used: `", "ask` of run `r` has its answer")


def test_a_write_in_doubt_asks_for_a_name_where_the_run_has_one() -> None:
    Path("eyes.yaml").write_text("policy: eyes\nfour_eyes: [pay]\n")
    shop("--run-id", "r", "--policy", "eyes.yaml", "--by", "ann", amount=7)
    shown = stepward("runs", "r")
    done = advice(shown, "it did:")
    assert done[5:] == ["--output", "JSON", "--by", "NAME", "--tools", "MODULE", "--model", "NAME"]
    assert "MODULE" not in advice(shown, "give up:")
    filled = [*done[:6], '"paid"', "--by", "bob", *GIVEN]
    assert stepward(*filled).exit_code == 0


def test_the_token_of_a_run_that_was_cancelled_is_too_late() -> None:
    token = as_json(shop("--run-id", "r1", "--output-format", "json", amount=60))["run"]["suspensions"][0]["token"]
    assert stepward("runs", "cancel", "r1").exit_code == 0
    late = stepward("runs", "resume", token, "--payload", '{"ok": true}', *GIVEN)
    says(late, 2, "error: the token is too late: run `r1` ended as CANCELLED")


def test_the_command_for_an_answer_shows_by_whether_it_is_needed_or_not() -> None:
    resume = "--payload JSON --tools tools.py [--by NAME]"
    assert resume in shop("--run-id", "r1", amount=60).stdout.replace(" ".join(GIVEN), "--tools tools.py")
    named = shop("--run-id", "r2", "--by", "ann", amount=60).stdout
    assert "--payload JSON --by NAME --" in named
    assert "[--by NAME]" not in named


def test_list_lists_as_runs_alone_does() -> None:
    shop("--run-id", "r1", amount=60)
    shop("--run-id", "r2")
    assert stepward("runs", "list").stdout == stepward("runs").stdout
    assert "r2" not in stepward("runs", "list", "--status", "SUSPENDED").stdout
    assert "stepward runs --status SUSPENDED" in stepward("runs", "-h").stdout
    assert "Exit status" in stepward("runs", "resume", "-h").stdout
