"""Injection of sensitive values through outputs: tools and models repeat their inputs, and the run continues."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import quote_plus

from stepward.sabotage.attack import Attack, Family, Need
from stepward.sabotage.attacks.secrecy import SECRET, Hidden, honest, with_secrets
from stepward.sabotage.invariants import Breach, Invariant, Outcome
from stepward.sabotage.playing.answers import Answer
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.trial import Trial
from stepward.sabotage.playing.world import Asking
from stepward.vm.language.types import refusal
from stepward.vm.machine.plan import CallPlan
from stepward.vm.machine.run import Run
from stepward.vm.values import freeze, to_json

SPELLINGS: Final[Mapping[str, Callable[[str], str]]] = {
    "as it is": lambda text: text,
    "in a sentence": lambda text: f"paid to {text}, as you said",
    "in capitals": str.upper,
    "in a URL": lambda text: f"https://bank/{quote_plus(text)}",
    "in groups": lambda text: " ".join(text[at : at + 4] for at in range(0, len(text), 4)),
    "masked": lambda text: f"****{text[len(text) // 2 :]}",
    "in base64": lambda text: base64.b64encode(f"a{text}".encode()).decode(),
    "in hexadecimal": lambda text: text.encode().hex(),
}

SHAPES: Final[Mapping[str, Callable[[str], Any]]] = {
    "a text": lambda said: said,
    "deep in an object": lambda said: {"is": {"it": said, "n": 1}},
    "in a list": lambda said: ["x", [said]],
    "a key": lambda said: {said: 1},
}

LONG_ENOUGH: Final = 12
"""The least length of a value of which half is also searched for."""


def _can_repeat(call: CallPlan) -> bool:
    """Return whether an output can hold any text."""
    texts = (shape("said in full") for shape in SHAPES.values())
    return call.allowed is None and (call.returns is None or any(_fits(call, text) for text in texts))


def _fits(call: CallPlan, output: Any) -> bool:
    return call.returns is None or refusal(freeze(output), call.returns) is None


class SecretEchoed(Attack):
    """A tool or a model repeats sensitive values in its output: in texts, fields, items and keys, in each spelling."""

    family = Family.INJECTION
    surface = "outputs of tools and replies of models"
    action = "sensitive values repeated"
    invariant = Invariant.SECRECY
    defence = (
        "a repetition of a sensitive value is moved to the vault before a record is written, and is erased with "
        "the value"
    )
    severity = "high"
    needs = (Need("no output can be free text", lambda target: any(map(_can_repeat, target.calls.values()))), SECRET)

    def play(self, case: Case) -> Outcome:
        """Repeat a sensitive input in outputs, and search for it everywhere, during the run and after an erasure."""
        from hypothesis import strategies as st

        target = with_secrets(case)
        trial = Trial(case, target=target, faults=False)
        hidden, types = Hidden(), target.plan.input_types
        trial.inputs = {name: hidden.put(value, types[name]) for name, value in trial.inputs.items()}
        spelling = case.pick("spelled", st.sampled_from(list(SPELLINGS)))
        shape = case.pick("repeated as", st.sampled_from(list(SHAPES)))
        secrets = sorted(text for text in hidden.texts if spelling != "masked" or len(text) >= LONG_ENOUGH)
        repeated: list[str] = []

        def decide(asking: Asking) -> Answer | None:
            request = asking.request
            if request is not None and _tells(f"{request.prompt}\n{request.system}", hidden, repeated):
                raise Breach(Invariant.SECRECY, f"the model is told by `{asking.call.id}` what an output repeated")
            if not secrets or not _can_repeat(asking.call):
                return honest(case, asking, hidden)
            said = SPELLINGS[spelling](secrets[0])
            output = next((one for one in (SHAPES[shape](said), said) if _fits(asking.call, one)), None)
            if output is None or not case.pick(f"{asking.name} repeats", st.booleans()):
                return honest(case, asking, hidden)
            repeated.append(said)
            return Answer("returns", output)

        trial.world.decides.append(decide)
        machine = trial.machine()
        run = trial.carry_on(trial.start(machine), machine)
        trial.oracle.judge(run)
        _search(trial, run, hidden, repeated)
        if repeated:
            case.log("erase the run")
            gone = case.do(trial.machine().erase(run.id))
            _search(trial, gone, hidden, repeated)
            _search_vault(trial, repeated)
        return Outcome.BLOCKED if repeated else Outcome.NOT_APPLICABLE


def _tells(text: str, hidden: Hidden, repeated: list[str]) -> bool:
    return hidden.found_in(text) or any(
        form in text for said in repeated for form in (said, json.dumps(said)[1:-1], to_json(said)[1:-1])
    )


def _search(trial: Trial, run: Run, hidden: Hidden, repeated: list[str]) -> None:
    """Search everything except the vault. Raises Breach."""
    texts = {f"record {entry.seq}": entry.record.decode() for entry in trial.store.inner.read(run.id)}
    texts |= {f"the {kind} view": to_json(freeze(dict(run.view(kind)))) for kind in ("trace", "model")}
    texts["the error of the run"] = run.error
    for source, text in texts.items():
        if _tells(text, hidden, repeated):
            raise Breach(Invariant.SECRECY, f"{source} tells what an output repeated of a sensitive value")


def _search_vault(trial: Trial, repeated: list[str]) -> None:
    stored = b"".join(trial.store.inner.vault.get(trial.run).values())
    if any(said.encode() in stored for said in repeated):
        raise Breach(Invariant.SECRECY, "the vault has what an output repeated of a value that was erased")
