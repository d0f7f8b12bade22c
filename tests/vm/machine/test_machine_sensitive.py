"""Fast: what is sensitive is in the vault and nowhere else; after its erasure it is nowhere at all.

Every test greps bytes: of each file of the journal but the vault's, of traces, of exceptions, of logs.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from machines import Bench, Late, ask, assign, both, check, end, program, tool, unchecked
from stepward.vm import DeliveryRefused, InDoubt, Run, RunRefused, SQLiteJournal, Suspend
from stepward.vm.journal.canonical import ErasedError
from stepward.vm.journal.store import JournalError
from stepward.vm.journal.verify import verify
from stepward.vm.machine.clock import ManualClock

SECRET = "DE89-3704-TOP-SECRET"
HIDDEN = {"type": "string", "sensitive": True}
INPUTS = {"iban": HIDDEN}


class Safe(Bench):
    """A bench on a file, that can look for bytes in all of its files."""

    def __init__(self, folder: Path, *args: Any, **machine: Any) -> None:
        self.folder = folder
        super().__init__(*args, journal=SQLiteJournal(folder / "runs.db"), **machine)

    def files(self, *, vault: bool) -> dict[str, bytes]:
        found = {path.name: path.read_bytes() for path in self.folder.rglob("*") if path.is_file()}
        assert "runs.db" in found
        return {name: held for name, held in found.items() if (".vault" in name) is vault}

    def leaks(self, *secrets: str) -> list[tuple[str, str]]:
        """Return the files outside the vault that hold a secret, or the start of one."""
        return [
            (name, secret)
            for name, held in self.files(vault=False).items()
            for secret in secrets or (SECRET, SECRET[:9])
            if secret.encode() in held
        ]

    def is_kept(self, secret: str = SECRET) -> bool:
        return any(secret.encode() in held for held in self.files(vault=True).values())


@pytest.fixture
def place(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[Path]:
    """A folder for a journal; what is logged meanwhile holds no secret."""
    with caplog.at_level(logging.DEBUG):
        yield tmp_path
    assert SECRET not in caplog.text


def shown(run: Run) -> str:
    """Return all that a trace shows of a run."""
    return f"{run!r} {run.error} {run.reason} {run.view('trace')} {run.view('model')} {run.snapshot().decode()}"


# -- where it must not be ----------------------------------------------------------------------------------------------

STEPS: list[tuple[str, list[dict[str, Any]]]] = [
    ("as an argument of a write", [tool("a", "write", args={"x": "$iban"})]),
    ("as an argument of a read", [tool("a", args={"x": "$iban"})]),
    ("inside a longer argument", [tool("a", "write", args={"x": ["to $iban", {"y": "$iban"}]})]),
    ("copied by set", [assign("s", v="$iban"), tool("a", "write", args={"x": "$v"})]),
    ("copied twice", [assign("s", v="$iban"), assign("t", w="$v"), tool("a", "write", args={"x": "is $w"})]),
    ("computed from", [assign("s", v="len($iban) * 1000003"), tool("a", "write", args={"x": "$v"})]),
    ("branched on", [check("c", f"$iban == '{SECRET[::-1]}'", "a", "b"), tool("a"), tool("b")]),
    ("as the output of the run", [end(output=["$iban", "it is $iban"])]),
    ("suspended with", [tool("a", "ask", args={"x": "$iban"})]),
    ("in parallel", [both("p", tool("a", "write", args={"x": "$iban"}), tool("b", args={"x": "$iban"}))]),
    ("in a prompt", [ask("l", "my account is $iban", on_error="skip")]),
    ("as a prompt", [ask("l", "$iban", on_error="skip")]),
    ("as instructions", [ask("l", system="$iban", on_error="skip")]),
]


@pytest.mark.parametrize("steps", [steps for _, steps in STEPS], ids=[name.replace(" ", "-") for name, _ in STEPS])
def test_no_file_but_the_vault_holds_it(place: Path, steps: list[dict[str, Any]]) -> None:
    bench = Safe(place, {"ask": Suspend("which?")}, model={"l": "fine"})
    run = bench.run(program(*steps, inputs=INPUTS), iban=SECRET)
    assert run.status in ("SUCCESS", "SUSPENDED")
    assert bench.leaks() == []
    assert bench.is_kept()
    assert SECRET not in shown(run)
    assert bench.leaks(str(len(SECRET) * 1000003)) == []
    if "a" in bench.tools.steps() and steps[0]["id"] not in ("c", "s"):
        assert SECRET in json.dumps(bench.tools.asked[0].args), "tools do get it"
    # The last connection to go writes the log into the file.
    bench.journal.close()
    assert bench.leaks() == []


PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "iban": HIDDEN, "deep": {"type": "array", "items": HIDDEN}},
    "required": ["name", "iban", "deep"],
}


@pytest.mark.parametrize(
    "spec", [PERSON, {**PERSON, "sensitive": True}, {"type": "object", "additionalProperties": HIDDEN}]
)
@pytest.mark.parametrize("source", ["input", "tool", "reply", "resume", "reconcile"])
def test_sensitive_parts_and_fields_of_sensitive_values_stay_hidden(place: Path, spec: Any, source: str) -> None:
    who = {"name": "Ada", "iban": SECRET, "deep": [SECRET + "2"]}
    if "additionalProperties" in spec:
        who.pop("deep")
    tools = {
        "write": {"effect": "write", "idempotent": False},
        "load": {"effect": "write", "idempotent": False, "suspends": True, "returns": spec},
    }
    get = ask("get", returns=spec, output_key="who") if source == "reply" else tool("get", "load", output_key="who")
    steps = [
        *([] if source == "input" else [get]),
        assign("s", v="$who.iban", all="$who"),
        tool("a", "write", args={"x": "$who.iban", "y": "$v", "z": "is $who.iban", "all": "$all"}),
        ask("l", "account $who.iban", on_error="skip"),
        ask("m", "account $v", on_error="skip"),
        ask("n", "all of $who", on_error="skip"),
        end(output={"iban": "$who.iban", "all": "$who"}),
    ]
    inputs = {"who": spec} if source == "input" else {}
    first = {"tool": who, "resume": Suspend(), "reconcile": InDoubt("?")}.get(source)
    bench = Safe(place, {"get": first}, model={"get": json.dumps(who), "l": "no", "m": "no", "n": "no"})
    run = bench.run(program(*steps, inputs=inputs, tools=tools), **({"who": who} if source == "input" else {}))
    if source == "resume":
        run = bench.resume(run, who)
    elif source == "reconcile":
        run = bench.checked(bench.vm.reconcile_sync("run", "get", "done", who))
    assert run.status == "SUCCESS"
    assert run.output["iban"] == SECRET
    args = bench.tools.asked[-1].args
    assert (args["x"], args["y"], args["z"]) == (SECRET, SECRET, f"is {SECRET}")
    assert [asked.step for asked in bench.model.asked] == (["get"] if source == "reply" else [])
    assert bench.leaks() == []
    assert SECRET not in shown(run)


def test_a_sensitive_value_in_a_prompt_is_a_journaled_rejection(place: Path) -> None:
    bench = Safe(place, model={"l": "x"})
    run = bench.run(
        program(ask("l", "is $iban", on_error="retry", error_step="e"), end("e", "$l.error"), inputs=INPUTS),
        iban=SECRET,
    )
    assert (run.status, bench.model.asked) == ("SUCCESS", [])
    assert [body["rule"] for body in bench.bodies("rejected")] == ["sensitive-to-model"]
    assert SECRET not in run.output
    bench = Safe(place, model={"l": "x"})
    other = bench.run(program(ask("l", "is $iban"), inputs=INPUTS), "other", iban=SECRET)
    assert (other.status, other.reason) == ("FAILED", "error")


def test_a_number_is_hidden_as_well_as_a_text(place: Path) -> None:
    inputs = {"pin": {"type": "number", "sensitive": True}}
    steps = [assign("s", v="$pin + 1"), tool("a", "write", args={"x": "$v", "y": "pin $pin"}), end(output="$v")]
    bench = Safe(place, {"a": ValueError("bad pin 738215.5 or 738216.5")})
    run = bench.run(program(*steps, inputs=inputs), pin=738215.5)
    assert run.status == "FAILED"
    assert bench.leaks("738215", "738216") == []


# -- texts of errors ---------------------------------------------------------------------------------------------------


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "said",
    [
        "no account {0}",
        "{0}",
        "{0}{0} and {0}",
        "got {0!r}",
        "x" * 1995 + "{0}",
        "x" * 1990 + "{0}" + "y" * 500,
        '{{"iban": "{0}"}}',
    ],
)
@pytest.mark.parametrize("secret", [SECRET, "two\nlines of 'secret' \"text\"", "schlüssel-😀-wort", "a" * 300 + SECRET])
@pytest.mark.parametrize("kind", ["read", "write"])
def test_errors_of_tools_that_quote_the_value(place: Path, said: str, secret: str, kind: str) -> None:
    error = ValueError(said.format(secret))
    bench = Safe(place, {"a": error})
    steps = [tool("a", kind, args={"x": "$iban"}, on_error="retry", error_step="e"), end("e", "$a.error")]
    run = bench.run(program(*steps, inputs=INPUTS), iban=secret)
    # Three characters of it tell nothing; a longer piece must not show.
    pieces = [piece for piece in (secret, secret[:12], secret[-12:]) if "\n" not in piece and '"' not in piece]
    for piece in pieces:
        assert piece not in run.output
        assert bench.leaks(piece, json.dumps(piece)[1:-1]) == []
    assert "[sensitive]" in run.output


def test_doubt_and_what_is_unfit_as_a_request_do_not_quote_it(place: Path) -> None:
    bench = Safe(place, {"a": InDoubt(f"sent {SECRET}")})
    run = bench.run(program(tool("a", "write", args={"x": "$iban"}), inputs=INPUTS), iban=SECRET)
    assert SECRET not in run.doubts[0].why
    assert bench.leaks() == []


LONG = SECRET * 20


@pytest.mark.parametrize(
    ("steps", "tools"),
    [
        ([tool("a", "t", args={"x": "$iban"})], {"t": {"effect": "write", "args": {"x": {"type": "integer"}}}}),
        ([tool("a", "t", args={"x": "$iban"})], {"t": {"effect": "write", "args": {"x": {"enum": ["a", "b"]}}}}),
        ([tool("a", "t", args={"x": ["$iban"]})], {"t": {"effect": "write", "args": {"x": {"type": "string"}}}}),
        ([tool("a", "t", args={"x": {"y": "is $iban"}})], {"t": {"effect": "read", "args": {"x": {"type": "string"}}}}),
        ([tool("a", "t", args={"x": "$iban"})], {"t": {"effect": "read", "returns": {"type": "integer"}}}),
        (
            [tool("a", "t", args={"x": "$iban"})],
            {"t": {"effect": "read", "returns": {"type": "integer", "sensitive": True}}},
        ),
        ([check("c", "$iban > 5", "e"), end("e")], {}),
        ([assign("s", v="$iban + 1"), end("e")], {}),
    ],
)
def test_errors_about_types_do_not_show_it(place: Path, steps: Any, tools: Any) -> None:
    bench = Safe(place, {"a": lambda x: x})
    inputs = {"iban": {"type": ["string", "number"], "sensitive": True}}
    run = bench.run(program(*steps, inputs=inputs, tools=tools), iban=LONG)
    assert run.status == "FAILED"
    assert SECRET[:9] not in run.error
    assert bench.leaks() == []


def test_exceptions_do_not_show_it(place: Path) -> None:
    bench = Safe(place, {"a": Suspend()})
    for given in ({"iban": 5}, {"iban": [SECRET]}, {"iban": {"x": SECRET}}, {"iban": SECRET * 100}):
        spec = {**HIDDEN, "maxLength": 50}
        with pytest.raises(RunRefused) as refused:
            bench.run(program(end(), inputs={"iban": spec}), **given)
        assert SECRET[:9] not in str(refused.value)
    tools = {"t": {"effect": "read", "suspends": True, "returns": {"type": "integer", "sensitive": True}}}
    run = bench.run(program(tool("a", "t"), tools=tools))
    with pytest.raises(DeliveryRefused) as delivered:
        bench.vm.resume_sync(run.suspensions[0].token, SECRET)
    assert SECRET[:9] not in str(delivered.value)
    assert bench.leaks() == []


def test_a_rule_that_a_sensitive_value_breaks_does_not_show_it(place: Path) -> None:
    rule = {"name": "r", "never": {"tool": "write"}, "when": "$args.x starts_with 'DE'"}
    bench = Safe(place)
    run = bench.run(program(tool("a", "write", args={"x": "$iban"}), inputs=INPUTS, guardrails=[rule]), iban=SECRET)
    assert (run.reason, bench.tools.asked) == ("guardrail", [])
    assert bench.leaks() == []


def test_a_fallback_beside_a_secret_argument_keeps_it_hidden(place: Path) -> None:
    late = {"timeout_seconds": 1, "on_timeout": "fallback", "fallback": "none"}
    bench = Safe(place, {"a": Late(5)})
    run = bench.run(
        program(tool("a", args={"x": "$iban"}, **late), end(output="$a.output"), inputs=INPUTS), iban=SECRET
    )
    assert (run.output, bench.leaks()) == ("none", [])


# -- erasure -----------------------------------------------------------------------------------------------------------


ERASED = program(
    assign("s", v="$iban"),
    check("c", "$iban starts_with 'DE'", "a", "b"),
    tool("a", "write", args={"x": "to $v"}, next_step="end"),
    tool("b"),
    end(output={"it": "$iban"}),
    inputs=INPUTS,
)


def erased(place: Path) -> tuple[Safe, Run, Run]:
    bench = Safe(place, {"a": "ok"})
    before = bench.run(ERASED, iban=SECRET)
    assert bench.is_kept()
    return bench, before, bench.vm.erase_sync("run")


def test_after_an_erasure_no_file_holds_it(place: Path) -> None:
    bench, _, run = erased(place)
    assert bench.leaks() == []
    assert not bench.is_kept()
    assert run.status == "SUCCESS"
    bench.journal.close()
    assert bench.leaks() == []
    assert not bench.is_kept()


def test_reading_an_erased_value_fails_clearly(place: Path) -> None:
    _, _, run = erased(place)
    with pytest.raises(ErasedError, match="was erased"):
        _ = run.output
    with pytest.raises(ErasedError):
        run.view("tool")
    assert run.view("trace")["iban"] == "[erased]"
    assert "iban" not in run.view("model")
    assert SECRET not in shown(run)


def test_an_erased_run_still_replays_to_the_same_end(place: Path) -> None:
    bench, before, run = erased(place)
    other = unchecked(journal=SQLiteJournal(place / "runs.db"), clock=ManualClock())
    again = other.get_sync("run")
    assert again.trace_hash == before.trace_hash == run.trace_hash
    assert (again.status, again.reason, again.step, again.steps) == ("SUCCESS", "declared", "end", before.steps)
    assert again.snapshot() == run.snapshot()
    assert [body["branch"] for body in bench.bodies("branched")] == ["then"]
    assert verify(bench.journal, "run").faults == ()


def test_an_erasure_can_be_repeated_and_closes_the_run_id(place: Path) -> None:
    bench, _, _ = erased(place)
    records = len(bench.journal.read("run"))
    assert bench.vm.erase_sync("run").status == "SUCCESS"
    assert len(bench.journal.read("run")) == records
    with pytest.raises(RunRefused, match="erased"):
        bench.run(ERASED, iban=SECRET)


@pytest.mark.parametrize("waits", [Suspend(), InDoubt("?")])
def test_erasing_an_unfinished_run_cancels_it_first(place: Path, waits: Any) -> None:
    bench = Safe(place, {"a": waits})
    tools = {"t": {"effect": "write", "idempotent": False, "suspends": True}}
    run = bench.run(
        program(tool("a", "t", args={"x": "$iban"}), tool("b", "t"), inputs=INPUTS, tools=tools), iban=SECRET
    )
    assert not run.is_over
    gone = bench.vm.erase_sync("run")
    assert gone.status == "CANCELLED"
    assert (bench.leaks(), bench.is_kept()) == ([], False)
    if run.suspensions:
        with pytest.raises(DeliveryRefused):
            bench.vm.resume_sync(run.suspensions[0].token, 1)
    assert bench.tools.steps() == ["a"]
    if not run.suspensions:
        assert bench.bodies("ended")[0]["in_doubt"] == ["a"]


def test_erasing_one_run_leaves_the_others(place: Path) -> None:
    bench = Safe(place)
    made = program(tool("a", "write", args={"x": "$iban"}), end(output="$iban"), inputs=INPUTS)
    bench.run(made, "one", iban=SECRET + "-one")
    bench.run(made, "two", iban=SECRET + "-two")
    bench.vm.erase_sync("one")
    assert not bench.is_kept(SECRET + "-one")
    assert bench.vm.get_sync("two").output == SECRET + "-two"


def test_a_run_is_not_started_whose_values_an_older_vault_would_not_take(place: Path) -> None:
    made = program(end(output="$iban"), inputs=INPUTS)
    first = Safe(place)
    first.run(made, iban=SECRET)
    first.vm.erase_sync("run")
    first.journal.close()
    for file in place.glob("runs.db*"):
        if ".vault" not in file.name:
            file.unlink()  # somebody starts anew, and forgets the vault
    again = Safe(place)
    with pytest.raises(JournalError, match="the values of run `run` were erased, and the vault takes no more"):
        again.run(made, iban=SECRET)
    assert not again.is_kept()
    assert again.run(made, "another", iban=SECRET).status == "SUCCESS"


def test_equal_secrets_have_unequal_references_and_commitments(place: Path) -> None:
    bench = Safe(place)
    made = program(end(output="$iban"), inputs=INPUTS)
    for name in ("one", "two"):
        bench.run(made, name, iban="1")
    said = [bench.bodies("started", name)[0]["inputs"]["iban"] for name in ("one", "two")]
    assert said[0].startswith("#v")
    assert not set(said[0].split(":")) & set(said[1].split(":"))


def test_the_tests_of_this_file_can_fail(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what marks values switched off, the grep finds them."""
    monkeypatch.setattr("stepward.vm.machine.data.marked", lambda value, spec: value)
    bench = Safe(place)
    bench.run(program(tool("a", "write", args={"x": "$iban"}), inputs=INPUTS), iban=SECRET)
    assert bench.leaks()
