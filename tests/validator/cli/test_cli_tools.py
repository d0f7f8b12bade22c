"""Fast: `check --tools` and `stepward manifest`: functions against manifests, and manifests from functions."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from paths import ROOT
from stepward.validator.cli import main
from stepward.vm import Program, tool
from stepward.vm.language.annotations import type_of


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def put(name: str, text: str) -> str:
    Path(name).write_text(text, encoding="utf-8")
    return name


def program(spec: str, args: str = "{a: $a}") -> str:
    text = f"name: p\ninputs: {{a: {{type: integer}}}}\ntools: {{t: {spec}}}\nsteps:\n"
    return put("p.yaml", f"{text}  - {{id: s, type: tool, tool: t, args: {args}}}\n")


def messages(spec: str, function: str) -> list[str]:
    program(spec)
    put("f.py", f"from typing import *\nfrom stepward.vm import Suspend\n{function}\n")
    result = run("check", "--isolated", "--output-format", "json", "p.yaml", "--tools", "f.py")
    found = json.loads(result.stdout)["findings"]
    assert {one["code"] for one in found} <= {"SW221", "SW222"}, found
    assert all(one["line"] == 3 for one in found)
    return [one["message"] for one in found]


ARG = "{effect: read, args: {a: %s}}"
RETURNS = "{effect: read, args: {a: {type: integer}}, returns: %s}"
SUSPENDS = "{effect: none, suspends: true, args: {a: {type: integer}}, returns: %s}"


NO_ARGS = "the step gives the argument `b`, and the function has no such parameter"


@pytest.mark.parametrize(
    ("args", "function", "message"),
    [
        ("{a: 1}", "def t(a: int): ...", ""),
        ("{a: 1}", "def t(a: int, *, idempotency_key: str, more: str = ''): ...", ""),
        ("{a: 1, b: 2}", "def t(**all): ...", ""),
        ("{a: $a}", "def t(a: str): ...", ""),  # what a reference gives is not compared
        ("{a: $$5}", "def t(a: int): ...", ""),
        ("{a: 1}", "def t(a: 'Nowhere'): ...", ""),
        ("{b: 1}", "def t(a: int): ...", f"tool `t`: {NO_ARGS}"),
        ("{a: 1, b: 2}", "def t(a: int): ...", f"tool `t`: {NO_ARGS}"),
        (
            "{}",
            "def t(a: int): ...",
            "tool `t`: the function needs the parameter `a`, and the step gives no such argument",
        ),
        (
            '{a: "3"}',
            "def t(a: int): ...",
            'the function of tool `t` does not take this `a`: it must be an integer, not `"3"`',
        ),
        (
            "{a: [1, x]}",
            "def t(a: list[int]): ...",
            'the function of tool `t` does not take this `a`: it `[1]` must be an integer, not `"x"`',
        ),
    ],
)
def test_without_args_in_the_manifest_each_call_is_compared(args: str, function: str, message: str) -> None:
    program("{effect: read}", args)
    put("f.py", f"{function}\n")
    found = json.loads(run("check", "--isolated", "--output-format", "json", "p.yaml", "--tools", "f.py").stdout)
    messages = [one["message"] for one in found["findings"] if one["code"] == "SW221"]
    assert messages == ([message] if message else [])


@pytest.mark.parametrize(
    ("spec", "function"),
    [
        (ARG % "{type: integer}", "def t(a: int): ..."),
        (ARG % "{type: integer}", "def t(a: float): ..."),
        (ARG % "{type: integer}", "def t(a): ..."),
        (ARG % "{type: integer}", "def t(a: 'Nowhere'): ..."),
        (ARG % "{type: integer}", "def t(a: object, context: Any): ..."),
        (ARG % "{type: integer}", "def t(**rest: str): ..."),
        (ARG % "{type: integer}", "def t(a: int | None = None, b: str = 'x'): ..."),
        (ARG % "{}", "def t(a: str): ..."),
        (RETURNS % "{type: string}", "def t(a): return 1"),
        (SUSPENDS % "{type: string}", "def t(a) -> str | Suspend: ..."),
        (SUSPENDS % "{}", "def t(a) -> Awaitable[Suspend]: ..."),
        (SUSPENDS % "{type: string}", "def t(a): return 'x'"),
        (SUSPENDS % "{}", "def t(a) -> Any: ..."),
        (SUSPENDS % "{}", "def t(a): return Suspend(a)"),
        (RETURNS % "{type: number}", "async def t(a) -> int: ..."),
        (RETURNS % "{type: number}", "def t(a) -> Awaitable[int]: ..."),
        (RETURNS % "{type: object, properties: {b: {type: string}}, required: [b]}", "def t(a) -> dict[str, Any]: ..."),
        (RETURNS % "{type: string, enum: [x, y]}", "def t(a) -> Literal['x']: ..."),
        ("{effect: write, idempotent: true}", "def t(a, idempotency_key): ..."),
        ("{effect: write, idempotent: true}", "def t(a, context): ..."),
        ("{effect: write, idempotent: false}", "def t(a): ..."),
    ],
)
def test_a_function_that_fits_has_no_finding(spec: str, function: str) -> None:
    assert messages(spec, function) == []


@pytest.mark.parametrize(
    ("spec", "function", "message"),
    [
        (ARG % "{type: integer}", "def u(a): ...", "`f.py` has no function for tool `t`"),
        (ARG % "{type: integer}", "t = 3", "`f.py` has no function for tool `t`"),
        (ARG % "{type: integer}", "def t(b): ...", "the manifest declares the argument `a`, and the function has no"),
        (
            ARG % "{type: integer}",
            "def t(a, b): ...",
            "the function needs the parameter `b`, and the manifest declares",
        ),
        (ARG % "{type: number}", "def t(a: int): ...", "allows a number for `a` of tool `t`, but the function"),
        (ARG % "{type: integer}", "def t(a: str): ...", "allows an integer for `a` of tool `t`"),
        (ARG % "{type: [integer, 'null']}", "def t(a: int): ...", "allows null for `a` of tool `t`"),
        (RETURNS % "{type: string}", "def t(a) -> int: ...", "may return an integer as its output"),
        (RETURNS % "{type: string}", "def t(a) -> None: ...", "may return null as its output"),
        (
            RETURNS % "{type: array, items: {type: string}}",
            "def t(a) -> list[int]: ...",
            "an integer as its `output[]`",
        ),
        ("{effect: write, idempotent: true}", "def t(a): ...", "takes no `idempotency_key`"),
        (RETURNS % "{type: string}", "def t(a) -> str | Suspend: ...", "returns `Suspend`, and the manifest does not"),
        (SUSPENDS % "{type: string}", "def t(a) -> str: ...", "function never returns `Suspend`"),
        (SUSPENDS % "{type: 'null'}", "def t(a) -> None: ...", "function never returns `Suspend`"),
    ],
)
def test_a_function_that_does_not_fit_is_a_finding(spec: str, function: str, message: str) -> None:
    (found,) = messages(spec, function)
    assert message in found


def test_functions_are_compared_with_what_a_policy_declares_and_also_for_objects() -> None:
    put("p.yaml", "name: p\nsteps: [{id: s, type: tool, tool: t, args: {}}]\n")
    put("policy.yaml", "policy: house\ntools: {t: {effect: read, args: {}, returns: {type: string}}}\n")
    put("f.py", "def t() -> int: ...\n")
    result = run("check", "--isolated", "p.yaml", "--policy", "policy.yaml", "--tools", "f.py")
    assert result.exit_code == 1
    assert "may return an integer as its output" in result.output
    put("made_here_for_tools.py", "from stepward.vm import Program\nP = Program.load('p.yaml')\n")
    named = ["--object", "made_here_for_tools:P", "--policy", "policy.yaml", "--tools", "f.py"]
    assert "may return an integer as its output" in run("check", "--isolated", *named).output


def test_a_comment_silences_a_finding_and_the_cache_is_not_asked() -> None:
    text = Path(program("{effect: write, idempotent: true}")).read_text(encoding="utf-8")
    put("f.py", "def t(a): ...\n")
    assert run("check", "p.yaml").exit_code == 0
    assert "SW222" in run("check", "p.yaml", "--tools", "f.py").output
    assert "SW222" not in run("check", "p.yaml").output
    put("p.yaml", text.replace("tools:", "# stepward: ignore[SW222] setting a row twice sets it once\ntools:"))
    assert "SW222" not in run("check", "p.yaml", "--tools", "f.py").output


@pytest.mark.parametrize("command", [("check", "p.yaml", "--tools"), ("manifest",)])
@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import no_such_module_here", "`f.py` can't be imported: ModuleNotFoundError"),
        ("raise SystemExit(3)", "`f.py` can't be imported: SystemExit"),
        ("def t(:", "`f.py` can't be imported: SyntaxError"),
    ],
)
def test_a_module_that_can_not_be_imported_is_an_error_in_words(command: tuple[str, ...], code: str, why: str) -> None:
    program("{effect: read}")
    put("f.py", code)
    result = run(*command, "f.py")
    assert result.exit_code == 2
    assert why in result.stderr
    assert "Traceback" not in result.output


def test_a_module_is_imported_only_when_the_option_is_given() -> None:
    program("{effect: read}")
    put("f.py", "open('imported', 'w').close()\ndef t(a): ...\n")
    run("check", "p.yaml")
    assert not Path("imported").exists()
    run("check", "p.yaml", "--tools", "f.py")
    assert Path("imported").exists()


# -- manifests ---------------------------------------------------------------------------------------------------------

PAGE = (ROOT / "specs/command.md").read_text(encoding="utf-8").partition("### Functions and manifests")[2]


def test_the_example_of_the_page_gives_a_manifest_that_its_functions_fit() -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    put("shop.py", code)
    result = run("manifest", "shop.py")
    assert result.exit_code == 0
    data = yaml.safe_load(result.stdout)
    order = {"type": "object", "properties": {"total": {"type": "number"}}, "required": ["total"]}
    assert data == {
        "tools": {
            "get_order": {
                "effect": "read", "idempotent": False, "args": {"order_id": {"type": "string"}}, "returns": order,
            },
            "issue_refund": {
                "effect": "write", "idempotent": True,
                "args": {"order_id": {"type": "string"}, "amount": {"type": "number"}}, "returns": {"type": "string"},
            },
        }
    }  # fmt: skip
    steps = [
        {"id": "a", "type": "tool", "tool": "get_order", "args": {"order_id": "A"}, "output_key": "order"},
        {"id": "b", "type": "tool", "tool": "issue_refund", "args": {"order_id": "A", "amount": "$order.total"}},
    ]
    put("p.yaml", yaml.safe_dump({"name": "p", **data, "steps": steps}))
    checked = run("check", "--isolated", "p.yaml", "--tools", "shop.py")
    assert checked.exit_code == 0
    assert "SW22" not in checked.output
    assert json.loads(run("manifest", "shop.py", "--output-format", "json").stdout) == data
    run("manifest", "shop.py", "--output-file", "m.yaml")
    assert Path("m.yaml").read_text(encoding="utf-8") == result.stdout


@pytest.mark.parametrize(
    ("parameters", "args"),
    [
        ("", {}),
        ("a, *rest", {"a": {}}),
        ("a, **rest", None),
        ("a: int = 3", {"a": {"type": "integer", "default": 3}}),
        ("a: str = None", {"a": {"type": ["string", "null"], "default": None}}),
        ("a: 'Nowhere', b: int", {"a": {}, "b": {"type": "integer"}}),
        ("a: Literal['x', 2] = 2", {"a": {"enum": ["x", 2], "default": 2}}),
        ("a: list[int | str]", {"a": {"type": "array", "items": {"type": ["integer", "string"]}}}),
        ("a: dict[str, bool]", {"a": {"type": "object", "additionalProperties": {"type": "boolean"}}}),
        ("a: dict | list[int]", {"a": {"type": ["object", "array"], "items": {"type": "integer"}}}),
        ("a: Annotated[float, 'm']", {"a": {"type": "number"}}),
        ("a: int | bytes", {"a": {}}),
        ("a: tuple[int, str]", {"a": {"type": "array"}}),
        ("a: tuple[int, ...]", {"a": {"type": "array", "items": {"type": "integer"}}}),
        ("context, idempotency_key", {}),
    ],
)
def test_parameters_become_arguments(parameters: str, args: Any) -> None:
    put("f.py", f"from typing import *\ndef t({parameters}): ...\ndef _private(): ...\nclass No: ...\n")
    result = run("manifest", "f.py")
    assert result.exit_code == 0, result.output
    found = yaml.safe_load(result.stdout)["tools"]
    assert list(found) == ["t"]
    assert found["t"].get("args") == args
    data = {"name": "p", "tools": found, "steps": [{"id": "s", "type": "tool", "tool": "t"}]}
    assert Program.from_dict(data).tools is not None


@pytest.mark.parametrize(
    ("function", "returns"),
    [
        ("def t() -> Suspend: ...", None),
        ("async def t() -> Suspend: ...", None),
        ("def t() -> Awaitable[Suspend]: ...", None),
        ("def t() -> 'Suspend': ...", None),
        ("def t() -> stepward.vm.Suspend: ...", None),
        ("def t() -> Annotated[Suspend, 'a question']: ...", None),
        ("class Ask(Suspend): ...\ndef t() -> Ask: ...", None),
        ("def t() -> Suspend | bool: ...", {"type": "boolean"}),
        ("def t() -> Union[Suspend, Literal['yes', 'no']]: ...", {"enum": ["yes", "no"]}),
        ("def t() -> Optional[Suspend]: ...", {"type": "null"}),
        ("def t(): return Suspend('?')", None),
        ("def t(): return stepward.vm.Suspend('?')", None),
        ("@tool(effect='none')\ndef t() -> Suspend: ...", None),
        ("@functools.wraps(ask)\ndef t(*a): return ask(*a)", None),
    ],
)
def test_a_function_that_may_return_suspend_suspends(function: str, returns: Any) -> None:
    put("f.py", f"import functools\nfrom typing import *\nimport stepward.vm\n{IMPORTED}\n{function}\n")
    found = yaml.safe_load(run("manifest", "f.py").stdout)["tools"]["t"]
    assert (found.get("suspends"), found.get("returns")) == (True, returns)
    program(json.dumps({**found, "suspends": False}), "{}")
    checked = run("check", "--isolated", "p.yaml", "--tools", "f.py")
    assert "returns `Suspend`, and the manifest does not say `suspends: true`" in checked.output
    program(json.dumps(found), "{}")
    assert "SW221" not in run("check", "--isolated", "p.yaml", "--tools", "f.py").output


IMPORTED = "from stepward.vm import Suspend, tool\ndef ask() -> Suspend: ..."


@pytest.mark.parametrize("function", ["def t() -> int: ...", "def t(): return 1", "def t() -> Any: ...", "t = object"])
def test_a_function_that_does_not_name_suspend_does_not_suspend(function: str) -> None:
    put("f.py", f"from typing import *\n{IMPORTED}\ndef u(): ...\n{function}\n")
    found = yaml.safe_load(run("manifest", "f.py").stdout)["tools"]
    assert "suspends" not in found.get("t", {})


def test_a_module_without_functions_is_an_error_and_so_are_facts_that_can_not_be() -> None:
    result = run("manifest", put("f.py", "from json import dumps\nX = 1\n"))
    assert (result.exit_code, "`f.py` has no functions" in result.stderr) == (2, True)
    result = run("manifest", put("g.py", "from stepward.vm import tool\n@tool(effect='kills')\ndef t(): ...\n"))
    assert (result.exit_code, "`effect` must be `read`, `write` or `none`, not 'kills'" in result.stderr) == (2, True)


def test_the_decorator_leaves_a_function_as_it_is() -> None:
    def plain() -> int:
        return 3

    assert tool(effect="read")(plain) is plain
    assert plain() == 3


def test_an_annotation_without_a_hash_says_nothing() -> None:
    assert type_of([1]) == {}


def test_a_manifest_says_beside_each_guess_that_it_is_one() -> None:
    put(
        "shop.py",
        "def look(a: str) -> str: ...\ndef pay(a: str, idempotency_key: str) -> str: ...\n",
    )
    lines = run("manifest", "shop.py").stdout.splitlines()
    assert lines[0].startswith("# `effect` and `idempotent` of 2 tools are a guess, the worst case: correct them, or")
    assert lines[1:5] == [
        "tools:",
        "  look:",
        "    effect: write  # a guess: write `read` if it changes nothing",
        "    idempotent: false  # a guess: write `true` if a second call with the same key changes nothing",
    ]
    (beside_key,) = (line for line in lines if "it takes an `idempotency_key`" in line)
    assert beside_key.startswith("    idempotent: false  # a guess: ")
    found = run("manifest", "shop.py", "--output-format", "json")
    assert yaml.safe_load("\n".join(lines)) == json.loads(found.stdout)
    assert "a guess, the worst case" in found.stderr


def test_what_the_decorator_declares_is_no_guess() -> None:
    put("shop.py", "from stepward.vm import tool\n@tool()\ndef look(a: str) -> str: ...\n")
    result = run("manifest", "shop.py")
    assert (result.stderr, "#" in result.stdout) == ("", False)
