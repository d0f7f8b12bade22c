"""What a caller may read by its address: the language, the rules, the schemas, its policies and its runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from stepward.validator.gateway.catalogue import Asker
from stepward.validator.gateway.pages import LANGUAGE, LISP, list_of_rules, page, rule_page
from stepward.validator.gateway.refusals import RequestRefused
from stepward.vm.values import to_json

SCHEME: Final = "stepward://"
MARKDOWN, PLAIN, JSON = "text/markdown", "text/plain", "application/json"

LONGEST: Final = 300
"""Characters of the longest address."""


@dataclass(frozen=True)
class Resource:
    """Something to read at `path`; with `{…}` at its end, one of many, whose name `read` gets."""

    path: str
    title: str
    kind: str
    read: Callable[[Asker, str], Awaitable[str]]

    @property
    def uri(self) -> str:
        """The address."""
        return f"{SCHEME}{self.path}"

    @property
    def is_template(self) -> bool:
        """Whether it is one of many."""
        return self.path.endswith("}")


async def read(asker: Asker, uri: str) -> tuple[str, str]:
    """Return the text at an address, and its kind; raises RequestRefused if there is none."""
    path = uri.removeprefix(SCHEME) if len(uri) <= LONGEST else ""
    for one in RESOURCES:
        stem = one.path.partition("{")[0]
        if path == one.path and not one.is_template:
            return await one.read(asker, ""), one.kind
        if one.is_template and path.startswith(stem) and path != stem:
            return await one.read(asker, path.removeprefix(stem)), one.kind
    raise RequestRefused("there is no such resource", "list the resources and their templates")


async def _language(_: Asker, __: str) -> str:
    return page(LANGUAGE)


async def _lisp(_: Asker, __: str) -> str:
    return page(LISP)


async def _rules(_: Asker, __: str) -> str:
    return list_of_rules()


async def _rule(_: Asker, code: str) -> str:
    return rule_page(code)


async def _schema(_: Asker, kind: str) -> str:
    from stepward.validator.schema import json_schema

    if kind not in ("program", "policy"):
        raise RequestRefused("there is no such schema", "read that of `program` or `policy`")
    return to_json(json_schema(kind), indent=2)


async def _policies(asker: Asker, _: str) -> str:
    return to_json({"policies": await asker.gateway.policies(asker.caller)}, indent=2)


async def _runs(asker: Asker, _: str) -> str:
    return to_json(await asker.gateway.list_runs(asker.caller), indent=2)


async def _run(asker: Asker, run: str) -> str:
    return to_json(await asker.gateway.get_run(asker.caller, run), indent=2)


RESOURCES: Final = (
    Resource("language", "The whole reference of the language", MARKDOWN, _language),
    Resource("lisp", "PTC-Lisp, the language of `run_lisp`, on one card", MARKDOWN, _lisp),
    Resource("rules", "The codes and names of all rules", PLAIN, _rules),
    Resource("policies", "The policies that your programs are checked under", JSON, _policies),
    Resource("runs", "Your runs, the newest first", JSON, _runs),
    Resource("rules/{code}", "What a rule reports, why, and what to write instead", MARKDOWN, _rule),
    Resource("schema/{kind}", "The JSON Schema of a `program` or a `policy`", JSON, _schema),
    Resource("runs/{run}", "How one of your runs stands", JSON, _run),
)
