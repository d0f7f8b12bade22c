"""The MCP server: the catalogue, the resources and the lesson, for a client of the protocol.

It stands on the low-level `Server` of the SDK. `MCPServer` would check the arguments itself, and its errors repeat
them; it would also answer with the text of any exception. Here nothing that is raised reaches the SDK, except refusals
in our own words.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from typing import Any, Final, TypeVar

from mcp.server import Server, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    Prompt,
    PromptMessage,
    ReadResourceRequestParams,
    ReadResourceResult,
    ResourceTemplate,
    TextContent,
    TextResourceContents,
    Tool,
    ToolAnnotations,
)
from mcp_types import Resource as Listed

from stepward.validator.gateway.arguments import schema_of
from stepward.validator.gateway.callers import Caller
from stepward.validator.gateway.catalogue import CATALOGUE, Asker, Entry
from stepward.validator.gateway.gateway import Gateway
from stepward.validator.gateway.pages import LESSON, page
from stepward.validator.gateway.refusals import RequestRefused
from stepward.validator.gateway.resources import RESOURCES, read
from stepward.vm.values import to_json

log = logging.getLogger("stepward.gateway")

PROMPT: Final = "write_program"

INSTRUCTIONS: Final = """\
Workflow programs that a gate checks and a machine runs. Get the prompt `write_program`, or call `explain` without a
code: it teaches the language. Then `list_tools`, `check_program` until it is accepted, `run_program`, `get_run`."""

T = TypeVar("T")
Context = ServerRequestContext[Any, Any]
CallerOf = Callable[[Context], Caller]
"""Returns the caller of a request, which the transport has recognised."""


def server_of(gateway: Gateway, caller_of: CallerOf) -> Server[Any]:
    """Return a server that answers callers at a gateway."""
    account = _Front(gateway, caller_of)
    return Server(
        "stepward",
        version=version("stepward"),
        instructions=INSTRUCTIONS,
        on_list_tools=_list_tools,
        on_call_tool=account.call_tool,
        on_list_resources=_list_resources,
        on_list_resource_templates=_list_templates,
        on_read_resource=account.read_resource,
        on_list_prompts=_list_prompts,
        on_get_prompt=_get_prompt,
    )


class _Front:
    """Takes requests of callers to a gateway."""

    def __init__(self, gateway: Gateway, caller_of: CallerOf) -> None:
        self._gateway = gateway
        self._caller_of = caller_of

    async def call_tool(self, context: Context, params: CallToolRequestParams) -> CallToolResult:
        """Answer a call: a refusal and an internal error are answers, too, so that a model reads them."""
        entry = CATALOGUE.get(params.name)
        if entry is None:
            names = ", ".join(f"`{name}`" for name in CATALOGUE)
            return _refusal(RequestRefused("there is no such tool", f"call one of {names}"))
        try:
            answer = await _guarded(f"`{entry.name}`", entry.answer(self._asker(context), params.arguments))
        except RequestRefused as refused:
            return _refusal(refused)
        return _result(answer if isinstance(answer, str) else to_json(answer))

    async def read_resource(self, context: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        """Return the text of a resource; raises MCPError for a refusal."""
        uri = str(params.uri)
        try:
            text, kind = await _guarded("a resource", read(self._asker(context), uri))
        except _Internal as refused:
            raise MCPError(code=INTERNAL_ERROR, message=refused.message) from None
        except RequestRefused as refused:
            raise MCPError(code=INVALID_PARAMS, message=_words(refused)) from None
        return ReadResourceResult(contents=[TextResourceContents(uri=uri, mime_type=kind, text=text)])

    def _asker(self, context: Context) -> Asker:
        async def progress(records: int, status: str) -> None:
            await context.session.report_progress(records, message=f"{records} records, {status.lower()}")

        return Asker(self._gateway, self._caller_of(context), progress)


class _Internal(RequestRefused):
    """Something has failed that a caller can't correct."""


async def _guarded(what: str, answer: Awaitable[T]) -> T:
    """Return an answer. Raises RequestRefused, also for an error of another kind, which the log of the operator has."""
    try:
        return await answer
    except RequestRefused:
        raise
    except Exception as error:
        log.error("internal error in %s", what, exc_info=error)
        raise _Internal(f"internal error in {what}", "try something else; the operator can see what it was") from None


def _refusal(refused: RequestRefused) -> CallToolResult:
    return _result(_words(refused), is_error=True)


def _words(refused: RequestRefused) -> str:
    return f"{refused.message}\n{refused.help}" if refused.help else refused.message


def _result(text: str, *, is_error: bool = False) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=text)], is_error=is_error)


# -- what is the same for every caller ---------------------------------------------------------------------------------


async def _list_tools(_: Context, __: PaginatedRequestParams | None) -> ListToolsResult:
    return ListToolsResult(tools=[_tool(entry) for entry in CATALOGUE.values()])


def _tool(entry: Entry) -> Tool:
    hints = ToolAnnotations(read_only_hint=entry.is_read_only, open_world_hint=entry.name == "run_program")
    return Tool(
        name=entry.name,
        description=entry.description,
        input_schema=schema_of(entry.arguments),
        annotations=hints,
    )


async def _list_resources(_: Context, __: PaginatedRequestParams | None) -> ListResourcesResult:
    return ListResourcesResult(
        resources=[
            Listed(uri=one.uri, name=one.path, description=one.title, mime_type=one.kind)
            for one in RESOURCES
            if not one.is_template
        ]
    )


async def _list_templates(_: Context, __: PaginatedRequestParams | None) -> ListResourceTemplatesResult:
    return ListResourceTemplatesResult(
        resource_templates=[
            ResourceTemplate(uri_template=one.uri, name=one.path, description=one.title, mime_type=one.kind)
            for one in RESOURCES
            if one.is_template
        ]
    )


async def _list_prompts(_: Context, __: PaginatedRequestParams | None) -> ListPromptsResult:
    return ListPromptsResult(prompts=[Prompt(name=PROMPT, description="Teaches the language of programs")])


async def _get_prompt(_: Context, params: GetPromptRequestParams) -> GetPromptResult:
    if params.name != PROMPT:
        raise MCPError(code=INVALID_PARAMS, message=f"there is no such prompt; the only one is `{PROMPT}`")
    return GetPromptResult(messages=[PromptMessage(role="user", content=TextContent(text=page(LESSON)))])
