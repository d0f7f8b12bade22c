"""Cached reports on files, keyed by everything that a report depends on.

A cached report has all findings of the rules, before any of them is deselected, silenced or hidden. Its key covers all
that the rules can read: bytes, name and path of the file, the settings, the bytes of every policy, the day where a
waiver can expire, and (in the cache) the code.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Sequence
from pathlib import Path as FilePath
from typing import NamedTuple

from stepward.validator.findings import Report, Verdict
from stepward.validator.gate.cache import Cache
from stepward.validator.gate.discovery import is_ruled_out
from stepward.validator.gate.policies import Policies, PolicyOutline
from stepward.validator.gate.report_data import report_from_data, report_to_data
from stepward.validator.gate.settings import ConfigurationError, Configurations, Settings


class SourceFile(NamedTuple):
    """A file, its name in reports and its content; `must_be_program` says that the user named it."""

    path: FilePath
    label: str
    content: bytes
    must_be_program: bool


class CachedFile(NamedTuple):
    """The cached result for a file: the reports on its programs, None where it is no file of programs.

    `not_literal` are the lines of the programs in it that can't be read without running it.
    """

    reports: tuple[Report, ...] | None
    not_literal: tuple[int, ...]


class FileCache:
    """The cached results for files, under the policies and on the day of a run.

    `with_bounds` and `with_fixes` say whether reports have bounds and fixes; the key covers both.
    """

    def __init__(
        self, cache: Cache, policies: Policies, today: datetime.date, *, with_bounds: bool, with_fixes: bool
    ) -> None:
        self._cache = cache
        self._policies = policies
        self._today = today.isoformat()
        self._with_bounds = with_bounds
        self._with_fixes = with_fixes

    def find(self, file: SourceFile, configurations: Configurations) -> CachedFile | None:
        """Return the cached result for a file, or None. The policies of its programs then count as used."""
        if is_ruled_out(file.content, file.path.suffix, must_be_program=file.must_be_program):
            return CachedFile(None, ())
        data = self._cache.get(self._key_of_none(file))
        if data is not None:
            return CachedFile(None, tuple(data["not_literal"]))
        try:
            settings = configurations.above(file.path.parent)
            key = self._key(file, settings)
        except ConfigurationError:
            return None  # the error is reported only if the file holds programs
        data = self._cache.get(key)
        if data is None:
            return None
        policies = self._policies.use(settings)
        for policy, outline in zip(policies, data["policies"], strict=True):
            policy.know(PolicyOutline.from_data(outline))
        reports = (report_from_data(one, file.label, lambda at: policies[at].document) for one in data["reports"])
        return CachedFile(tuple(reports), tuple(data["not_literal"]))

    def store_non_program(self, file: SourceFile, not_literal: Sequence[int]) -> None:
        """Store that a file is no file of programs."""
        self._cache.put(self._key_of_none(file), {"not_literal": not_literal})

    def store(
        self,
        file: SourceFile,
        settings: Settings,
        reports: Sequence[Report],
        not_literal: Sequence[int],
        seconds: float,
    ) -> None:
        """Store the reports on a file that took `seconds` to check, unless another run might find more in it.

        A check that took less than the time limit of one program was not stopped by it, so its reports are the same on
        any machine.
        """
        unknown = any(
            report.failures or any(one.verdict is Verdict.UNKNOWN for one in report.properties) for report in reports
        )
        policies = self._policies.use(settings)
        if unknown or seconds >= settings.time_limit:
            return
        assert self._depends_on_day(settings) or not any(policy.policy.waivers for policy in policies)
        documents = [policy.document for policy in policies]
        data = {
            "policies": [policy.outline for policy in policies],
            "reports": [report_to_data(one, documents, with_bounds=self._with_bounds) for one in reports],
            "not_literal": not_literal,
        }
        self._cache.put(self._key(file, settings), data)

    def _key_of_none(self, file: SourceFile) -> str:
        return self._cache.key([b"no program", *_parts(file)])

    def _key(self, file: SourceFile, settings: Settings) -> str:
        parts = [b"reports", *_parts(file), b"%d%d" % (self._with_bounds, self._with_fixes)]
        # All settings are in the key, also those without influence, so that no new setting is ever forgotten.
        parts.append(repr(settings).encode("utf-8", "surrogateescape"))
        parts.append(self._today.encode() if self._depends_on_day(settings) else b"any day")
        for name, content in self._policies.contents(settings):
            parts += [name.encode("utf-8", "surrogateescape"), content]
        return self._cache.key(parts)

    def _depends_on_day(self, settings: Settings) -> bool:
        """Return whether the result depends on the day: some policy has waivers (a word that escapes may hide)."""
        return any(b"waivers" in content or b"\\" in content for _, content in self._policies.contents(settings))


def _parts(file: SourceFile) -> list[bytes]:
    names = [os.fsencode(file.path), file.label.encode("utf-8", "surrogateescape")]
    return [*names, b"%d" % file.must_be_program, file.content]
