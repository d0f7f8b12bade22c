"""`stepward mcp`: serves the gate and the machine to language models, over the Model Context Protocol."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from stepward.validator.cli.machine import (
    INTERRUPTED,
    MachineError,
    driving_options,
    explained,
    load_key,
    load_old_keys,
    load_policies,
    load_telemetry,
    load_tools,
    open_journal,
    policy_options,
)
from stepward.validator.cli.models import load_model
from stepward.validator.cli.ranges import FILE, Whole
from stepward.validator.cli.servers import configured_servers, server_facts, with_servers
from stepward.validator.cli.written import Written

if TYPE_CHECKING:
    from stepward.validator.gate.servers import NamedServer
    from stepward.validator.gateway.caller_account import Operator
    from stepward.validator.gateway.callers import Caller, Callers
    from stepward.vm.journal.store import Journal

TOKEN: Final = "STEPWARD_CALLER_TOKEN"
"""The variable of the environment that has the caller's token, over standard streams."""


@click.command()
@driving_options
@policy_options
@click.option("--callers", type=FILE, metavar="FILE", help="Who may ask, and for what: tokens, tools and limits.")
@click.option("--journal", metavar="FILE", help="The journal of runs: a SQLite file, or `postgresql://…`.")
@click.option(
    "--operator", cls=Written, type=FILE, metavar="FILE", help="Where resume tokens go, for who answers suspended runs."
)
@click.option("--programs", type=FILE, metavar="FOLDER", help="Where the programs are that callers save.")
@click.option(
    "--http",
    "port",
    type=Whole(0, 65535),
    metavar="PORT",
    help="Serve HTTP on this port of the loopback interface (0: any free one), not standard streams.",
)
def mcp(port: int | None, **options: Any) -> None:
    """Serve language models over MCP.

    Without options a model can check, explain and draw programs. With `--tools` it can also run them, within the limits
    that `--callers` sets. Over standard streams the caller is the one whose token the variable STEPWARD_CALLER_TOKEN
    has.
    """
    _require_library()
    _require_options(port, options)
    gc.enable()  # unlike a check, a server lasts
    with explained():
        callers = _callers(options["callers"])
        caller = None if port is not None else _caller(callers)
        # The journal is opened last, so that a misspelt option makes no file.
        means, telemetry = _means(options), load_telemetry(options)
        if callers is not None and options["tools"] is not None:
            callers.require_tools(means["facts"])
        with closing(open_journal(options["journal"], create=True)) as stored:
            journal = stored if telemetry is None else telemetry.watch(stored)
            _serve(_operator(means, journal, options), callers, caller, port)


def _serve(operator: Operator, callers: Callers | None, caller: Caller | None, port: int | None) -> None:
    from stepward.validator.gateway.gateway import Gateway
    from stepward.validator.gateway.serving import serve_http, serve_streams

    gateway = Gateway(operator)
    if caller is not None:
        with _interrupts_end_the_process():
            asyncio.run(serve_streams(gateway, caller))
        return
    assert callers is not None, "over HTTP there is a file of callers"
    assert port is not None, "without a port the caller is known"
    try:
        serve_http(gateway, callers, port, lambda url: click.echo(f"serving at {url}", err=True))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


@contextmanager
def _interrupts_end_the_process() -> Iterator[None]:
    """Let an interrupt end the process at once: a thread waits for input, and Python would wait for the thread.

    A run that is under way can be recovered, as after any crash.
    """
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _require_library() -> None:
    try:
        import mcp.server  # noqa: F401
    except ImportError as error:
        help = "install Stepward with its extra: `python -m pip install 'stepward[mcp]'`"
        raise MachineError(f"`stepward mcp` needs the library `mcp` ({error})", help) from None


def _require_options(port: int | None, options: dict[str, Any]) -> None:
    if port is not None and options["callers"] is None:
        raise click.UsageError("--http needs --callers: any process on this machine can reach the port")
    for needed in ("callers", "journal"):
        if options["tools"] is not None and options[needed] is None:
            why = (
                "it says who may call which tools"
                if needed == "callers"
                else "a run that waits must outlast the server"
            )
            raise click.UsageError(f"--tools needs --{needed}: {why}")


def _callers(file: Path | None) -> Callers | None:
    from stepward.validator.gateway.callers import Callers

    return None if file is None else Callers.load(file)


def _caller(callers: Callers | None) -> Caller:
    """Return the caller on the other side of the standard streams; raises MachineError for a wrong token."""
    from stepward.validator.gateway.callers import local

    token = os.environ.pop(TOKEN, None)  # tools, and what they start, need not have it
    if callers is None:
        return local()
    caller = None if token is None else callers.of_token(token)
    if caller is None:
        why = f"there is no `{TOKEN}`" if token is None else f"`{TOKEN}` is the token of no caller"
        raise MachineError(why, "set it to the token of a caller in the file of `--callers`")
    return caller


def _means(options: dict[str, Any]) -> dict[str, Any]:
    """Return the parts of an operator that options name, but for those that need files of their own."""
    from stepward.validator.cli.manifest import described, tools_in
    from stepward.validator.gateway.judging import in_force

    functions, policies = load_tools(options["tools"]), load_policies(options)
    facts = {} if functions is None else tools_in(functions, options["tools"])
    servers, key = _servers(options), load_key(options["key_file"])
    return {
        "tools": with_servers(functions, servers) if servers else functions,
        "about": described(functions, facts),
        "facts": facts | server_facts(servers, in_force(policies)) if servers else facts,
        "model": load_model(options),
        "key": key,
        "trusted": load_old_keys(options["old_keys"], key),
        "policies": policies,
    }


def _servers(options: dict[str, Any]) -> tuple[NamedServer, ...]:
    """Return the MCP servers of the configuration, if there are callers who may use their tools."""
    if options["callers"] is None:
        return ()
    servers = configured_servers(options)
    if servers and options["journal"] is None:
        raise click.UsageError("tools of MCP servers need --journal: a run that waits must outlast the server")
    return servers


def _operator(means: dict[str, Any], journal: Journal, options: dict[str, Any]) -> Operator:
    from importlib.metadata import version

    from stepward.validator.gate.version import version_digest
    from stepward.validator.gateway.approvals import Approvals
    from stepward.validator.gateway.caller_account import Operator

    gate = f"stepward {version('stepward')} {(version_digest() or 'unknown')[:16]}"
    approvals = None if options["operator"] is None else Approvals(options["operator"])
    return Operator(journal, gate, approvals=approvals, programs=options["programs"], **means)
