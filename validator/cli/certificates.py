"""`stepward check --certificates DIR`: a file for each property that is proved, for `stepward recheck`."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from stepward.validator.gate.settings import ConfigurationError

if TYPE_CHECKING:
    from stepward.validator.failures import Failures
    from stepward.validator.findings import Property
    from stepward.validator.result import RunResult

SUFFIX: Final = ".certificate.json"


def certificates_folder(folder: Path) -> Path:
    """Return the folder if certificates may be written there: it is new, or has only certificates."""
    if folder.exists() and not folder.is_dir():
        raise ConfigurationError(f"`{folder}` is a file", "name a folder for `--certificates`")
    others = sorted(one.name for one in folder.iterdir() if not one.name.endswith(SUFFIX)) if folder.exists() else []
    if others:
        message = f"`{folder}` holds `{others[0]}`, which is no certificate"
        raise ConfigurationError(message, "name a new or empty folder for `--certificates`, or one of an earlier run")
    return folder


def write_certificates(result: RunResult, folder: Path, failures: Failures) -> None:
    """Write the certificates of all properties that are proved; those of an earlier run are removed.

    A proof without a certificate is reported, because nobody can check it again. `failures` records the internal errors
    that prevent a certificate.
    """
    from stepward.validator.files import why_not
    from stepward.validator.report.text import counted, safe

    try:
        folder.mkdir(parents=True, exist_ok=True)
        for old in certificates_folder(folder).iterdir():
            old.unlink()
        written, lacking = _write_all(result, folder, failures)
    except OSError as error:
        message = f"`{folder}` can't be written to: {why_not(error)}"
        raise ConfigurationError(message, "correct the folder of `--certificates`") from None
    click.echo(
        f"{counted(written, 'certificate')} written: stepward recheck {safe(shlex.quote(str(folder)))}", err=True
    )
    for one, why in lacking:
        what = f"`{one.name}` of `{one.rule}` in {one.file}"
        click.echo(f"warning: {safe(what)} is proved and has no certificate: {safe(why)}", err=True)


def _write_all(result: RunResult, folder: Path, failures: Failures) -> tuple[int, list[tuple[Property, str]]]:
    from stepward.validator.engine.certificates.certificate import NoCertificate

    seen: Counter[str] = Counter()
    lacking: list[tuple[Property, str]] = []
    for one in result.properties:
        if one.certify is None:
            continue
        name = _name(one)
        seen[name.lower()] += 1
        again = f"-{seen[name.lower()]}" if seen[name.lower()] > 1 else ""
        try:
            one.certify().save(folder / (name + again + SUFFIX))
        except NoCertificate as error:
            seen[name.lower()] -= 1
            lacking.append((one, str(error)))
        except OSError:
            raise
        except Exception as error:
            seen[name.lower()] -= 1
            lacking.append((one, failures.note(f"the certificate of `{one.name}` of `{one.rule}`", error)))
    return sum(seen.values()), lacking


def _name(one: Property) -> str:
    """Return the file name for a certificate, such as `programs-refund.requires.approval-before-refund`."""
    file = one.file.rsplit(".", 1)[0] if one.file.endswith((".yaml", ".yml", ".json", ".py")) else one.file
    subject = one.step if one.name == "allow" and one.step else one.rule
    parts = (file[-80:], one.policy or "", one.name, subject)
    return ".".join(re.sub(r"[^A-Za-z0-9_]+", "-", part).strip("-")[:80] for part in parts if part)
