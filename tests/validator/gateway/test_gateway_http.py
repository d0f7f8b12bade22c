"""The server over HTTP, asked byte by byte: who may reach it, by which names, with which token, and with what."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from doors import NEW, OLD
from gateways import PAYS, House
from stepward.validator.gateway.serving import MAX_BODY, PATH, http_app

PORT = 8_765
HOST = f"127.0.0.1:{PORT}"
TOKEN, OTHER = "t" * 20, "u" * 20
HEADERS = {
    "Host": HOST,
    "Authorization": f"Bearer {TOKEN}",
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
}


@asynccontextmanager
async def served(house: House) -> AsyncIterator[httpx2.AsyncClient]:
    app = http_app(house.gateway(), house.callers, PORT)
    async with app.router.lifespan_context(app):
        transport = httpx2.ASGITransport(app)
        async with httpx2.AsyncClient(transport=transport, base_url=f"http://{HOST}") as client:
            yield client


def with_server(house: House, talk: Callable[[httpx2.AsyncClient], Awaitable[Any]]) -> Any:
    async def talks() -> Any:
        async with served(house) as client:
            return await talk(client)

    return asyncio.run(talks())


def body(tool: str = "list_runs", protocol: str = NEW, **arguments: Any) -> dict[str, Any]:
    names = {"protocolVersion": protocol, "clientInfo": {"name": "t", "version": "1"}, "clientCapabilities": {}}
    meta = {f"io.modelcontextprotocol/{name}": value for name, value in names.items()}
    params = {"name": tool, "arguments": arguments, **({"_meta": meta} if protocol == NEW else {})}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


def headers(protocol: str = NEW, tool: str = "list_runs", **changed: str | None) -> dict[str, str]:
    named = {"MCP-Protocol-Version": protocol, "Mcp-Method": "tools/call", "Mcp-Name": tool}
    given = {**HEADERS, **named, **{name.replace("_", "-"): value for name, value in changed.items()}}
    return {name: value for name, value in given.items() if value is not None}


def answer_in(response: httpx2.Response) -> Any:
    text = response.text
    if response.headers["content-type"].startswith("text/event-stream"):
        text = [line for line in text.splitlines() if line.startswith("data: ")][-1].removeprefix("data: ")
    return json.loads(text)


@pytest.mark.parametrize("protocol", [OLD, NEW])
def test_a_request_with_the_token_of_a_caller_is_answered(house: House, protocol: str) -> None:
    async def asks(client: httpx2.AsyncClient) -> httpx2.Response:
        return await client.post(PATH, json=body(protocol=protocol), headers=headers(protocol))

    response = with_server(house, asks)
    assert response.status_code == 200
    assert answer_in(response)["result"]["content"][0]["text"] == '{"runs": []}'


STRANGERS: dict[str, tuple[dict[str, str | None], int]] = {
    "no token": ({"Authorization": None}, 401),
    "an empty token": ({"Authorization": "Bearer "}, 401),
    "a wrong token": ({"Authorization": f"Bearer {'x' * 20}"}, 401),
    "a token and more": ({"Authorization": f"Bearer {TOKEN}x"}, 401),
    "a part of a token": ({"Authorization": f"Bearer {TOKEN[:-1]}"}, 401),
    "two tokens": ({"Authorization": f"Bearer {TOKEN}, Bearer {OTHER}"}, 401),
    "another scheme": ({"Authorization": f"Basic {TOKEN}"}, 401),
    "the name of a caller": ({"Authorization": "Bearer model"}, 401),
    "another host": ({"Host": f"evil.example:{PORT}"}, 421),
    "another port": ({"Host": "127.0.0.1:80"}, 421),
    "no port": ({"Host": "127.0.0.1"}, 421),
    "a host that begins rightly": ({"Host": f"127.0.0.1.evil.example:{PORT}"}, 421),
    "another origin": ({"Origin": "https://evil.example"}, 403),
    "an origin without a name": ({"Origin": "null"}, 403),
    "an origin that begins rightly": ({"Origin": f"http://{HOST}.evil.example"}, 403),
    "another server of this machine": ({"Origin": "http://127.0.0.1:1"}, 403),
    "a form": ({"Content-Type": "application/x-www-form-urlencoded"}, 400),
    "plain text, which pages may send": ({"Content-Type": "text/plain"}, 400),
}


@pytest.mark.parametrize("protocol", [OLD, NEW])
@pytest.mark.parametrize("who", STRANGERS)
def test_a_stranger_is_refused_and_told_nothing(house: House, who: str, protocol: str) -> None:
    changed, status = STRANGERS[who]

    async def asks(client: httpx2.AsyncClient) -> httpx2.Response:
        given = headers(protocol, "run_program", **changed)
        sent = body("run_program", protocol, program=PAYS, inputs={"sum": 5})
        return await client.post(PATH, json=sent, headers=given)

    response = with_server(house, asks)
    assert response.status_code == status
    assert TOKEN not in response.text
    assert house.journal.rows() == []


def test_the_origin_of_the_server_itself_is_let_in(house: House) -> None:
    async def asks(client: httpx2.AsyncClient) -> list[int]:
        names = (HOST, f"localhost:{PORT}")
        given = [headers(Host=name, Origin=f"http://{name}") for name in names]
        return [(await client.post(PATH, json=body(), headers=one)).status_code for one in given]

    assert with_server(house, asks) == [200, 200]


def test_no_answer_lets_a_page_of_another_origin_read_it(house: House) -> None:
    async def asks(client: httpx2.AsyncClient) -> list[httpx2.Response]:
        asked = {**headers(Origin="https://evil.example"), "Access-Control-Request-Method": "POST"}
        return [await client.options(PATH, headers=asked), await client.post(PATH, json=body(), headers=headers())]

    for response in with_server(house, asks):
        assert not [name for name in response.headers if name.lower().startswith("access-control-")]


@pytest.mark.parametrize("protocol", [OLD, NEW])
def test_what_a_request_may_do_depends_on_its_own_token_alone(house: House, protocol: str) -> None:
    """No session, and no name that a client states of itself, lends it to another caller."""

    async def asks(client: httpx2.AsyncClient) -> list[str]:
        sent = body("run_program", protocol, program=PAYS, inputs={"sum": 5})
        mine = headers(protocol, "run_program", Mcp_Session_Id="one", X_Forwarded_User="other")
        run = json.loads(_text(await client.post(PATH, json=sent, headers=mine)))["run"]
        theirs = headers(protocol, "get_run", Mcp_Session_Id="one", Authorization=f"Bearer {OTHER}")
        return [run, _text(await client.post(PATH, json=body("get_run", protocol, run=run), headers=theirs))]

    run, said = with_server(house, asks)
    assert run.startswith("mcp.model.")
    assert said.startswith("you have no such run")


def _text(response: httpx2.Response) -> str:
    return str(answer_in(response)["result"]["content"][0]["text"])


METHOD = "hunter2/hunter2"
BODIES = {
    "no JSON": b"{",
    "deep": b"[" * 100_000,
    "a long number": b'{"jsonrpc": "2.0", "id": 1, "method": ' + b"9" * 10_000 + b"}",
    "a list": b"[]",
    "a text": b'"x"',
    "empty": b"",
    "no UTF-8": b"\xff\xfe",
    "another method": json.dumps({**body(), "method": METHOD}).encode(),
    "parameters of another type": json.dumps({**body(), "params": "hunter2"}).encode(),
    "arguments of another type": json.dumps({**body(), "params": {"arguments": ["hunter2"]}}).encode(),
    "an id of another type": json.dumps({**body(), "id": {"hunter2": 1}}).encode(),
}  # fmt: skip


@pytest.mark.parametrize("protocol", [OLD, NEW])
@pytest.mark.parametrize("kind", BODIES)
def test_a_request_that_is_none_is_refused(house: House, kind: str, protocol: str) -> None:
    async def asks(client: httpx2.AsyncClient) -> list[httpx2.Response]:
        first = await client.post(PATH, content=BODIES[kind], headers=headers(protocol))
        return [first, await client.post(PATH, json=body(), headers=headers())]

    refused, after = with_server(house, asks)
    assert refused.status_code >= 400 or "error" in answer_in(refused)
    assert not [word for word in ("Traceback", "pydantic", "hunter2") if word in refused.text.replace(METHOD, "")]
    assert after.status_code == 200


def test_a_request_that_is_too_long_is_refused(house: House) -> None:
    async def asks(client: httpx2.AsyncClient) -> int:
        sent = body("check_program", program="x" * MAX_BODY)
        return (await client.post(PATH, json=sent, headers=headers(tool="check_program"))).status_code

    assert with_server(house, asks) == 413


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "PATCH", "HEAD"])
@pytest.mark.parametrize("path", [PATH, "/", "/mcp/", "/runs.db", "/.well-known/oauth-protected-resource"])
def test_there_is_one_address_and_one_method(house: House, method: str, path: str) -> None:
    async def asks(client: httpx2.AsyncClient) -> int:
        given = headers(Mcp_Session_Id="one")
        async with asyncio.timeout(20):
            return (await client.request(method, path, headers=given)).status_code

    assert with_server(house, asks) in (307, 400, 404, 405, 406)


def test_the_server_listens_on_the_loopback_interface_alone(tmp_path: Path) -> None:
    from stepward.validator.gateway.serving import _listening

    with _listening(0) as listening:
        assert listening.getsockname()[0] == "127.0.0.1"
