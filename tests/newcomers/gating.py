"""Whether the gate of a repository stops new mistakes, and only those."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from trial import CACHES, Trial

OLD = {"charge.yaml": "SW503", "remind.yaml": "SW105", "route.yaml": "SW302", "export.json": "SW201"}
"""The mistakes of today, by file of `workflows/`."""
UNSAFE = ("|", "--exit-zero", "--no-verify", ";")
OTHERS = ("vendor", "deploy")
SUFFIXES = {"yaml": (".yaml", ".yml"), "json": (".json",), "python": (".py",)}


@dataclass(frozen=True)
class Gate:
    """A command that checks, and where it stands. A hook may get the files of the commit, or some of them."""

    where: str
    command: str
    takes_files: bool = False
    files: str = ""
    excluded: str = "^$"
    suffixes: tuple[str, ...] = ()

    def command_for(self, changed: list[str]) -> str:
        """Return the command for these changed files; it is empty if the gate is not asked."""
        if not self.takes_files:
            return self.command
        taken = [file for file in changed if re.search(self.files, file) and not re.search(self.excluded, file)]
        taken = [file for file in taken if not self.suffixes or file.endswith(self.suffixes)]
        return f"{self.command} {shlex.join(taken)}" if taken else ""


@dataclass(frozen=True)
class Probe:
    """A change of the repository: a file, its new text, and whether the gate has to let it pass."""

    name: str
    file: str
    text: str
    passes: bool


def gated(trial: Trial) -> Iterator[str]:
    """Yield what is missing of the gate."""
    yield from changed(trial)
    gates = {"stepward check": Gate("the plain command", "stepward check")}
    for where, found in (("pre-commit", hooks(trial.folder)), ("GitHub Actions", jobs(trial.folder))):
        if not found:
            yield f"{where} runs no `stepward check`"
        for gate in found:
            if any(word in gate.command for word in UNSAFE):
                yield f"{where} does not stop anything: `{gate.command}`"
            else:
                gates.setdefault(gate.command, gate)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "project"
        shutil.copytree(trial.folder, folder, ignore=shutil.ignore_patterns(".stepward_cache", ".git"))
        yield from probed(trial, folder, list(gates.values()))
        yield from unlisted(trial, folder)


def changed(trial: Trial) -> Iterator[str]:
    """Yield each file of the start that is another one; what tools leave there is no part of it."""
    for path in sorted(trial.start.rglob("*")):
        if any(part in CACHES for part in path.relative_to(trial.start).parts):
            continue
        there = trial.folder / path.relative_to(trial.start)
        may_grow = path.name in ("pyproject.toml", ".gitignore", "README.md", "task.md")
        if path.is_file() and not may_grow and (not there.is_file() or there.read_bytes() != path.read_bytes()):
            yield f"`{path.relative_to(trial.start)}` was changed"


def hooks(folder: Path) -> list[Gate]:
    """Return the hooks that check; a hook of Stepward's own repository stands for its command."""
    config = document(folder / ".pre-commit-config.yaml")
    found = []
    for repo in config.get("repos") or ():
        for hook in repo.get("hooks") or ():
            own = {"stepward": "stepward check --skip-non-programs", "stepward-project": "stepward check"}
            entry = hook.get("entry") or (own.get(hook.get("id")) if repo.get("repo") != "local" else None) or ""
            if "stepward check" in entry:
                found.append(
                    Gate(
                        "pre-commit",
                        " ".join([entry, *(shlex.quote(str(word)) for word in hook.get("args") or ())]),
                        hook.get("pass_filenames", hook.get("id") != "stepward-project"),
                        hook.get("files") or "",
                        hook.get("exclude") or config.get("exclude") or "^$",
                        tuple(
                            s
                            for kind in hook.get("types_or") or hook.get("types") or ()
                            for s in SUFFIXES.get(kind, ())
                        ),
                    )
                )
    return found


def jobs(folder: Path) -> list[Gate]:
    """Return the commands that check in workflows of GitHub which run for pull requests."""
    found = []
    for path in sorted((folder / ".github/workflows").glob("*.y*ml")):
        workflow = document(path)
        on = workflow.get("on", workflow.get(True))  # YAML 1.1 reads `on` as true
        if on != "pull_request" and "pull_request" not in (on or ()):
            continue
        for job in (workflow.get("jobs") or {}).values():
            for step in job.get("steps") or ():
                lines = str(step.get("run") or "").splitlines()
                fails = " || true" if step.get("continue-on-error") or job.get("continue-on-error") else ""
                found += [Gate("GitHub Actions", line.strip() + fails) for line in lines if "stepward check" in line]
    return found


def document(path: Path) -> dict[Any, Any]:
    """Return a YAML mapping, an empty one if there is none."""
    try:
        read = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError):
        return {}
    return read if isinstance(read, dict) else {}


def probes(start: Path) -> Iterator[Probe]:
    """Yield what is tried, one after the other."""
    for name, code in OLD.items():
        text = (start / "workflows" / name).read_text(encoding="utf-8")
        for old in ("charge", "remind", "route", "export"):
            text = text.replace(f"name: {old}\n", f"name: new_{old}\n").replace(
                f'"name": "{old}"', f'"name": "new_{old}"'
            )
        yield Probe(f"a new program with {code}", f"workflows/new_{name}", text, passes=False)
    charge = (start / "workflows/charge.yaml").read_text(encoding="utf-8")
    again = charge + "  - {id: again, type: tool, tool: charge_card, args: {order: $order}, on_error: retry}\n"
    yield Probe("a second mistake in an old file", "workflows/charge.yaml", again, passes=False)
    clean = (start / "workflows/ship_order.yaml").read_text(encoding="utf-8")
    yield Probe("a new program without a mistake", "workflows/new_ship.yaml", clean, passes=True)
    python = (start / "src/shop/escalate.py").read_text(encoding="utf-8").replace('"$order"', '"$ordr"')
    yield Probe("a mistake in a program in Python", "src/shop/new_escalate.py", python, passes=False)
    campaign = (start / "vendor/mailer/campaign.yaml").read_text(encoding="utf-8")
    yield Probe("a new file of another team", "vendor/mailer/second.yaml", campaign, passes=True)


def probed(trial: Trial, folder: Path, gates: list[Gate]) -> Iterator[str]:
    """Yield what a gate lets pass or stops, wrongly."""
    every = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    for gate in gates:
        if (status := run(trial, folder, gate, every)) != 0:
            yield f"{gate.where} ends with status {status} for the repository of today"
            return
    for probe in probes(trial.start):
        path = folder / probe.file
        before = path.read_text(encoding="utf-8") if path.exists() else None
        path.write_text(probe.text, encoding="utf-8")
        for gate in gates:
            status = run(trial, folder, gate, [probe.file])
            if status != (0 if probe.passes else 1):
                yield f"{gate.where} ends with status {status} for {probe.name}"
        if before is None:
            path.unlink()
        else:
            path.write_text(before, encoding="utf-8")


def run(trial: Trial, folder: Path, gate: Gate, changed: list[str]) -> int:
    """Run the command of a gate, as far as it is one of Stepward's, and return its status."""
    parts = [part for part in gate.command_for(changed).split(">")[0].split("&&") if "stepward check" in part]
    if not parts:
        return 0
    words = shlex.split(parts[0])
    return trial.stepward(words[words.index("check") :], folder).status


def unlisted(trial: Trial, folder: Path) -> Iterator[str]:
    """Yield each mistake of today that is on no list, and each finding outside of the programs."""
    done = trial.stepward(["check", "--output-format", "sarif"], folder)
    results = json.loads(done.output)["runs"][0]["results"] if done.status in (0, 1) else []
    listed = {(place(one), one["ruleId"]) for one in results if one.get("suppressions")}
    for name, code in OLD.items():
        if (f"workflows/{name}", code) not in listed:
            yield f"{code} of `workflows/{name}` is on no list"
    for one in results:
        if place(one).split("/")[0] in OTHERS:
            yield f"`{place(one)}` takes part"


def place(result: dict[str, Any]) -> str:
    """Return the file of a result."""
    uri: str = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    return uri
