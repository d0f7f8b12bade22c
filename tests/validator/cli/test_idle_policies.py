"""Fast: what in a policy has no effect on a run: waivers that lift nothing, and names of tools that nothing knows."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import Result

from commands import check as check_full
from commands import put

pytestmark = pytest.mark.usefixtures("in_own_folder")

PAYS = """\
name: pays
tools: {pay: {effect: write, idempotent: true}, check: {effect: read}}
steps:
  - {id: c, type: tool, tool: check, on_error: skip}
  - {id: p, type: tool, tool: pay}
"""
POLICY = """\
policy: money
guardrails:
  - {name: checked, protects: {tool: pay}, requires: {tool: check}}
  - {name: paid-once, at_most_once: {tool: pay}}
"""


def waive(rule: str, program: str = "pays", expiry: str = "2999-01-01") -> str:
    return f"waivers: [{{program: {program}, rule: {rule}, reason: old, expiry: {expiry}}}]\n"


def check(*arguments: str) -> Result:
    return check_full("--output-format=json", "--policy=money.yaml", *arguments)


def found(code: str, *arguments: str) -> list[tuple[str, str]]:
    """Return message and help of the findings with a code: the same with an empty cache and a full one."""
    import json

    results = [
        [
            (one["message"], one["help"])
            for one in json.loads(check(*arguments).stdout)["findings"]
            if one["code"] == code
        ]
        for _ in range(2)
    ]
    assert results[0] == results[1]
    return results[0]


@pytest.fixture(autouse=True)
def _with_a_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("STEPWARD_NO_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))


# -- waivers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["checked", "SW401"])
def test_a_waiver_that_lifts_a_finding_is_not_idle(rule: str) -> None:
    put("p.yaml", PAYS)
    put("money.yaml", POLICY + waive(rule))
    assert found("SW702") == found("SW702", "p.yaml") == []


def test_a_rule_that_the_policy_does_not_have_is_told_whatever_is_checked() -> None:
    put("p.yaml", PAYS)
    put("other.yaml", PAYS.replace("name: pays", "name: other"))
    put("money.yaml", POLICY + waive("chekced"))
    told = [("the waiver suppresses nothing: the policy has no rule `chekced`", "did you mean `checked`?")]
    assert found("SW702") == found("SW702", "other.yaml") == told
    for rule in ("allow", "four_eyes"):  # a policy without these lists has no such rule
        put("money.yaml", POLICY + waive(rule))
        assert f"has no rule `{rule}`" in found("SW702")[0][0]


def test_a_waiver_that_lifts_nothing_in_its_program_is_told_where_that_was_checked() -> None:
    put("p.yaml", PAYS)
    put("other.yaml", PAYS.replace("name: pays", "name: other"))
    put("money.yaml", POLICY + waive("paid-once"))
    words = "the waiver suppresses nothing: `pays` in `p.yaml` has no finding of `paid-once` of this policy"
    assert found("SW702") == found("SW702", "p.yaml") == [(words, "remove the waiver")]
    assert found("SW702", "other.yaml") == []
    assert check("--fail-on=warning", "p.yaml", "--ignore=SW401").exit_code == 1


def test_of_a_program_that_can_not_be_judged_nothing_is_said() -> None:
    put("p.yaml", PAYS.replace("tool: pay}", "tool: pay, next_step: gone}"))
    put("money.yaml", POLICY + waive("paid-once"))
    assert found("SW702") == []


def test_a_waiver_of_a_list_that_only_the_machine_enforces_is_not_idle() -> None:
    put("p.yaml", PAYS)
    put("money.yaml", POLICY + "four_eyes: [pay]\n" + waive("four_eyes"))
    assert found("SW702") == []


def test_an_expired_waiver_is_idle_only_if_its_finding_is_gone() -> None:
    put("p.yaml", PAYS)
    put("money.yaml", POLICY + waive("checked", expiry="2020-01-01"))
    assert found("SW702") == []
    put("p.yaml", PAYS.replace(", on_error: skip", ""))
    assert len(found("SW702")) == 1


def test_a_misspelt_program_is_told_only_where_the_run_covers_a_folder() -> None:
    put("flows/p.yaml", PAYS.replace("name: pays", "name: pay_claim"))
    put("money.yaml", POLICY + waive("checked", program="pay_clam"))
    words = "the waiver suppresses nothing: no program of this run has the name `pay_clam`"
    assert found("SW702", "flows") == [(words, "did you mean `pay_claim`?")]
    assert found("SW702", "flows/p.yaml") == []
    put("money.yaml", POLICY + waive("checked", program="nightly_report"))  # a program of another folder
    assert found("SW702", "flows") == []


# -- tools -------------------------------------------------------------------------------------------------------------


def test_a_tool_that_nothing_knows_is_told_where_the_run_covers_a_folder() -> None:
    put("flows/p.yaml", PAYS)
    put("money.yaml", "policy: money\nallow: [check, pay, chekc, wipe]\nfour_eyes: [wipe_all]\n")
    knows = "which no program, manifest or policy of this run knows"
    assert found("SW703", "flows") == [
        (
            f"`allow` names the tool `chekc`, {knows}",
            "remove it from `allow`, or declare the tool under `tools` of the policy",
        ),
        (
            f"`allow` names the tool `wipe`, {knows}",
            "remove it from `allow`, or declare the tool under `tools` of the policy",
        ),
        (
            f"`four_eyes` names the tool `wipe_all`, {knows}",
            "remove it from `four_eyes`, or declare the tool under `tools` of the policy",
        ),
    ]
    assert found("SW703", "flows/p.yaml") == []
    put("flows/broken.yaml", "steps: 3\n")  # what it would call is not known
    assert found("SW703", "flows") == []


def test_the_tool_that_is_meant_is_offered_unless_the_list_has_it() -> None:
    put("p.yaml", PAYS)
    put("money.yaml", "policy: money\nallow: [pay, chekc]\n")
    assert [help for _, help in found("SW703")] == ["did you mean `check`?"]


def test_a_tool_of_a_manifest_or_of_any_policy_is_known() -> None:
    put("p.yaml", PAYS.replace("check: {effect: read}", "check: {effect: read}, look: {effect: read}"))
    put("money.yaml", "policy: money\nallow: [check, pay, look, wipe]\nfour_eyes: [look]\n")
    put("facts.yaml", "policy: facts\ntools: {wipe: {effect: write}}\n")
    assert len(found("SW703")) == 1
    assert found("SW703", ".", "--policy=facts.yaml") == []
