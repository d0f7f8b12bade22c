"""Fast: the tools, models, keys and journals that the commands about runs are given."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from shops import GIVEN, ORDER, SHOP, TOOLS, advice, as_json, database, says, shop, stepward

pytestmark = pytest.mark.usefixtures("in_shop")


@pytest.mark.parametrize("name", ["tools", "tools.py", "./tools.py", "team.tools", "team/tools.py"])
def test_tools_are_a_module_or_a_file(name: str) -> None:
    Path("team").mkdir()
    Path("team/words.py").write_text("TOLD = 'told'\n")
    Path("team/tools.py").write_text(TOOLS)
    sys.modules.pop("tools", None)
    sys.modules.pop("team", None)
    result = shop("--tools", name)
    assert result.exit_code == 0, result.output


def test_replies_are_kept_in_a_cache_for_later_commands() -> None:
    Path("shop.yaml").write_text(SHOP.replace("output_key: view}", "output_key: view, cache: true}"))
    first, second = shop("--cache", "replies.db"), shop("--cache", "replies.db", "--output-format", "json")
    assert (first.exit_code, "from the cache" in first.stdout) == (0, False)
    (judged,) = [one for one in as_json(second)["trace"] if one["body"].get("step") == "judge"]
    assert (judged["note"]["cached"], as_json(second)["run"]["tokens"]) == (True, 0)
    assert "from the cache; " in shop("--cache", "replies.db").stdout
    Path("replies.yaml").write_text("judge: no\n")  # another script is another model
    assert shop("--cache", "replies.db").exit_code == 1
    Path("replies.yaml").write_text("judge: yes\n")
    assert advice(shop("--cache", "replies.db", amount=60), "resume:")[-2:] == ["--cache", "replies.db"]


@pytest.mark.parametrize("cache", ["runs.db", "shop.yaml", "no/where.db"])
def test_a_file_that_is_no_cache_is_told_and_the_run_goes_on(cache: str) -> None:
    Path("shop.yaml").write_text(SHOP.replace("output_key: view}", "output_key: view, cache: true}"))
    assert shop().exit_code == 0
    before = Path(cache).read_bytes() if Path(cache).exists() else None
    result = shop("--cache", cache, journal="other.db")
    assert result.exit_code == 0, result.output
    assert result.stderr.startswith(
        f"warning: a reply was not taken from the cache, and the model asked: the cache `{cache}`"
    )
    assert before is None or Path(cache).read_bytes() == before


def test_a_cache_without_a_name_is_refused() -> None:
    says(shop("--cache", ""), 2, "error: `` is no file for a cache")


def test_a_file_of_tools_imports_its_neighbours() -> None:
    Path("team").mkdir()
    Path("team/neighbour_of_tools.py").write_text("def tell(to, text): return 'told'\n")
    Path("team/more.py").write_text(TOOLS.partition("def tell")[0] + "from neighbour_of_tools import tell\n")
    assert shop("--tools", "team/more.py").exit_code == 0


@pytest.mark.parametrize(
    ("tools", "words"),
    [
        (None, ["the program calls tools `ask`, `pay`, `tell`, and there is no `--tools`", "`--tools package.module`"]),
        ("none.such", ["`none.such` can't be imported: ModuleNotFoundError"]),
        ("none.py", ["`none.py` is no file"]),
        ("list.yaml", ["`list.yaml` can't be imported"]),
        ("raises.py", ["`raises.py` can't be imported: RuntimeError: no database"]),
        ("leaves.py", ["`leaves.py` can't be imported: SystemExit: 3"]),
        ("syntax.py", ["`syntax.py` can't be imported: SyntaxError"]),
        ("json", ["`json` has no function for tools `ask`, `pay`, `tell`", "write a function `ask` there"]),
        ("few.py", ["`few.py` has no function for tool `tell`"]),
        ("", ["`` can't be imported"]),
    ],
)
def test_tools_that_are_not_there_are_told(tools: str | None, words: list[str]) -> None:
    Path("raises.py").write_text('raise RuntimeError("no database")\n')
    Path("leaves.py").write_text("import sys; sys.exit(3)\n")
    Path("syntax.py").write_text("x = (\n")
    Path("few.py").write_text("def ask(order): ...\ndef pay(amount): ...\n_tell = tell = 3\n")
    named = [] if tools is None else ["--tools", tools]
    arguments = ["run", "shop.yaml", *ORDER, "--input", "amount=1", *GIVEN[2:], "--journal", "made.db"]
    says(stepward(*arguments, *named), 2, f"error: {words[0]}", *words[1:])
    assert not Path("made.db").exists(), "nothing is made for a run that does not start"


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (None, ["`judge` asks a model, and there is none", "`script:FILE` with a reply for each step"]),
        ("", ["`--model` names no model"]),
        ("script:", ["`--model` names no model"]),
        ("script:none.yaml", ["the replies in `none.yaml` can't be read: no such file"]),
        ("script:broken.yaml", ["the replies in `broken.yaml` can't be read: not readable as YAML"]),
        ("script:list.yaml", ["`list.yaml` holds no replies"]),
        ("openai/small", ["the model `openai/small` needs LiteLLM", "pip install 'stepward[litellm]'"]),
    ],
)
def test_a_model_that_is_not_there_is_told(
    model: str | None, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "litellm", None)
    named = [] if model is None else ["--model", model]
    result = stepward("run", "shop.yaml", *ORDER, "--input", "amount=1", *GIVEN[:2], *named)
    says(result, 2, f"error: {words[0]}", *words[1:])


def test_a_script_without_the_reply_fails_the_step_and_a_list_is_said_in_turn() -> None:
    Path("replies.yaml").write_text("other: 1\n")
    assert "the script has no reply for `judge`" in shop().stdout
    Path("replies.yaml").write_text("judge: [maybe, yes]\n")
    Path("shop.yaml").write_text(SHOP.replace("output_key: view}", "output_key: view, on_error: retry}"))
    Path("quick.py").write_text(TOOLS)
    result = shop("--output-format", "json")
    assert [(entry["body"]["kind"], entry["body"].get("rule")) for entry in as_json(result)["trace"][1:3]] == [
        ("again", "allowed_outputs"),
        ("success", None),
    ]
    text = stepward("runs", as_json(result)["run"]["id"]).stdout
    assert re.search(r"judge +failed .*rejected by `allowed_outputs`; .*; again\n", text)
    assert re.search(r'judge +success \(attempt 2\) .*"yes"\n', text)


def test_a_model_of_litellm_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    from fake_litellm import Fake

    fake = Fake()
    fake.says = '{"reply": "yes"}'
    monkeypatch.setitem(sys.modules, "litellm", fake)
    result = shop("--model", "openai/small")
    assert result.exit_code == 0
    assert "SUCCESS (declared) at `done`: 6 steps, 17 tokens, cost 0.0000135" in result.stdout
    assert re.search(r"judge +success +[\d.]+ (µs|ms) +17 +0.0000135 +\"yes\"", result.stdout)


@pytest.mark.parametrize(
    ("journal", "words"),
    [
        ("", ["an empty text names no file"]),
        (":memory:", ["`:memory:` names no file for a journal"]),
        (".", ["the journal `.` is a folder"]),
        ("none/runs.db", ["the journal `none/runs.db` can't be made: no such file"]),
        ("list.yaml", ["the journal `list.yaml` can't be opened: it is no database"]),
        ("other.db", ["the journal `other.db` is a database of another program"]),
        ("postgresql://u:hush@127.0.0.1:1/x?connect_timeout=2", ["the journal in PostgreSQL can't be opened"]),
    ],
)
def test_what_is_no_journal_is_told(journal: str, words: list[str]) -> None:
    with database("other.db") as connection:
        connection.execute("CREATE TABLE t (x)")
    Path("list.yaml").write_text("- 1\n" * 999)
    for command in (["run", "ends.yaml", "--journal", journal], ["runs", "--journal", journal], ["verify", journal]):
        result = stepward(*command)
        if command == ["verify", ""]:
            assert (result.exit_code, "an empty text names no file" in result.output) == (2, True)
            continue
        if command[0] != "run" and journal == "none/runs.db":
            words = ["there is no journal at `none/runs.db`", "names another journal"]
        says(result, 2, f"error: {words[0]}", *words[1:])
        assert "hush" not in result.output


def test_a_key_that_is_none_is_told() -> None:
    for command in (["run", "ends.yaml"], ["run", "ends.yaml", "--journal", "made.db"]):
        says(stepward(*command, "--key", "none.pem"), 2, "error: `none.pem` can't be read: no such file")
        says(stepward(*command, "--key", "list.yaml"), 2, "error: `list.yaml` holds no private key in PEM")
    assert not Path("made.db").exists()


def test_options_that_contradict_each_other_are_refused() -> None:
    says(stepward("run", "ends.yaml", "--config", "a", "--isolated"), 2, "--config names a configuration")
    says(stepward("run", "ends.yaml", "--accept", "SW999"), 2, "--accept: `SW999` is not a code")
    says(stepward("run", "ends.yaml", "--accept", ","), 2, "--accept names no code")
    says(stepward("run", "ends.yaml", "--policy", "none.yaml"), 2, "the policy `none.yaml` can't be read")
    says(stepward("run", "ends.yaml", "--policy", "list.yaml"), 2, "error[SW002]", "so nothing was run")
    says(stepward("run"), 2, "Missing argument 'PROGRAM'")


def test_a_journal_in_postgresql(empty_postgres: str) -> None:
    from psycopg.conninfo import conninfo_to_dict

    parts = {name: str(value) for name, value in conninfo_to_dict(empty_postgres).items()}
    query = "&".join(f"{name}={value}" for name, value in parts.items() if name != "dbname")
    url = f"postgresql:///{parts['dbname']}?{query}"
    waits = shop("--run-id", "r1", amount=60, journal=url)
    assert waits.exit_code == 4
    arguments = advice(waits, "resume:")
    arguments[4] = '{"ok": true}'
    assert stepward(*arguments).exit_code == 0
    assert stepward("runs", "--journal", url).stdout.endswith("\n1 run\n")
    assert stepward("verify", url, "r1").exit_code == 0
    assert stepward("replay", url, "r1").exit_code == 0
