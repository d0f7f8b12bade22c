"""Shared by the commands about runs: their options, the machine that these name, and the report on a run."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click

from stepward.validator.cli.models import FORMS, load_model, model_options
from stepward.validator.cli.output import refuse_two_configurations, uses_color, write_output
from stepward.validator.cli.printed import command
from stepward.validator.cli.ranges import FILE
from stepward.validator.cli.servers import (
    configured_servers,
    is_of_server,
    require_confirmed,
    require_pinned,
    with_servers,
)
from stepward.validator.cli.written import refuse_all
from stepward.validator.result import AdvisedError

if TYPE_CHECKING:
    from stepward.validator.gate.servers import NamedServer
    from stepward.vm.journal.run_keys import RunKeys
    from stepward.vm.journal.signing import SigningKey, VerifyKey
    from stepward.vm.journal.store import Journal
    from stepward.vm.language.policy import Policy
    from stepward.vm.machine.admission import Checker
    from stepward.vm.machine.execution import ExecutionVM
    from stepward.vm.machine.history import History
    from stepward.vm.machine.models import Model
    from stepward.vm.machine.plan import Plan
    from stepward.vm.machine.run import Run
    from stepward.vm.machine.tools import FunctionTools
    from stepward.vm.models.cache import ReplyCache
    from stepward.vm.telemetry.telemetry import Telemetry

F = TypeVar("F", bound=Callable[..., Any])

ENDED_OTHERWISE, UNFINISHED, INTERRUPTED = 1, 4, 130
"""Exit statuses: a run ended, but not in SUCCESS; it has not ended; somebody stopped the command."""

DEFAULT_JOURNAL: Final = "runs.db"

SENDING: Final = 5.0
"""Seconds that a command waits for its last spans to be sent."""


LEASE: Final = 60.0
"""Seconds that a run stays with a process that shows no sign of life."""


class MachineError(AdvisedError):
    """A command about a run can't be executed."""


# -- options -----------------------------------------------------------------------------------------------------------


def complete_runs(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the ids of the runs in the journal that the command line names so far."""
    journal = context.params.get("journal") or DEFAULT_JOURNAL
    try:
        with closing(open_journal(str(journal))) as opened:
            return [run for run in opened.names() if run.startswith(incomplete)]
    except Exception:  # completion in a shell shows no errors
        return []


journal_option = click.option(
    "--journal",
    default=DEFAULT_JOURNAL,
    show_default=True,
    metavar="FILE",
    help="The journal: a SQLite file, or `postgresql://…`.",
)
format_option = click.option(
    "--output-format", type=click.Choice(["text", "json"]), default="text", show_default=True, help="The format."
)
private_key_option = click.option(
    "--key", "key_file", type=FILE, metavar="FILE", help="A private key to sign journals; `stepward key` makes one."
)
old_key_option = click.option(
    "--old-key",
    "old_keys",
    type=FILE,
    multiple=True,
    metavar="FILE",
    help="A public key that signed runs before `--key` did (repeatable).",
)
by_option = click.option("--by", metavar="NAME", help="Your name, for the journal and for policies with `four_eyes`.")


def key_option(function: F) -> F:
    """Add the options that name the key that signs, and those that signed before it."""
    return private_key_option(old_key_option(function))


def driving_options(function: F) -> F:
    """Add the options of a command that continues a run: tools, model, cache, the key that signs, and spans."""
    cache = click.option(
        "--cache",
        metavar="FILE",
        help="Keep replies to steps with `cache: true` for later runs: a SQLite file, or `redis://…`.",
    )
    tools = click.option(
        "--tools",
        metavar="MODULE",
        help="The module (`package.module`) or .py file with the functions of the tools.",
    )
    otel = click.option("--otel", is_flag=True, help="Send spans and metrics, as the variables OTEL_* say.")
    values = click.option("--otel-values", is_flag=True, help="Send them with values, but never sensitive ones.")
    return tools(model_options(cache(key_option(otel(values(function))))))


def policy_options(function: F) -> F:
    """Add the options that name the policies of a machine: `--policy`, and the configuration with others."""
    for option in (
        click.option("--isolated", is_flag=True, help="Use no configuration file."),
        click.option("--config", type=FILE, metavar="FILE", help="Use this configuration."),
        click.option(
            "--policy", "policies", type=FILE, multiple=True, metavar="FILE", help="A policy to apply (repeatable)."
        ),
    ):
        function = option(function)
    return function


# -- what the options name ---------------------------------------------------------------------------------------------


@contextmanager
def explained() -> Iterator[None]:
    """Turn errors of the machine, a journal or a key into messages with a help."""
    from stepward.vm.errors import DocumentError, StepwardError
    from stepward.vm.machine.refusals import DeliveryRefused, NoSuchRun, RunBusy, RunRefused

    try:
        yield
    except (AdvisedError, DocumentError):
        raise
    except NoSuchRun as error:
        raise MachineError(str(error), f"`stepward runs` lists them; {_other_journal()}") from None
    except RunRefused as error:
        help = error.help or ("name the new run otherwise with `--run-id`" if str(error).startswith("run `") else "")
        if " breaks rule `" in str(error):
            help = "cancel it, or let it go on under policies that it has not broken"
        raise MachineError(str(error), help) from None
    except DeliveryRefused as error:
        raise MachineError(str(error), "`stepward runs RUN` shows what the run waits for") from None
    except RunBusy as error:
        help = "wait until it is done; where it has crashed, its lease ends a minute after its last sign of life"
        if str(error).startswith("the lease of run"):  # no wait is long enough for that
            help = "set right the clock that is wrong; `stepward runs recover RUN` passes such a lease over"
        raise MachineError(str(error), help) from None
    except StepwardError as error:
        raise MachineError(str(error)) from None


def open_journal(name: str | None, *, create: bool = False, locked: bool = False) -> Journal:
    """Return the journal of a name, or one in memory for None; raises JournalError when it can't be opened.

    `locked`: encrypted values are read and written as they are.
    """
    if name is None:
        from stepward.vm.journal.memory import MemoryJournal

        return MemoryJournal()
    if name in ("", ":memory:"):
        help = "name a file; `stepward run PROGRAM` alone keeps the run in memory"
        raise MachineError(f"{f'`{name}`' if name else 'an empty text'} names no file for a journal", help)
    keys = None if locked else _keys()
    if name.startswith(("postgresql://", "postgres://")):
        from stepward.vm.journal.postgres import PostgresJournal

        return PostgresJournal(name, create=create, keys=keys)
    from stepward.vm.journal.sqlite import SQLiteJournal

    if not create and not os.path.exists(name):
        help = f"{_other_journal()}; `stepward run PROGRAM --journal {shlex.quote(name)}` makes it"
        raise MachineError(f"there is no journal at `{name}`", help)
    return SQLiteJournal(name, create=create, keys=keys)


def _other_journal() -> str:
    """Return how the present command is told of another journal: by an option, or by its argument."""
    context = click.get_current_context(silent=True)
    takes_option = context is None or any("--journal" in one.opts for one in context.command.params)
    return "`--journal` names another journal" if takes_option else "another argument names another journal"


def _keys() -> RunKeys | None:
    """Return the key store that `STEPWARD_KEYS` describes, if it does; raises MachineError for what is none."""
    described = os.environ.get("STEPWARD_KEYS", "")
    if not described:
        return None
    from stepward.vm.journal.run_keys import KeyStoreRefused, key_store

    try:
        return key_store(described, os.environ)
    except KeyStoreRefused as error:
        raise MachineError(str(error), error.help) from None


def load_key(file: Path | None) -> SigningKey | None:
    """Return the private key in a file; raises KeyRefused for a file without one."""
    if file is None:
        return None
    from stepward.vm.journal.signing import SigningKey

    return SigningKey.load(file)


def load_old_keys(files: Sequence[Path], key: SigningKey | None) -> tuple[VerifyKey, ...]:
    """Return the public keys in files; raises KeyRefused for a file without one, MachineError without a new key."""
    if not files:
        return ()
    if key is None:
        raise MachineError("`--old-key` names a key of before, and there is no new one", "name it with `--key`")
    from stepward.vm.journal.signing import VerifyKey

    return tuple(map(VerifyKey.load, files))


def load_tools(name: str | None) -> Any:
    """Return the module whose functions are tools; raises TargetError when it can't be imported."""
    if name is None:
        return None
    from stepward.validator.cli.objects import load_file, load_module

    is_file = name.endswith(".py") or os.sep in name
    return load_file(name) if is_file else load_module(name)


def load_policies(options: dict[str, Any]) -> list[Policy]:
    """Return the policies for a run that continues: those of the options, and those of the configuration here.

    Raises ConfigurationError for settings that can't be used, PolicyError for a file that is no policy.
    """
    from stepward.validator.cli.loading import configurations_of
    from stepward.validator.gate.policies import Policies

    refuse_two_configurations(config=options["config"], isolated=options["isolated"])
    configurations = configurations_of(options)
    settings = configurations.above(Path.cwd())
    refuse_all(click.get_current_context(), configurations)
    return Policies().of(settings)


def load_telemetry(options: dict[str, Any]) -> Telemetry | None:
    """Return what sends the spans of a command, the same each time, or None; raises TelemetryRefused.

    What is left is sent when the command ends.
    """
    if not options.get("otel") and not options.get("otel_values"):
        return None
    context = click.get_current_context()
    if __name__ not in context.meta:
        from stepward.vm.telemetry.environment import telemetry_of

        telemetry = telemetry_of(os.environ, values=bool(options["otel_values"]))
        context.meta[__name__] = telemetry
        if telemetry is not None:
            context.call_on_close(lambda: _send_rest(telemetry))
    found: Telemetry | None = context.meta[__name__]
    return found


def _send_rest(telemetry: Telemetry) -> None:
    if not telemetry.close(SENDING):
        click.echo(f"spans are left that could not be sent in {SENDING:g} seconds; the run is not affected", err=True)


class Means(NamedTuple):
    """The means of a machine: tools, model, key, observer, MCP servers, cache; `named` is the value of `--tools`."""

    tools: FunctionTools
    model: Model | None
    key: SigningKey | None
    named: str | None
    telemetry: Telemetry | None = None
    servers: tuple[NamedServer, ...] = ()
    cache: ReplyCache | None = None
    trusted: tuple[VerifyKey, ...] = ()
    breaks_after: int | None = None

    def machine(
        self,
        journal: Journal,
        policies: Sequence[Policy] = (),
        checker: Checker | None = None,
        *,
        lease_seconds: float = LEASE,
    ) -> ExecutionVM:
        """Return a machine with these means; without a checker, because programs were checked before."""
        from stepward.vm.machine.execution import ExecutionVM

        return ExecutionVM(
            self.tools,
            self.model,
            journal,
            policies,
            checker=checker,
            key=self.key,
            trusted=self.trusted,
            breaks_after=self.breaks_after,
            observer=self.telemetry,
            cache=self.cache,
            lease_seconds=lease_seconds,
        )

    def require(self, plan: Plan) -> None:
        """Raise MachineError if a tool or the model of a program is missing."""
        calls = [call for step in plan.steps for call in step.calls]
        called = sorted({call.tool for call in calls if not call.is_model})
        if missing := [tool for tool in called if not self.tools.has(tool)]:
            self._refuse_tools(missing)
        policies = [policy for terms in plan.terms for policy in terms.policies]
        require_confirmed(called, policies, self.servers)
        asking = [call.id for call in calls if call.is_model]
        if asking and self.model is None:
            steps, verb = ", ".join(f"`{step}`" for step in asking), "asks" if len(asking) == 1 else "ask"
            help = f"give one with `--model`: {FORMS}"
            raise MachineError(f"{steps} {verb} a model, and there is none", help)

    def _refuse_tools(self, missing: list[str]) -> None:
        require_pinned(missing, self.servers)
        tools, what = ", ".join(f"`{tool}`" for tool in missing), "tool" if len(missing) == 1 else "tools"
        if self.named is None:
            help = "name the module with their functions: `--tools package.module` or `--tools FILE.py`"
            raise MachineError(f"the program calls {what} {tools}, and there is no `--tools`", help)
        help = f"write a function `{missing[0]}` there, or name another module with `--tools`"
        raise MachineError(f"`{self.named}` has no function for {what} {tools}", help)


def load_means(options: dict[str, Any]) -> Means:
    """Return the means that the options of a command name."""
    servers = configured_servers(options) if "tools" in options else ()  # else the command calls no tool
    functions, model = load_tools(options.get("tools")), load_model(options)
    key, telemetry = load_key(options.get("key_file")), load_telemetry(options)
    cache = load_cache(options.get("cache"))
    trusted = load_old_keys(options.get("old_keys") or (), key)
    tools, named, breaks = with_servers(functions, servers), options.get("tools"), options.get("break_after")
    return Means(tools, model, key, named, telemetry, servers, cache, trusted, breaks)


def load_cache(name: str | None) -> ReplyCache | None:
    """Return the cache of replies of a name, or None; raises CacheFault for a name that can't be one's."""
    if name is None:
        return None
    import logging

    from stepward.validator.report.text import safe
    from stepward.vm.models.opening import open_cache

    class Warnings(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            click.echo(f"warning: {safe(record.getMessage())}", err=True)

    log = logging.getLogger("stepward.cache")
    if not log.handlers:
        log.addHandler(Warnings())
    return open_cache(name)


# -- reports -----------------------------------------------------------------------------------------------------------


def print_report(report: Callable[[bool], str], file: Path | None) -> None:
    """Print a report, or write it into a file; `report` is called with whether it may use colors."""
    if file is None:
        click.echo(report(uses_color()), nl=False, color=uses_color())
    else:
        write_output(file, report(False), "correct `--output-file`")


def history_of(journal: Journal, run: str, keys: Sequence[VerifyKey] = ()) -> History:
    """Return the records of a run; raises NoSuchRun, or JournalError for damage or, with keys, a wrong signature."""
    from stepward.vm.machine.history import load, stored_plan
    from stepward.vm.machine.refusals import NoSuchRun

    found = load(journal, run, lambda *documents: stored_plan(journal, *documents), keys)
    if found is None:
        is_pruned = journal.kept(run) is not None
        raise NoSuchRun(f"run `{run}` was pruned" if is_pruned else f"there is no run `{run}`")
    return found


def print_run(run: Run, journal: Journal, options: dict[str, Any], known: int = 0) -> None:
    """Print the trace of a run, its outcome, and what its user can do next.

    The first `known` records are counted and not printed, unless nothing follows them. JSON has all.
    """
    from stepward.validator.report.text import counted, safe
    from stepward.validator.report.trace import render_outcome, render_trace, run_data, trace_data

    found = history_of(journal, run.id)
    if options["output_format"] == "json":
        print_json({"version": 1, "run": run_data(run, found), "trace": trace_data(found)})
        return
    color = uses_color()
    known = known if known < len(found.records) else 0
    text = f"run `{safe(run.id)}` of `{safe(run.program)}`\n\n"
    if known:
        whole = command("runs", run.id, options=options)
        text += f"{counted(known, 'record')} before, which `{safe(whole)}` shows; then:\n\n"
    text += f"{render_trace(found, known, color=color)}\n{render_outcome(run, found)}"
    text += "".join(_advice(run, found, options))
    click.echo(text, nl=False, color=color)


def print_json(data: Any) -> None:
    """Print data as JSON, its numbers exact."""
    from stepward.vm.values import to_json

    click.echo(to_json(data, indent=2))


def _advice(run: Run, found: History, options: dict[str, Any]) -> Iterator[str]:
    from stepward.validator.report.text import safe
    from stepward.validator.report.trace import moment
    from stepward.vm.values import to_json

    if run.status in ("SUSPENDED", "IN_DOUBT") and options.get("journal") is None:
        yield "\nthis run was in memory and is gone; with `--journal FILE` it could go on\n"
        return
    calls = {call.id: call for step in found.plan.steps for call in step.calls}
    missing = _missing_means(found.plan, options)
    recover = command("runs recover", run.id, *missing, options=options)
    for waits in run.suspensions:
        asks = "" if waits.request is None else f", and asks: {safe(to_json(waits.request))}"
        yield f"\n`{waits.step}` waits for somebody{asks}\n"
        call = calls[waits.step]
        if call.returns is not None:
            yield f"  the answer must have this type: {safe(to_json(call.returns.to_data()))}\n"
        if waits.token:
            before, after = _who(found, call.tool)
            arguments = (waits.token, "--payload", "JSON", *before, *missing)
            yield f"  resume: {command('runs resume', *arguments, options=options)}{after}\n"
    if run.status != "RUNNING" and run.due is not None:
        yield f"\nthe run waits until {moment(int(run.due * 1e6))}; then a worker takes it up, or you do:\n"
        yield f"  {recover}\n"
    for doubt in run.doubts:
        yield f"\n`{doubt.place}` is in doubt: {safe(doubt.why)}\n"
        yield f"  look whether `{doubt.tool}` happened, under the idempotency key {doubt.key}, then say so:\n"
        reconcile = partial(command, "runs reconcile", run.id, doubt.place, options=options)
        before, after = _who(found, doubt.tool)
        yield f"    it did:      {reconcile('done', '--output', 'JSON', *before, *missing)}{after}\n"
        yield f"    it did not:  {reconcile('not-done', *missing)}{_BY}\n"
        yield f"    give up:     {reconcile('abandon')}{_BY}\n"
    if run.status == "RUNNING" and run.held_by is None:
        yield "\nif nobody drives this run any more, pick it up:\n"
        yield f"  {recover}\n"


_BY: Final = " [--by NAME]"
"""The option that says who acts, where it may be left out."""


def _who(found: History, tool: str) -> tuple[tuple[str, ...], str]:
    """Return the option that says who settles a call: among the arguments if it may be required, else behind all."""
    state = found.state
    is_asked = state.by or state.caller or tool in found.plan.four_eyes
    return (("--by", "NAME"), "") if is_asked else ((), _BY)


def _missing_means(plan: Plan, options: dict[str, Any]) -> list[str]:
    """Return the options that are needed to go on with a program and are not given, with names to fill in."""
    calls = [call for step in plan.steps for call in step.calls]
    functions = [call for call in calls if not call.is_model and not is_of_server(call.tool, options)]
    needed = {"tools": bool(functions), "model": any(call.is_model for call in calls)}
    words = {"tools": ("--tools", "MODULE"), "model": ("--model", "NAME")}
    return [word for name, pair in words.items() if needed[name] and options.get(name) is None for word in pair]


def exit_status(*runs: Run) -> int:
    """Return 0 when all runs ended in SUCCESS, UNFINISHED when one has not ended, else ENDED_OTHERWISE."""
    if any(not run.is_over for run in runs):
        return UNFINISHED
    return 0 if all(run.status == "SUCCESS" for run in runs) else ENDED_OTHERWISE
