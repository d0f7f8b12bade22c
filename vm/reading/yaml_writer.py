"""Writes data as YAML that has the same meaning in YAML 1.1 and 1.2."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any, Final

import yaml

from stepward.vm.reading.scalars import resolve

_OLD_BREAKS: Final = re.compile("[\x85\u2028\u2029]")


class _Writer(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the signature is PyYAML's
        return True


def _text(writer: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    # PyYAML quotes texts that are another value in YAML 1.1; `1e3` and `0o17` are numbers only in 1.2. A line break
    # that only 1.1 knows is safe only as an escape.
    style = None if _is_text(value) and not _OLD_BREAKS.search(value) else '"'
    return writer.represent_scalar("tag:yaml.org,2002:str", value, style=style)


def _is_text(value: str) -> bool:
    try:
        return isinstance(resolve(value), str)
    except ValueError:
        return False


def _decimal(writer: yaml.SafeDumper, value: Decimal) -> yaml.ScalarNode:
    return writer.represent_scalar("tag:yaml.org,2002:float", format(value, "f"))


_Writer.add_representer(str, _text)
_Writer.add_representer(Decimal, _decimal)


def to_yaml(data: Any) -> str:
    """Return plain data as YAML text."""
    text: str = yaml.dump(data, Dumper=_Writer, sort_keys=False, allow_unicode=True, width=120)
    return text
