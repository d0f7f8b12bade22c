"""`stepward repl`: a session of turns in Lisp, each proved before it runs."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, redirect_stdout, suppress
from contextvars import copy_context
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import click

from stepward.validator.cli.machine import (
    INTERRUPTED,
    UNFINISHED,
    MachineError,
    Means,
    by_option,
    driving_options,
    explained,
    format_option,
    load_means,
    load_policies,
    open_journal,
    policy_options,
)
from stepward.validator.cli.models import FORMS
from stepward.validator.cli.plan import money
from stepward.validator.cli.printed import GONE, command
from stepward.validator.cli.ranges import FileName, Whole
from stepward.validator.cli.tool_facts import facts_of_tools, note_tools

if TYPE_CHECKING:
    from stepward.validator.planner.brief import Brief
    from stepward.validator.repl.answers import TurnAnswer
    from stepward.validator.repl.session import Session
    from stepward.vm.journal.store import Journal
    from stepward.vm.language.policy import Policy

FAILED: Final = 1


@click.command()
@click.option("--input", "pairs", multiple=True, metavar="NAME=VALUE", help="A value that turns read as `data/NAME`.")
@click.option("--inputs", metavar="FILE", type=FileName(), help="Such values, as one YAML or JSON mapping.")
@click.option("--signature", metavar="TYPE", help="The type of what `(return x)` may give: `{:total :float}`.")
@click.option("--max-steps", type=Whole(1), metavar="N", help="The most steps of all turns together.")
@click.option("--task", metavar="TEXT", help="Let the model of `--model` write the turns for a task.")
@click.option("--turns", type=Whole(1, 50), default=10, show_default=True, help="The most turns for a task.")
@click.option("--max-tokens", type=Whole(1), metavar="N", help="The most tokens for a task.")
@click.option("--max-cost", callback=money, metavar="SUM", help="The most that a task may cost.")
@driving_options
@click.option("--journal", metavar="FILE", help="The journal: a SQLite file, or `postgresql://…`.  [default: memory]")
@click.option(
    "--session",
    "name",
    metavar="NAME",
    help="A new session, or one of the journal that goes on: `NAME`, with the runs `NAME.1`, `NAME.2`, ….",
)
@by_option
@policy_options
@format_option
def repl(**options: Any) -> None:
    """Take turns in Lisp: each is proved from the state after the one before, and then run.

    Reads forms from standard input, in a terminal with a prompt. The tools are the functions of `--tools`. All turns
    are one run: the rules of `--policy` and the budget go on from turn to turn. `:help` lists what else can be typed.

    A session that is in the journal goes on after its last turn; a turn that was interrupted is recovered first.

    Exit status: 0 every turn succeeded, 1 one failed, 2 the command can't be used, 4 a turn has not ended.
    """
    gc.enable()  # unlike a check, a session may last
    with explained():
        policies, means = load_policies(options), load_means(options)
        if options["task"] is not None:
            _require_model(means)
        brief, about = _brief(means, policies, options)
        note_tools(brief, options["tools"], policies)
        with closing(open_journal(options["journal"], create=True)) as journal:
            place = _Place(means, brief, about, journal, options)
            place.catch_up()
            status = place.work(options["task"]) if options["task"] is not None else place.listen()
    sys.exit(status)


def _require_model(means: Means) -> None:
    if means.model is None:
        raise MachineError("a task needs a model, and there is none", f"give one with `--model`: {FORMS}")


def _brief(means: Means, policies: list[Policy], options: dict[str, Any]) -> tuple[Brief, dict[str, str]]:
    """Return the tools that may be called and the rules in force, as for a plan."""
    from stepward.validator.planner.brief import brief_of

    manifest, about = facts_of_tools(means, policies, options)
    task = options["task"] or "turns of a session"
    return brief_of(task, name="turn", manifest=manifest, policies=policies, about=about, inputs=None), about


def _data(options: dict[str, Any]) -> dict[str, Any]:
    from stepward.validator.cli.values import inputs_of, values_in

    names = [pair.partition("=")[0] for pair in options["pairs"]]
    if options["inputs"] == "-":
        raise click.UsageError("standard input is for the turns: name a file with `--inputs`")
    if options["inputs"] is not None:
        names += values_in(options["inputs"], "inputs")
    return inputs_of(options["pairs"], options["inputs"], dict.fromkeys(names), "the session")


class _Place:
    """The place of one session: its means, and the streams that it talks to."""

    def __init__(
        self, means: Means, brief: Brief, about: dict[str, str], journal: Journal, options: dict[str, Any]
    ) -> None:
        self._means, self._brief, self._about = means, brief, about
        self._journal, self._options = journal, options
        self._machines: list[Any] = []
        self._talker: list[Any] = []
        self._loop = asyncio.new_event_loop()
        self._session = self._new_session()
        self._is_json = options["output_format"] == "json"
        self._status = 0
        self._out = sys.stdout  # while a turn runs, what its tools print goes elsewhere

    def _say(self, text: str) -> None:
        click.echo(text, file=self._out)

    def _new_session(self) -> Session:
        from stepward.validator.repl.session import Session
        from stepward.vm.machine.execution import ExecutionVM

        def machine(tools: Any, policies: Any) -> ExecutionVM:
            means = self._means
            vm = ExecutionVM(
                tools,
                None,
                self._journal,
                policies,
                checker=None,
                key=means.key,
                trusted=means.trusted,
                observer=means.telemetry,
            )
            self._machines = [vm]
            return vm

        options = self._options
        try:
            return Session(
                self._means.tools,
                self._brief.policies,
                machine,
                self._journal,
                data=_data(options),
                signature=options["signature"],
                max_steps=options["max_steps"],
                name=options["name"],
                by=options["by"],
            )
        except ValueError as error:
            raise MachineError(str(error), "write it as `--signature '{:total :float}'`") from None
        except TypeError as error:
            raise MachineError(str(error), "correct the policy or the function") from None

    def catch_up(self) -> None:
        """Read what the journal has of the session, and settle a turn that was interrupted."""
        from stepward.vm.machine.refusals import RunRefused

        session = self._session
        try:
            self._loop.run_until_complete(session.catch_up())
        except RunRefused as error:
            raise MachineError(str(error), "see `stepward repl --help`") from None
        if not self._is_json and session.next_number > 1:
            self._say(f"session `{session.name}` goes on after turn {session.next_number - 1}")
        if session.pending:
            if not self._is_json:
                self._say("\n".join(f"> {line}" for line in session.pending.splitlines()))
            self._show(self._waited(session.settle()))

    # -- a person or a script ------------------------------------------------------------------------------------------

    def listen(self) -> int:
        """Take the turns of standard input; return the status of the command."""
        is_terminal = sys.stdin.isatty() and not self._is_json
        if is_terminal:
            self._say("a turn ends with its last parenthesis; `:help` says more, `:quit` leaves")
        for text in self._texts(is_terminal=is_terminal):
            if text.startswith(":"):
                if self._command(text):
                    break
            else:
                self._turn(text)
            if self._session.is_over and not is_terminal:
                break
        return 0 if is_terminal else self._status

    def _texts(self, *, is_terminal: bool) -> Iterator[str]:
        """Yield the turns and commands of standard input; a turn that the end of input cuts off is one, too."""
        from stepward.validator.repl.console import has_forms, is_open

        read = _prompted(lambda: self._session.next_number) if is_terminal else _read_line
        text = ""
        while True:
            try:
                line = read(bool(text))
            except KeyboardInterrupt:
                self._say("")
                text = ""
                continue
            if line is None:
                if text:
                    yield text
                return
            if not text and line.lstrip().startswith(":") and line.strip()[1:2].isalpha():
                yield line.strip()
                continue
            text += line
            if not is_open(text):
                if has_forms(text):
                    yield text.strip()
                text = ""

    def _turn(self, text: str) -> None:
        self._show(self._waited(self._session.turn(text)))

    def _waited(self, work: Any) -> Any:
        from stepward.validator.report.text import safe
        from stepward.vm.machine.waiting import wait

        try:
            with redirect_stdout(sys.stderr):  # output of a tool is none of the session
                return wait(self._loop, work, copy_context())
        except KeyboardInterrupt:
            for machine in (*self._machines, *self._talker):
                machine.let_go()  # the tool that was under way ends with this process
            again = command("repl", "--session", self._session.name, options=self._options, repeats_all=True)
            is_kept = self._options["journal"] is not None
            click.echo(f"\ninterrupted: {f'`{safe(again)}` goes on with the session' if is_kept else GONE}", err=True)
            sys.exit(INTERRUPTED)

    def _show(self, answer: TurnAnswer) -> None:
        from stepward.validator.repl.console import rendered
        from stepward.vm.values import to_json

        if answer.error is not None:
            self._status = UNFINISHED if answer.error.reason == "waits" else self._status or FAILED
        self._say(to_json(answer.as_value()) if self._is_json else "\n".join(rendered(answer)))

    def _command(self, text: str) -> bool:
        """Carry out a command; return whether it ends the session."""
        from stepward.validator.repl.console import HELP
        from stepward.validator.repl.talking import card

        word, _, rest = text.partition(" ")
        commands: dict[str, Callable[[], str]] = {
            ":help": lambda: HELP,
            ":card": card,
            ":tools": self._tools,
            ":names": self._names,
        }
        if word in (":quit", ":exit", ":q"):
            return True
        if word == ":ask":
            self._ask(rest.strip())
        elif word in commands:
            self._say(commands[word]().rstrip())
        else:
            self._complain(
                f"there is no `{word}`", "`:help` lists what there is; a keyword alone is written `(do :key)`"
            )
        return False

    def _complain(self, message: str, help: str) -> None:
        self._status = self._status or FAILED
        self._say(f"error: {message}\n  help: {help}")

    def _tools(self) -> str:
        from stepward.vm.reading.yaml_writer import to_yaml

        found = {tool: spec.to_data() for tool, spec in self._brief.manifest.items()}
        return to_yaml(found) if found else "there are no tools"

    def _names(self) -> str:
        found = self._session.names
        return "\n".join(f"{name}: {what}" for name, what in found.items()) or "nothing has a name"

    # -- a model -------------------------------------------------------------------------------------------------------

    def _ask(self, task: str) -> None:
        if not task:
            self._complain("`:ask` needs a task", "write what the model has to do: `:ask sum the open orders`")
        elif self._means.model is None:
            self._complain("there is no model", f"start with `--model`: {FORMS}")
        else:
            self.work(task)

    def work(self, task: str) -> int:
        """Let the model take turns for a task; return the status of the command."""
        from stepward.validator.repl.talking import Conversation, instructions, talking_program
        from stepward.vm.machine.execution import ExecutionVM

        options, means = self._options, self._means

        def shown(text: str, answer: TurnAnswer) -> None:
            if not self._is_json:
                self._say("\n".join(f"> {line}" for line in text.splitlines()))
            self._show(answer)

        talk = Conversation(self._session, task, self._brief.manifest, self._about, shown)
        program = talking_program(options["turns"], options["max_tokens"], options["max_cost"])
        machine = ExecutionVM(
            talk.tools(),
            means.model,
            self._journal,
            checker=None,
            key=means.key,
            trusted=means.trusted,
            observer=means.telemetry,
        )
        self._talker = [machine]
        inputs = {"instructions": instructions(), "request": talk.request()}
        run = self._waited(machine.run(program, inputs, run_id=self._name_of_talk()))
        if run.status != "SUCCESS":
            output = run.output if isinstance(run.output, dict) else {}
            self._complain(
                str(output.get("reason") or run.error or run.reason), "say more in the task, or allow more `--turns`"
            )
            return self._status
        return 0

    def _name_of_talk(self) -> str:
        """Return the id of a run in which the model works: an interrupted one of this session has another."""
        number = self._session.next_number
        names = (f"{self._session.name}.talk.{one}" for one in count(number))
        return next(name for name in names if self._journal.head(name) is None)


def _read_line(_: bool) -> str | None:
    return sys.stdin.readline() or None


def _prompted(number: Callable[[], int]) -> Callable[[bool], str | None]:
    """Return what reads a line with a prompt, and with the keys for editing where the system has them."""
    with suppress(ImportError):
        import readline  # noqa: F401 - `input` edits lines where it is imported

    def read(is_more: bool) -> str | None:
        start = f"turn {number()}"
        try:
            return input(f"{' ' * (len(start) - 2)}..> " if is_more else f"{start}> ") + "\n"
        except EOFError:
            click.echo("")
            return None

    return read
