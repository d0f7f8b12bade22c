"""`stepward studio`: the live page of a journal."""

from __future__ import annotations

import gc
import secrets
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from stepward.validator.cli.held import break_option
from stepward.validator.cli.machine import (
    MachineError,
    driving_options,
    explained,
    journal_option,
    load_means,
    load_policies,
    open_journal,
    policy_options,
)
from stepward.validator.cli.printed import without_password
from stepward.validator.cli.ranges import FileName, Whole

if TYPE_CHECKING:
    from stepward.validator.review.programs import ProgramView
    from stepward.validator.studio.parts import Programs, StudioParts
    from stepward.vm.journal.store import Journal

DEFAULT_PORT = 8716


@click.command()
@click.argument("paths", metavar="[PROGRAMS]...", nargs=-1, type=FileName())
@journal_option
@click.option(
    "--port",
    type=Whole(0, 65535),
    default=DEFAULT_PORT,
    show_default=True,
    help="The port of the loopback interface (0: any free one).",
)
@click.option("--tour", is_flag=True, help="Begin with a guided tour of five stations.")
@driving_options
@break_option
@policy_options
def studio(paths: tuple[str, ...], port: int, **options: Any) -> None:
    """Serve a live page of a journal's runs, and of PROGRAMS.

    It shows runs as they go on, and what waits for somebody. Who opens the address with the token, which the command
    prints, can resume, reconcile and cancel runs; with `--tools` and `--model`, as for `stepward run`, they go on here.
    Only this computer can reach the page. Stop it with Ctrl-C.
    """
    _require_library()
    from stepward.validator.studio.server import listening, server_of

    gc.enable()  # unlike a check, a server lasts
    token = secrets.token_urlsafe(24)
    with explained(), closing(open_journal(options["journal"])) as journal, listening(port) as sock:
        house = _house(journal, paths, options)
        address = f"http://127.0.0.1:{sock.getsockname()[1]}/"
        click.echo(f"to watch, open {address}", err=True)
        click.echo(f"to act as well, open {address}#token={token}", err=True)
        server_of(house, token, sock).run(sockets=[sock])


def _require_library() -> None:
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        help = "install Stepward with its extra: `python -m pip install 'stepward[studio]'`"
        raise MachineError(f"`stepward studio` needs a library that is missing ({error})", help) from None


def _house(journal: Journal, paths: tuple[str, ...], options: dict[str, Any]) -> StudioParts:
    from stepward.validator.studio.acting import Operator
    from stepward.validator.studio.analysis import Analysis
    from stepward.validator.studio.disturbances import DISTURBANCES
    from stepward.validator.studio.feed import Feed
    from stepward.validator.studio.live import Live
    from stepward.validator.studio.page import studio_page
    from stepward.validator.studio.parts import StudioParts
    from stepward.validator.studio.sandboxes import Sandboxes
    from stepward.validator.studio.views import Views

    means = load_means(options)
    views = Views(journal, DISTURBANCES)
    sandboxes = Sandboxes(journal, views.picture_of)
    programs = _programs(paths, options)
    return StudioParts(
        studio_page(without_password(options["journal"]), programs.files, tour=options["tour"]),
        Live(Feed(journal), (sandboxes,)),
        views,
        Analysis(journal),
        programs,
        Operator(means.machine(journal, load_policies(options)), means.require),
        sandboxes,
    )


def _programs(paths: tuple[str, ...], options: dict[str, Any]) -> Programs:
    """Return the programs in files and folders; each is checked when somebody looks at it."""
    from stepward.validator.cli.loading import configurations_of, gate_of, programs_in
    from stepward.validator.cli.report import views_of
    from stepward.validator.failures import Failures
    from stepward.validator.files import shown_name
    from stepward.validator.studio.parts import Programs
    from stepward.vm.errors import StepwardError

    def check(file: str) -> list[ProgramView]:
        gate = gate_of(options)
        gate.check_paths([file])
        return list(views_of(file, gate.result(), options, Failures(StepwardError, click.ClickException)))

    return Programs([shown_name(one) for one in programs_in(paths, configurations_of(options))], check)
