"""The configuration: `[tool.stepward]` in pyproject.toml, or stepward.toml.

The nearest one above a file counts, with the policies of all that are further up.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from pathlib import Path as FilePath
from typing import Any, Final

from stepward.validator.engine.clock import LIMIT_SECONDS
from stepward.validator.files import absolute, shown_name, why_not
from stepward.validator.findings import Finding, Severity
from stepward.validator.gate.paths import Patterns, is_pattern
from stepward.validator.gate.servers import NamedServer, read_servers
from stepward.validator.result import AdvisedError

OWN_FILE: Final = "stepward.toml"
SHARED_FILE: Final = "pyproject.toml"


class ConfigurationError(AdvisedError):
    """The configuration, or an option of the command line, can't be used."""


@dataclass(frozen=True)
class FileIgnore:
    """One entry of `per-file-ignores`; `number` counts them from 0, `line` is where it starts in the file."""

    files: Patterns
    codes: tuple[str, ...]
    reason: str
    number: int = 0
    line: int = 1


@dataclass(frozen=True)
class Overrides:
    """The options of the command line, None where not given; its policies are added to those configured."""

    select: tuple[str, ...] | None = None
    ignore: tuple[str, ...] | None = None
    fail_on: tuple[str, ...] | None = None
    baseline: FilePath | None = None
    policies: tuple[FilePath, ...] = ()
    time_limit: float | None = None
    recheck: bool | None = None


@dataclass(frozen=True)
class Settings:
    """The configuration of the files below `folder`; `source` is the file that it was read from, if any.

    `fail_on` has severities, codes and beginnings of codes: a finding that one of them names fails the gate.
    `exclude` is None where it is not configured: hidden folders are then left out.
    """

    folder: FilePath
    source: FilePath | None = None
    select: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    fail_on: tuple[str, ...] = (Severity.ERROR,)
    policies: tuple[FilePath, ...] = ()
    exclude: tuple[str, ...] | None = None
    extend_exclude: tuple[str, ...] = ()
    baseline: FilePath | None = None
    per_file_ignores: tuple[FileIgnore, ...] = ()
    time_limit: float = LIMIT_SECONDS
    recheck: bool = True
    mcp_servers: tuple[NamedServer, ...] = ()

    def overridden(self, overrides: Overrides) -> Settings:
        """Return the settings, overridden by the options of the command line."""
        options = {name: value for name, value in vars(overrides).items() if value is not None}
        return replace(self, **{**options, "policies": tuple(dict.fromkeys((*self.policies, *overrides.policies)))})

    def fails(self, finding: Finding) -> bool:
        """Return whether a finding fails the gate; an error of a policy always does."""
        is_error = finding.severity is Severity.ERROR
        if Severity.WARNING in self.fail_on or (is_error and finding.policy is not None):
            return True
        return (is_error and Severity.ERROR in self.fail_on) or finding.code.startswith(
            tuple(word for word in self.fail_on if word not in tuple(Severity))
        )

    @property
    def for_proofs(self) -> dict[str, Any]:
        """The arguments of a validator that say how proofs are made and checked."""
        return {"recheck": self.recheck, "time_limit": self.time_limit}

    def selects(self, code: str) -> bool:
        """Return whether findings of a code are reported; the longer match of `select` and `ignore` wins."""
        selected = 0 if self.select is None else _longest_match(code, self.select)
        ignored = _longest_match(code, self.ignore)
        return selected >= 0 and selected > ignored

    @cached_property
    def excluded(self) -> Patterns:
        """The files and folders to leave out when a folder is searched."""
        return Patterns(self.folder, (*(self.exclude or ()), *self.extend_exclude))


def _longest_match(code: str, prefixes: Iterable[str]) -> int:
    return max((len(prefix) for prefix in prefixes if code.startswith(prefix)), default=-1)


class Configurations:
    """Finds the settings of each folder; every configuration file is read once.

    `config` is one file for all folders instead; with `is_isolated` no file is read. Raises
    ConfigurationError for a file that can't be used.
    """

    def __init__(
        self, overrides: Overrides | None = None, *, config: FilePath | None = None, is_isolated: bool = False
    ) -> None:
        self._overrides = overrides or Overrides()
        self._by_folder: dict[FilePath, Settings] = {}
        self._fixed: Settings | None = None
        if config is not None:
            self._fixed = self._read(absolute(config), is_asked_for=True)
        elif is_isolated:
            self._fixed = self._without_file()

    def above(self, folder: FilePath) -> Settings:
        """Return the settings of the files in a folder: those of the nearest configuration at or above it.

        The policies of all configurations further up are added, so that a nearer file can't drop one.
        """
        if self._fixed is not None:
            return self._fixed
        folder = absolute(folder)
        pending = []
        while folder not in self._by_folder:
            pending.append(folder)
            if folder.parent == folder:
                break
            folder = folder.parent
        settings = self._by_folder.get(folder)
        for below in reversed(pending):
            settings = self._by_folder[below] = self._in(below, settings)
        assert settings is not None, "every folder has settings"
        return settings

    def named_files(self) -> tuple[frozenset[FilePath], frozenset[FilePath]]:
        """Return the policies and the baselines that all settings name that were asked for by now."""
        settings = [*self._by_folder.values(), *([self._fixed] if self._fixed is not None else [])]
        policies = frozenset(policy for one in settings for policy in one.policies)
        return policies, frozenset(one.baseline for one in settings if one.baseline is not None)

    def _without_file(self) -> Settings:
        return Settings(FilePath.cwd()).overridden(self._overrides)

    def _in(self, folder: FilePath, outer: Settings | None) -> Settings:
        """Return the settings of a folder whose parent has the settings `outer`, if it has a parent."""
        files = [folder / name for name in (OWN_FILE, SHARED_FILE)]
        own_settings = [
            settings for file in files if os.path.isfile(file) and (settings := self._read(file)) is not None
        ]
        if not own_settings:
            return outer or self._without_file()
        policies = [
            policy for settings in (outer, *own_settings) if settings is not None for policy in settings.policies
        ]
        policies_given = self._overrides.policies
        configured = [policy for policy in dict.fromkeys(policies) if policy not in policies_given]
        return replace(own_settings[0], policies=(*configured, *dict.fromkeys(policies_given)))

    def _read(self, path: FilePath, *, is_asked_for: bool = False) -> Settings | None:
        settings = read_settings(path)
        if settings is None and is_asked_for:
            raise ConfigurationError(
                f"`{shown_name(path)}` has no `[tool.stepward]`", "add the table, or name another file"
            )
        return settings and settings.overridden(self._overrides)


def read_settings(path: FilePath) -> Settings | None:
    """Return the settings in a configuration file, or None for a pyproject.toml without `[tool.stepward]`.

    Raises ConfigurationError, which names the file and the key, and says what to write instead.
    """
    try:
        text = path.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = why_not(error) if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigurationError(
            f"`{shown_name(path)}` can't be read: {reason}", "correct it, or use `--isolated`"
        ) from None
    is_shared = path.name == SHARED_FILE
    if is_shared and "stepward" not in text:
        return None
    table = _parse(path, text)
    if is_shared:
        table = table.get("tool", {}).get("stepward")
        if table is None:
            return None
    return _Reader(path, text).settings(table)


def _parse(path: FilePath, text: str) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        reason = str(error) or "it is nested too deeply"
        message = f"`{shown_name(path)}` is not readable as TOML: {reason[:1].lower()}{reason[1:]}"
        raise ConfigurationError(message, "fix the file, or leave it out with `--isolated`") from None


@dataclass(frozen=True)
class _Reader:
    """Converts the table of a configuration file to settings."""

    path: FilePath
    text: str

    def settings(self, table: Any) -> Settings:
        if not isinstance(table, dict):
            raise self._error("`tool.stepward` must be a table", "write `[tool.stepward]`")
        fields: dict[str, Callable[[str, Any], Any]] = {
            "select": self._codes,
            "ignore": self._codes,
            "fail-on": self._fail_on,
            "policies": self._paths,
            "exclude": self._patterns,
            "extend-exclude": self._patterns,
            "baseline": lambda key, value: self.path.parent / self._text(key, value),
            "per-file-ignores": self._file_ignores,
            "time-limit": self._seconds,
            "recheck": self._flag,
            "mcp-servers": lambda _, value: read_servers(value, self.path.parent, self._error),
        }
        for key in table:
            if key not in fields:
                raise self._error(f"unknown key `{key}`", did_you_mean(key, fields))
        values = {key.replace("-", "_"): fields[key](key, value) for key, value in table.items()}
        return Settings(self.path.parent, self.path, **values)

    def _error(self, message: str, help: str) -> ConfigurationError:
        return ConfigurationError(f"`{shown_name(self.path)}`: {message}", help)

    def _text(self, key: str, value: Any) -> str:
        if not isinstance(value, str) or not value.strip():
            raise self._error(f"`{key}` must be text", f'write `{key} = "…"`')
        return value

    def _texts(self, key: str, value: Any) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
            raise self._error(f"`{key}` must be a list of texts", f'write `{key} = ["…", "…"]`')
        return tuple(value)

    def _codes(self, key: str, value: Any) -> tuple[str, ...]:
        try:
            return checked_codes(self._texts(key, value))
        except UnknownCodeError as error:
            raise self._error(f"`{key}`: {error.message}", error.help) from None

    def _fail_on(self, key: str, value: Any) -> tuple[str, ...]:
        if not isinstance(value, str | list):
            raise self._error(f"`{key}` must be text or a list of texts", f'write `{key} = "warning"`')
        try:
            return checked_fail_on(self._texts(key, [value] if isinstance(value, str) else value))
        except UnknownCodeError as error:
            raise self._error(f"`{key}`: {error.message}", error.help) from None

    def _seconds(self, key: str, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < inf:
            raise self._error(f"`{key}` must be a number of seconds above 0", f"write `{key} = {LIMIT_SECONDS:g}`")
        return float(value)

    def _flag(self, key: str, value: Any) -> bool:
        if not isinstance(value, bool):
            raise self._error(f"`{key}` must be true or false", f"write `{key} = false`")
        return value

    def _paths(self, key: str, value: Any) -> tuple[FilePath, ...]:
        return tuple(self.path.parent / text for text in self._texts(key, value))

    def _patterns(self, key: str, value: Any) -> tuple[str, ...]:
        lines = self._texts(key, value)
        for line in lines:
            if not is_pattern(line):
                raise self._error(f"`{key}`: `{line}` is not a pattern", "write patterns as in .gitignore")
        return lines

    def _file_ignores(self, key: str, value: Any) -> tuple[FileIgnore, ...]:
        if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
            example = f'write `[[{key}]]` with `files = "…"`, `codes = ["…"]` and `reason = "…"`'
            raise self._error(f"`{key}` must be an array of tables", example)
        lines = self._entry_lines(key)
        return tuple(
            self._file_ignore(f"{key}[{number}]", entry, number, lines[min(number, len(lines) - 1)])
            for number, entry in enumerate(value)
        )

    def _file_ignore(self, key: str, entry: dict[str, Any], number: int, line: int) -> FileIgnore:
        known = ("files", "codes", "reason")
        for name in entry:
            if name not in known:
                raise self._error(f"unknown key `{key}.{name}`", did_you_mean(name, known))
        for name in known:
            if name not in entry:
                reason_help = "; a later reader has to know why" if name == "reason" else ""
                raise self._error(f"`{key}` has no `{name}`", f"add `{name}`{reason_help}")
        files = entry["files"]
        patterns = self._patterns(f"{key}.files", [files] if isinstance(files, str) else files)
        codes = self._codes(f"{key}.codes", entry["codes"])
        reason = self._text(f"{key}.reason", entry["reason"])
        return FileIgnore(Patterns(self.path.parent, patterns), codes, reason, number, line)

    def _entry_lines(self, key: str) -> list[int]:
        """Return the lines on which the entries of an array of tables start, as far as headings are found."""
        headings, assignments = [], []
        for number, line in enumerate(self.text.split("\n"), start=1):
            bare = line.strip().replace(" ", "").replace('"', "")
            if bare.startswith("[[") and bare.partition("]]")[0].endswith(key):
                headings.append(number)
            elif bare.startswith(f"{key}="):
                assignments.append(number)
        return headings or assignments or [1]


class UnknownCodeError(ConfigurationError):
    """A text is neither a code nor the beginning of one."""


def checked_codes(codes: Iterable[str]) -> tuple[str, ...]:
    """Return codes and beginnings of codes (`SW4`) as given; raises UnknownCodeError for the first unknown one."""
    from stepward.validator.rules.registry import RULE_BY_CODE

    checked = tuple(codes)
    for code in checked:
        if not any(known.startswith(code) for known in RULE_BY_CODE):
            raise UnknownCodeError(f"`{code}` is not a code, nor the beginning of one", near_code(code))
    return checked


def checked_fail_on(words: Iterable[str]) -> tuple[str, ...]:
    """Return severities, codes and beginnings of codes as given; raises UnknownCodeError for the first other word.

    A severity stands for itself and what is worse, so `warning` stands for every finding.
    """
    from stepward.validator.rules.registry import RULE_BY_CODE

    checked = tuple(words)
    if not checked:
        raise UnknownCodeError("names nothing", "write `error`, `warning` or a code")
    for word in checked:
        if word in tuple(Severity) or any(known.startswith(word) for known in RULE_BY_CODE):
            continue
        severity = did_you_mean(word, Severity, near_code(word))
        raise UnknownCodeError(f"`{word}` is not `error`, `warning`, a code, nor the beginning of one", severity)
    return checked


def near_code(code: str) -> str:
    """Return the help for an unknown code: the code to write instead."""
    from difflib import get_close_matches

    from stepward.validator.rules.registry import RULE_BY_CODE

    by_name = {rule.name: known for known, rule in RULE_BY_CODE.items()}
    similar = get_close_matches(code.lower(), by_name, n=1, cutoff=0.8)
    if similar:
        return f"did you mean `{by_name[similar[0]]}`?"
    return did_you_mean(code.upper(), RULE_BY_CODE, "`stepward explain` lists all codes")


def did_you_mean(word: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return the help for an unknown word: a similar known one, else `otherwise`, or all known ones."""
    from difflib import get_close_matches

    names = list(known)
    similar = get_close_matches(word, names, n=1, cutoff=0.6)
    if similar:
        return f"did you mean `{similar[0]}`?"
    return otherwise or "the keys here are " + ", ".join(f"`{name}`" for name in names)
