"""Fast: the server of the studio without a browser: who is refused, what acts, and what is never sent."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from review_pages import HOSTILE, NAME
from stepward.validator.studio.guard import Token
from stepward.vm.machine.history import load
from stepward.vm.machine.replay import cached_plans
from studios import HOSTILE_ID, SECRET, TOKEN, Studio, hostile_program, served


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    with served(tmp_path_factory.mktemp("studio")) as opened:
        opened.run("small", 7)
        opened.run("waits", 60)
        yield opened


class Tags(HTMLParser):
    """The tags of a part of a page, and its text."""

    def __init__(self, part: str) -> None:
        super().__init__()
        self.found: set[str] = set()
        self.text = ""
        self.feed(part)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.add(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def records(studio: Studio, run: str) -> list[Any]:
    found = load(studio.journal, run, cached_plans(studio.journal))
    assert found is not None
    return list(found.records)


# -- who is refused ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        ({"Host": "evil.example"}, "the host is not this server"),
        ({"Host": "127.0.0.1"}, "the host is not this server"),
        ({"Host": ""}, "the host is not this server"),
        ({"Origin": "http://evil.example"}, "the request is from another origin"),
        ({"Origin": "null"}, "the request is from another origin"),
        ({"Sec_Fetch_Site": "cross-site"}, "the request is from another site"),
    ],
)
def test_another_host_or_origin_reads_nothing_and_does_nothing(
    studio: Studio, headers: dict[str, str], why: str
) -> None:
    for path in ("/", "/run?run=small", "/events", "/studio.js"):
        answer = studio.ask("GET", path, **headers)
        assert (answer.status, answer.text) in ((403, why), (400, "Invalid HTTP request received."), (400, why)), path
    assert studio.act(body={"what": "cancel", "run": "waits"}, **headers).status in (400, 403)
    assert records(studio, "waits")[-1].kind == "attempt"


def test_a_request_that_acts_has_to_name_its_origin(studio: Studio) -> None:
    answer = studio.act(body={"what": "cancel", "run": "waits"}, Origin="")
    assert (answer.status, answer.text) == (403, "the request does not name its origin")


@pytest.mark.parametrize("given", ["", "Bearer", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN[:-1]}", TOKEN])
def test_nobody_acts_without_the_token(studio: Studio, given: str) -> None:
    for path in ("/act", "/token"):
        answer = studio.act(path, {"what": "cancel", "run": "waits"}, Authorization=given)
        assert answer.status == 401, path
    assert studio.act(f"/act?token={TOKEN}", {"what": "cancel", "run": "waits"}, Authorization="").status == 401
    assert records(studio, "waits")[-1].kind == "attempt"
    assert studio.act("/token", {}).status == 204


def test_a_wrong_token_is_told_from_none(studio: Studio) -> None:
    assert studio.act("/token", {}, Authorization="").text.startswith("this needs the operator's token")
    assert studio.act("/token", {}, Authorization="Bearer x").text.startswith("this is not the operator's token")


def test_a_token_is_compared_as_a_whole_whatever_it_holds() -> None:
    token = Token("tök")
    assert token.is_in("Bearer tök")
    assert not any(map(token.is_in, (None, "", "Bearer t", "Bearer tökk", "Bearer \udcff")))


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"what": "cancel", "run": "of another journal"}, 404, "there is no run `of another journal`"),
        ({"what": "resume", "run": "\n", "step": "ask", "payload": "true"}, 404, "there is no run"),
        ({"what": "cancel"}, 404, "there is no run"),
        ({"what": "cancel", "run": "waits"}, 400, "write your name at the top of the page first"),
        ({"what": "cancel", "run": "waits", "by": " "}, 400, "write your name at the top of the page first"),
        ({"what": "erase", "run": "small"}, 400, "nobody can `erase` a run"),
        ({"run": "small"}, 400, "`what` is missing"),
        ({"what": "cancel", "run": "small", "by": 3}, 400, "`by` is missing, or is no text"),
        (
            {"what": "resume", "run": "small", "step": "ask", "payload": "true", "by": "b"},
            400,
            "does not wait for an answer",
        ),
        (
            {"what": "resume", "run": "waits", "step": "pay", "payload": "true", "by": "b"},
            400,
            "does not wait for an answer",
        ),
        ({"what": "resume", "run": "waits", "step": "ask", "payload": '"yes"', "by": "b"}, 409, "write true or false"),
        ({"what": "resume", "run": "waits", "step": "ask", "payload": "{", "by": "b"}, 409, "can't be read as JSON"),
        (
            {"what": "reconcile", "run": "waits", "step": "pay", "verdict": "done", "payload": "", "by": "b"},
            400,
            "`pay` of run `waits` is not in doubt",
        ),
        ({"what": "reconcile", "run": "waits", "step": "pay", "verdict": "maybe", "by": "b"}, 400, "`verdict` is"),
        ([], 400, "the body is no JSON object"),
        (b"{", 400, "the body is no JSON"),
        (b"[" * 60_000, 400, "the body is no JSON"),
        (b" " * 70_000, 413, "more than 65,536 bytes"),
    ],
)
def test_what_can_not_be_done_is_said(studio: Studio, body: Any, status: int, words: str) -> None:
    before = len(records(studio, "waits"))
    answer = studio.act(body=body)
    assert (answer.status, words in answer.text) == (status, True), answer
    assert len(records(studio, "waits")) == before, "what is mistyped leaves no record"


def test_a_form_of_another_page_is_no_request(studio: Studio) -> None:
    answer = studio.act(body={"what": "cancel", "run": "waits"}, Content_Type="text/plain")
    assert answer.status == 415


# -- what acts ---------------------------------------------------------------------------------------------------------


def test_the_operator_answers_and_the_run_goes_on_under_the_name(studio: Studio) -> None:
    studio.run("answered", 70)
    body = {"what": "resume", "run": "answered", "step": "ask", "payload": "true", "by": "bea"}
    answer = studio.act(body=body)
    assert (answer.status, answer.text) == (200, '{"said":"SUCCESS"}')
    resumed = next(one for one in records(studio, "answered") if one.kind == "resumed")
    assert (resumed.note["by"], resumed.body["output"]) == ("bea", True)
    assert studio.tools.paid[-1] == 70


def test_the_operator_cancels_under_the_name(studio: Studio) -> None:
    studio.run("cancelled", 80)
    assert studio.act(body={"what": "cancel", "run": "cancelled", "by": "bea"}).text == '{"said":"CANCELLED"}'
    assert next(one for one in records(studio, "cancelled") if one.kind == "cancel").note["by"] == "bea"


# -- what is sent ------------------------------------------------------------------------------------------------------


def test_no_sensitive_value_no_resume_token_and_no_operators_token_is_ever_sent(studio: Studio) -> None:
    token = studio.machine.get_sync("waits").suspensions[0].token
    secret = token.rpartition(".")[2]
    paths = ("/", "/run?run=waits", "/run?run=small", "/picture?run=small", "/analysis", "/program?file=pays.json")
    texts = [studio.ask("GET", path).text for path in (*paths, "/studio.js", "/studio.css", "/page.js", "/page.css")]
    texts.append(str(studio.events("waits")))
    for text in texts:
        assert not {word for word in (SECRET, secret, TOKEN) if word in text}
    assert "[sensitive]" in texts[1]


def test_every_answer_allows_only_the_files_of_the_server(studio: Studio) -> None:
    for path in ("/", "/run?run=small", "/run?run=none", "/nothing", "/studio.js"):
        headers = studio.ask("GET", path).headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; ")
        assert "unsafe" not in policy
        assert (headers["x-content-type-options"], headers["cache-control"]) == ("nosniff", "no-store")
    page = studio.ask("GET", "/").text
    assert not re.search(r"<script(?! src=)|<style|\son\w+=|\sstyle=|https?://", page)


def test_hostile_ids_names_and_outputs_are_text(studio: Studio) -> None:
    studio.machine.run_sync(hostile_program(), run_id=HOSTILE_ID)
    name = "%3Cimg%20src=x%20onerror=document.title=%27run%27%3E"
    for path in (f"/run?run={name}", f"/picture?run={name}", "/run?run=small", "/run?run=waits"):
        answer = studio.ask("GET", path)
        assert answer.status == 200
        tags = Tags(answer.text)
        assert not tags.found & {"img", "script", "i"}
        assert any(one in tags.text for one in (HOSTILE, HOSTILE_ID, NAME))
    assert studio.events(HOSTILE_ID)


def test_a_run_says_where_it_is_what_it_waits_for_and_that_it_is_verified(studio: Studio) -> None:
    waits, small = (studio.ask("GET", f"/run?run={run}").text for run in ("waits", "small"))
    assert 'data-status="SUSPENDED"' in waits
    assert 'data-step="ask"' in waits
    assert 'class="act resume"' in waits
    assert "the chain is unbroken, and the machine would have written each as it is" in small
    assert 'data-act="cancel"' in waits
    assert 'data-act="cancel"' not in small
    later = studio.ask("GET", "/run?run=small&first=4").text
    assert 'data-first="4"' in later
    assert later.count("<li") == small.count("<li") - 4
    assert studio.ask("GET", "/run?run=none").status == 404
    assert studio.ask("GET", "/run?run=small&first=-1").status == 200
    assert "no program `none`" in studio.ask("GET", "/program?file=none").text


def test_a_reader_who_comes_back_gets_what_has_changed_since(studio: Studio) -> None:
    studio.run("before", 3)
    last = studio.events("before")[-1]["id"]
    studio.run("later", 3)
    found = studio.events("later", last)
    assert not any(event["all"] for event in found)
    assert [row[0] for event in found for row in event["runs"]] == ["later"]
    assert studio.events("later", "0-1")[0]["all"], "an id of another studio counts for nothing"


def test_only_the_loopback_interface_can_be_reached(studio: Studio) -> None:
    from stepward.validator.studio.server import listening

    with listening(0) as sock:
        assert sock.getsockname()[0] == "127.0.0.1"


def test_two_studios_do_not_share_a_port(studio: Studio, tmp_path: Path) -> None:
    from stepward.validator.result import AdvisedError
    from stepward.validator.studio.server import listening

    with pytest.raises(AdvisedError, match=f"port {studio.port} can't be used"):
        listening(studio.port)
