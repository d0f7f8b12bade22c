"""Canaries of the family "replay"; a helper, no tests stand here."""

from __future__ import annotations

import dataclasses
import sys
from hashlib import sha256
from itertools import count
from typing import Any

import pytest

from canaries import Canary
from rewriting import rewrite, rewritten
from stepward.vm.journal import chain, sealing, sqlite_vault
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.journal.sqlite_file import DatabaseFile
from stepward.vm.journal.verdict import Fault
from stepward.vm.machine import apply, deliveries, driver, history, leaving, replay, runs, tools
from stepward.vm.machine.deliveries import Deliveries
from stepward.vm.machine.execution import ExecutionVM
from stepward.vm.machine.keys import Token, idempotency_key
from stepward.vm.machine.state import visits_of

verifying: Any = sys.modules["stepward.vm.journal.verify"]

TOOLS = {
    "ask": {"effect": "none", "suspends": True, "returns": {"type": "boolean"}},
    "pay": {"effect": "write", "idempotent": False, "returns": {"type": "boolean"}},
    "mail": {"effect": "write", "idempotent": True, "returns": {"type": "boolean"}},
}


def _program(*steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": "repeated", "inputs": {}, "tools": TOOLS, "steps": list(steps), **more}


def _step(name: str, tool: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "type": "tool", "tool": tool, **more}


ASKS = _program(_step("ask", "ask"))
ASKS_TWICE = _program(_step("first", "ask"), _step("second", "ask"))
ASKS_AGAIN = _program(_step("ask", "ask", next_step="ask", max_visits=2))
PAYS = _program(_step("pay", "pay"))
PAYS_AND_ASKS = _program(_step("pay", "pay"), _step("ask", "ask"))
PAYS_AND_MAILS = _program(
    {"id": "both", "type": "parallel", "parallel_steps": [_step("one", "pay"), _step("two", "mail")]}
)
MAILS_AGAIN = _program(_step("mail", "mail", next_step="mail", max_visits=2))
MAILS = _program(_step("mail", "mail"))
PAYS_UNTIL_IT_IS_DONE = _program(_step("pay", "pay", on_error="retry", max_retries=3))
COUNTS = _program(_step("mail", "mail"), inputs={"number": {"type": "integer"}})
KNOWS = _program(_step("mail", "mail"), inputs={"secret": {"type": "string", "sensitive": True}})

FALSE = {"does": "returns", "value": False}
ASKED = {"inputs": {}, "ask, visit 1, attempt 1": {"does": "suspends", "value": {"asks": "ask"}}}
MAILED = {"inputs": {}, "mail, visit 1, attempt 1": FALSE}
REUSED = MAILED | {"the run has": "stopped"}


# -- tokens ------------------------------------------------------------------------------------------------------------


def _taken_if(patch: pytest.MonkeyPatch, is_good: Any) -> None:
    """Have a machine take every token that `is_good` takes for the step that waits."""

    def awaited(found: Any, token: Token) -> Any:
        step = found.plan.steps[found.state.at]
        visit = visits_of(found.state, step)
        for call, held in zip(step.calls, found.state.calls or (), strict=False):
            if held.phase == "suspended" and is_good(found, call, held, visit, token):
                return found.state, call
        return None

    patch.setattr(deliveries, "_awaited", awaited)


def _given(found: Any, token: Token) -> list[list[str]]:
    """Return for what a token was given out: its reference in the vault, in parts."""
    return [name.split(":") for name, secret in found.secrets.items() if secret == token.secret.encode()]


def used_token(patch: pytest.MonkeyPatch) -> None:
    _taken_if(patch, lambda found, call, held, visit, token: bool(_given(found, token)))


def token_of_any_step(patch: pytest.MonkeyPatch) -> None:
    _taken_if(patch, lambda found, call, held, visit, token: any(p[2] == str(visit) for p in _given(found, token)))


def token_of_any_visit(patch: pytest.MonkeyPatch) -> None:
    _taken_if(patch, lambda found, call, held, visit, token: any(p[1] == call.id for p in _given(found, token)))


def token_not_looked_at_again(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, Deliveries, "resume", ("(still := _awaited(lease_and_run[1], read))", "(still := waiting)"))


def one_secret_for_all_runs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Token, "new", classmethod(lambda cls, run, random: cls(run, "secret")))


def secret_made_of_the_run(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Token, "new", classmethod(lambda cls, run, random: cls(run, sha256(run.encode()).hexdigest())))


def token_in_any_letters(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, Token, "digest", ('"secret": self.secret,', '"secret": self.secret.lower(),'))


def digest_for_a_secret(patch: pytest.MonkeyPatch) -> None:
    _taken_if(
        patch,
        lambda found, call, held, visit, token: (
            held.token in (token.secret, token.digest(found.plan.digest, call.id, visit))
        ),
    )


# -- deliveries and ids ------------------------------------------------------------------------------------------------


def cancelling_does_not_end(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(apply._HANDLERS, "cancel", lambda plan, state, event: state)


def endings_still_wait(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, leaving, "end", ("calls=None,", ""))
    patch.setattr(apply, "end", leaving.end)


def reconciles_anything(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, deliveries, "_doubted", (' and call_state.phase == "doubt"', ""))


def doubt_not_looked_at_again(patch: pytest.MonkeyPatch) -> None:
    first = ("    _doubted(found, step)\n    if verdict", "    local, call = _doubted(found, step)\n    if verdict")
    second = ("        local, call = _doubted(found, step)\n        if verdict", "        if verdict")
    rewrite(patch, Deliveries, "reconcile", second, first)


def takes_any_program(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, ExecutionVM, "_existing", ('body["program"] != plan.digest', "False"))


def takes_any_policies(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, ExecutionVM, "_existing", ('body["policies"] != list(plan.policy_documents)', "False"))


def takes_any_inputs(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, ExecutionVM, "_existing", ("if not same(", "if False and not same("))


def anybody_makes_the_run(patch: pytest.MonkeyPatch) -> None:
    old = "return lease if is_new else None"
    rewrite(patch, MemoryJournal, "create", (old, "self._runs[append.run] = stored\n        return lease"))


def _keys(patch: pytest.MonkeyPatch, **same: Any) -> None:
    """Have keys that do not tell what is the same in all of them."""

    def key(program: str, run: str, step: str, visit: int, performance: int) -> str:
        parts = {"program": program, "run": run, "step": step, "visit": visit, "performance": performance}
        return idempotency_key(**{**parts, **same})

    for module in (tools, driver, runs):
        patch.setattr(module, "idempotency_key", key)


def keys_without_run(patch: pytest.MonkeyPatch) -> None:
    _keys(patch, run="")


def keys_without_visit(patch: pytest.MonkeyPatch) -> None:
    _keys(patch, visit=1)


def keys_without_performance(patch: pytest.MonkeyPatch) -> None:
    _keys(patch, performance=1)


def keys_of_attempts(patch: pytest.MonkeyPatch) -> None:
    numbers = count()
    for module in (tools, driver, runs):
        patch.setattr(module, "idempotency_key", lambda *parts: f"{idempotency_key(*parts)}{next(numbers)}")


# -- copies and erasures -----------------------------------------------------------------------------------------------


def receipts_are_not_read(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(verifying, "_judged", lambda run, receipts, keys: ([], []))


def receipts_of_any_digest(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(verifying, "_off_the_chain", lambda chain, receipts, known: iter(()))


def receipts_of_what_is_there(patch: pytest.MonkeyPatch) -> None:
    """A receipt only tells whether its record is there."""
    real = verifying._off_the_chain

    def off_the_chain(found: Any, receipts: Any, known: Any) -> Any:
        return real(found, [one for one in receipts if one.seq not in found.digests], known)

    patch.setattr(verifying, "_off_the_chain", off_the_chain)


def chains_of_any_run(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, chain, "_check_first", ('record.note.get("run") != chain.run', "False"))


def receipts_fit_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(replay, "misreports", lambda found, receipts: [Fault(found.run, 0, "it is another run", "")])


def journals_of_any_run(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, history, "checked_records", (' or records[0].note.get("run") != run', ""))


def erased_values_are_read(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        history,
        "unsealer",
        rewritten(sealing.unsealer, ("reference in erased", "reference in erased and reference not in secrets")),
    )


def values_of_any_commitment(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(history, "unsealer", rewritten(sealing.unsealer, ("commitment(secret) != committed", "False")))


def vault_is_not_erased(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, Deliveries, "_erase_one", ("await self._io(self.journal.vault.erase, run_id)", "pass"))


def vault_has_a_log(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sqlite_vault, "_LAYOUT", dataclasses.replace(sqlite_vault._LAYOUT, journal_mode="wal"))


def rewrites_when_rows_go(patch: pytest.MonkeyPatch) -> None:
    rewrite(
        patch, sqlite_vault.SQLiteVault, "erase_all", ("    file.rewrite()", "    if count:\n        file.rewrite()")
    )


def vault_keeps_pages(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sqlite_vault, "_LAYOUT", dataclasses.replace(sqlite_vault._LAYOUT, settings=("secure_delete = OFF",)))
    patch.setattr(DatabaseFile, "rewrite", lambda self: None)


def vault_is_not_written_anew(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DatabaseFile, "rewrite", lambda self: None)


def anybody_settles(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(deliveries, "two_people", lambda *_: None)


CANARIES: tuple[Canary, ...] = (
    Canary(
        "vault-is-not-written-anew",
        "what was erased is not in pages that were split",
        "erased-among-others",
        KNOWS,
        vault_is_not_written_anew,
    ),
    Canary(
        "anybody-settles",
        "who started a run does not settle what another has to",
        "settled-by-one",
        ASKS,
        anybody_settles,
    ),
    Canary("used-token", "a token is used up", "token-twice", ASKS_TWICE, used_token),
    Canary(
        "token-not-looked-at-again",
        "a token is looked up again under the lease",
        "token-raced",
        ASKS_TWICE,
        token_not_looked_at_again,
    ),
    Canary("token-of-any-step", "a token is bound to its step", "token-of-another-step", ASKS_TWICE, token_of_any_step),
    Canary(
        "token-of-any-visit", "a token is bound to its visit", "token-of-another-step", ASKS_AGAIN, token_of_any_visit
    ),
    Canary(
        "one-secret-for-all-runs",
        "a token is bound to its run",
        "token-of-another-run",
        ASKS,
        one_secret_for_all_runs,
        smallest=ASKED | {"forged payload for ask": False},
    ),
    Canary(
        "secret-made-of-the-run",
        "a token is bound to its program",
        "token-of-another-program",
        ASKS,
        secret_made_of_the_run,
        smallest=ASKED | {"forged payload for ask": False},
    ),
    Canary("token-in-any-letters", "a token's secret is held exactly", "guessed-token", ASKS, token_in_any_letters),
    Canary(
        "digest-for-a-secret",
        "the journal tells no secret",
        "guessed-token",
        ASKS,
        digest_for_a_secret,
        smallest=ASKED | {"the forgery": "a digest from the journal", "forged payload for ask": False},
    ),
    Canary(
        "cancelling-does-not-end",
        "a cancelled run ends",
        "late-delivery",
        ASKS,
        cancelling_does_not_end,
        smallest=ASKED | {"the run is": "cancelled"},
    ),
    Canary("endings-still-wait", "endings absorb", "late-delivery", ASKS, endings_still_wait),
    Canary(
        "reconciles-anything",
        "only a step in doubt is reconciled",
        "reconciled-again",
        PAYS_AND_MAILS,
        reconciles_anything,
    ),
    Canary(
        "doubt-not-looked-at-again",
        "a doubt is looked up again under the lease",
        "reconciled-at-once",
        PAYS_AND_ASKS,
        doubt_not_looked_at_again,
    ),
    Canary(
        "token-of-an-earlier-visit",
        "a token is looked at again under the lease, also where the same step waits",
        "token-twice",
        ASKS_TWICE,
        token_not_looked_at_again,
    ),
    Canary(
        "takes-any-program",
        "an id is bound to a program",
        "run-id-reused",
        MAILS,
        takes_any_program,
        smallest=REUSED | {"other than before": "program"},
    ),
    Canary(
        "takes-any-policies",
        "an id is bound to policies",
        "run-id-reused",
        MAILS,
        takes_any_policies,
        smallest=REUSED | {"other than before": "policies", "policies": "more"},
    ),
    Canary("takes-any-inputs", "an id is bound to inputs", "run-id-reused", COUNTS, takes_any_inputs),
    Canary("anybody-makes-the-run", "one caller makes a run", "run-id-raced", MAILS, anybody_makes_the_run),
    Canary("keys-without-run", "a key tells the run", "keys-that-collide", MAILS, keys_without_run),
    Canary("keys-without-visit", "a key tells the visit", "keys-that-collide", MAILS_AGAIN, keys_without_visit),
    Canary(
        "keys-without-performance",
        "a key tells the performance",
        "keys-that-collide",
        PAYS_UNTIL_IT_IS_DONE,
        keys_without_performance,
    ),
    Canary("keys-of-attempts", "one performance has one key", "keys-that-collide", MAILS, keys_of_attempts),
    Canary(
        "records-redone",
        "a receipt tells a record from one in its place",
        "journal-rolled-back",
        MAILS,
        receipts_of_what_is_there,
    ),
    Canary("receipts-of-no-run", "a receipt fits an honest run", "journal-rolled-back", MAILS, receipts_fit_nothing),
    Canary("chains-of-any-run", "a chain names its run", "journal-under-another-id", MAILS, chains_of_any_run),
    Canary("receipts-are-not-read", "receipts are read", "journal-rolled-back", MAILS, receipts_are_not_read),
    Canary(
        "receipts-of-any-digest",
        "a receipt names the digest of a record",
        "journal-in-another-store",
        MAILS,
        receipts_of_any_digest,
    ),
    Canary("journals-of-any-run", "a journal names its run", "journal-under-another-id", MAILS, journals_of_any_run),
    Canary("erased-values-are-read", "what was erased is gone", "vault-restored", KNOWS, erased_values_are_read),
    Canary(
        "values-of-any-commitment",
        "the journal is committed to its values",
        "vault-of-another-run",
        KNOWS,
        values_of_any_commitment,
    ),
    Canary("vault-is-not-erased", "erasing empties the vault", "erased-run-asked-for", KNOWS, vault_is_not_erased),
    Canary("vault-has-a-log", "the vault has no log", "erasure-leaves-bytes", KNOWS, vault_has_a_log),
    Canary(
        "rewrites-when-rows-go",
        "an erasure that is repeated writes the vault anew",
        "erasure-leaves-bytes",
        KNOWS,
        rewrites_when_rows_go,
    ),
    Canary("vault-keeps-pages", "the vault is overwritten", "erasure-leaves-bytes", KNOWS, vault_keeps_pages),
)
