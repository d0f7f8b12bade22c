"""`stepward manifest`: writes the manifest of a module's functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from stepward.validator.cli.machine import MachineError, load_tools
from stepward.validator.cli.output import json_of, write_output
from stepward.validator.cli.ranges import FILE
from stepward.validator.cli.written import Written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


@click.command()
@click.argument("module")
@click.option("--output-format", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True, help="Format.")
@click.option(
    "--output-file", cls=Written, type=FILE, metavar="FILE", help="The file to write, instead of standard output."
)
@click.option("--pin", is_flag=True, help="Pin the tools of an MCP server that your policies declare.")
@click.option("--config", type=FILE, metavar="FILE", help="The configuration that names the MCP server.")
def manifest(module: str, *, pin: bool, **options: Any) -> None:
    """Write a manifest (`tools:`) of the functions in MODULE: a module, or a .py file.

    The types come from annotations, and the other properties from the decorator `tool` of `stepward.vm`. A function
    that may return `Suspend` suspends. If any function has the decorator, only the functions with it are tools.
    Without the decorator, the worst is assumed (`effect: write`, `idempotent: false`), and a comment says so.

    With `mcp:NAME` in place of MODULE it writes a policy with a proposed manifest of the tools of an MCP server, which
    the configuration names. With `--pin` it records what the server says of the tools that your policies declare: they
    are refused when that changes.
    """
    if module.startswith("mcp:"):
        from stepward.validator.cli.server_manifest import server_manifest

        server_manifest(module.removeprefix("mcp:"), {**options, "isolated": False}, pin=pin)
        return
    if pin or options["config"] is not None:
        raise click.UsageError("--pin and --config are for the tools of an MCP server: `mcp:NAME`")
    output_format, output_file = options["output_format"], options["output_file"]
    loaded = load_tools(module)
    tools = tools_in(loaded, module)
    guessed = guessed_tools(loaded, tools)
    if guessed and output_format == "json":
        click.echo(f"warning: {_guesses(guessed)}", err=True)  # JSON has no comments
    text = _commented(tools, guessed) if output_format == "yaml" else json_of({"tools": tools})
    if output_file is None:
        click.echo(text, nl=False)
    else:
        write_output(output_file, text, "correct the path of `--output-file`")


def tools_in(module: Any, name: str) -> dict[str, Any]:
    """Return the manifest of a module's functions as plain data; raises MachineError if it has none."""
    from stepward.vm.machine.declared import facts_of
    from stepward.vm.machine.tools import FunctionTools

    tools = FunctionTools(module)
    functions = {one: tools.function(one) for one in tools.names()}
    declared = {one: function for one, function in functions.items() if facts_of(function) is not None}
    own = {one: function for one, function in functions.items() if _is_defined_in(function, module)}
    found = declared or own
    if not found:
        help = "write functions there; `@tool(effect=...)` of `stepward.vm` declares what the manifest says of one"
        raise MachineError(f"`{name}` has no functions", help)
    return {one: _spec(one, function) for one, function in found.items()}


def described(module: Any, names: Iterable[str]) -> dict[str, str]:
    """Return the first paragraph of what each function of a module says of itself, by the name of its tool."""
    from inspect import getdoc

    from stepward.vm.machine.tools import FunctionTools

    functions = FunctionTools(module or {})
    found = {name: functions.function(name) for name in names}
    texts = {name: getdoc(function) for name, function in found.items() if function is not None}
    return {name: text.partition("\n\n")[0] for name, text in texts.items() if text}


def guessed_tools(module: Any, names: Iterable[str]) -> dict[str, bool]:
    """Return the tools whose function has no decorator, so that their effect is a guess.

    The value says whether the function takes the key of the machine, as a repeatable write would.
    """
    from inspect import signature

    from stepward.vm.machine.declared import facts_of
    from stepward.vm.machine.tools import FunctionTools

    functions = FunctionTools(module)
    found = {name: functions.function(name) for name in names}
    return {
        name: "idempotency_key" in signature(function).parameters
        for name, function in found.items()
        if function is not None and facts_of(function) is None
    }


def _guesses(guessed: dict[str, bool]) -> str:
    which = "1 tool is" if len(guessed) == 1 else f"{len(guessed)} tools are"
    return f"`effect` and `idempotent` of {which} a guess, the worst case: correct them"


def _commented(tools: dict[str, Any], guessed: dict[str, bool]) -> str:
    """Return the manifest as YAML, with a comment beside each guess and a line at the top if there are any."""
    from stepward.vm.reading.yaml_writer import to_yaml

    if not guessed:
        return to_yaml({"tools": tools})
    lines = [
        f"# {_guesses(guessed)}, or declare them in the code with the decorator `tool` of `stepward.vm`.",
        "tools:",
    ]
    for name, spec in tools.items():
        for number, line in enumerate(to_yaml({name: spec}).splitlines()):
            comment = _comment(number, takes_key=guessed[name]) if name in guessed else ""
            lines.append(f"  {line}{comment}" if line else "")
    return "\n".join(lines) + "\n"


def _comment(number: int, *, takes_key: bool) -> str:
    """Return the comment beside a line of a guessed tool: `effect` is its second line, `idempotent` the third."""
    if number == 1:
        return "  # a guess: write `read` if it changes nothing"
    if number == 2:
        why = "it takes an `idempotency_key`; " if takes_key else ""
        return f"  # a guess: {why}write `true` if a second call with the same key changes nothing"
    return ""


def _is_defined_in(function: Any, module: Any) -> bool:
    is_class = isinstance(function, type)
    return not is_class and getattr(function, "__module__", None) == module.__name__


def _spec(name: str, function: Callable[..., Any] | None) -> dict[str, Any]:
    from stepward.vm.language.annotations import signature_of
    from stepward.vm.language.manifest import ToolSpec
    from stepward.vm.machine.declared import ToolFacts, facts_of
    from stepward.vm.machine.equipment import SPECIAL
    from stepward.vm.machine.tools import Suspend

    assert function is not None, "it was found by its name"
    facts = facts_of(function) or ToolFacts()
    signature = signature_of(function, SPECIAL, Suspend)
    data: dict[str, Any] = {"effect": facts.effect, "idempotent": facts.idempotent}
    data |= {"suspends": True} if facts.suspends or signature.suspends else {}
    data |= {} if facts.echoes else {"echoes": False}
    data |= {} if signature.args is None else {"args": signature.args}
    data |= {"returns": signature.returns} if signature.returns else {}
    try:
        ToolSpec.model_validate(data)
    except ValueError as error:
        why = str(error).splitlines()[-2].strip() if len(str(error).splitlines()) > 2 else str(error)
        help = "correct its annotations and defaults, or the decorator"
        raise MachineError(f"function `{name}` has no valid manifest: {why}", help) from None
    return data
