"""Injection of sensitive values into public texts: errors, requests, refusals and prompts."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final, NamedTuple

from stepward.sabotage.attack import Attack, Family, Need
from stepward.sabotage.invariants import Breach, Invariant, Outcome
from stepward.sabotage.needs import MODEL
from stepward.sabotage.playing.answers import CallAnswer
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.odd_values import part_of
from stepward.sabotage.playing.trial import Trial
from stepward.sabotage.playing.variants import call_in, variant
from stepward.sabotage.playing.world import Asking
from stepward.sabotage.target import Target
from stepward.vm.errors import StepwardError
from stepward.vm.language.types import TypeSpec, refusal
from stepward.vm.machine.ask import MAX_ERROR
from stepward.vm.machine.run import Run
from stepward.vm.values import as_text, freeze, to_json

SECRETS: Final[tuple[Any, ...]] = (
    "quiet-heron 'é\"\\4711",
    "quiet.heron@4711.example",
    "+471147114711",
    Decimal("47114.47"),
    471147,
)
"""Values that do not occur by chance. Each type gets the first that it accepts."""

TELLING: Final = 6
"""The length of a prefix that counts as the secret."""


class Hidden:
    """Puts recognizable values where types are `sensitive`. `texts` lists them."""

    def __init__(self) -> None:
        self.texts: set[str] = set()

    def put(self, value: Any, spec: TypeSpec | None, *, inside: bool = False) -> Any:
        """Return a value of a type with secrets in all its sensitive parts."""
        if spec is None:
            return value
        inside = inside or spec.sensitive
        if isinstance(value, dict):
            return {key: self.put(item, part_of(spec, key), inside=inside) for key, item in value.items()}
        if isinstance(value, list):
            return [self.put(item, spec.items, inside=inside) for item in value]
        secret = next((one for one in SECRETS if inside and refusal(one, spec) is None), None)
        if secret is None:
            return value
        self.texts.add(as_text(secret))
        return secret

    def found_in(self, text: str) -> bool:
        """Return whether a text contains a secret or a prefix of one, plain or as JSON and Python write it."""
        forms = {form for secret in self.texts for form in (secret[:TELLING], json.dumps(secret)[1:-1][:TELLING])}
        escaped = {_in_units(secret[:TELLING]) for secret in self.texts}
        return any(form in text for form in forms | escaped | {json.dumps(form)[1:-1] for form in escaped})


def _in_units(text: str) -> str:
    """Return a text with each character escaped, as JSON may write it."""
    return "".join(f"\\u{ord(one):04x}" for one in text)


def _has_sensitive(target: Target) -> bool:
    return target.plan.has_sensitive


def _texts_in(target: Target) -> list[str]:
    """Return the text inputs that a variant can mark as sensitive."""
    declared = target.program.inputs or {}
    texts = [secret for secret in SECRETS if isinstance(secret, str)]
    return [name for name, spec in declared.items() if any(refusal(text, spec) is None for text in texts)]


def with_secrets(case: Case) -> Target:
    """Return the target, or a variant with a sensitive input."""
    from hypothesis import strategies as st

    target = case.target
    if _has_sensitive(target):
        return target
    name = case.pick("made sensitive", st.sampled_from(_texts_in(target)))
    return variant(target, f"sensitive {name}", lambda data: data["inputs"][name].update(sensitive=True))


SECRET = Need(
    "nothing is sensitive, and no input can be free text", lambda target: _has_sensitive(target) or _texts_in(target)
)


class _Form(NamedTuple):
    """A form in which a tool quotes its arguments."""

    kind: str
    quote: Callable[[str], Any]


def _cut(text: str) -> str:
    """Return an error so long that the machine cuts it off within the quoted text."""
    return "." * (MAX_ERROR - 10) + text


_FORMS: Final = {
    form.kind: form
    for form in (
        _Form("as it is", lambda text: f"can't use {text}"),
        _Form("by repr", lambda text: f"can't use {text!r}"),
        _Form("as JSON", lambda text: json.dumps({"args": text}, ensure_ascii=False)),
        _Form("as ASCII", lambda text: json.dumps({"args": text})),
        _Form("in escapes of JSON", lambda text: f"can't use {_in_units(text)}"),
        _Form("by the repr of bytes", lambda text: f"can't use {text.encode()!r}"),
        _Form("cut off", lambda text: f"can't use {text[: len(text) // 2 + 1]}..."),
        _Form("beyond the limit", _cut),
    )
}


class SecretQuoted(Attack):
    """A tool quotes its sensitive arguments in errors, requests and ill-typed outputs."""

    family = Family.INJECTION
    surface = "errors and requests of tools"
    action = "sensitive values quoted"
    invariant = Invariant.SECRECY
    defence = "errors, requests and refusals are redacted before they reach a record"
    severity = "high"
    needs = (SECRET,)

    def play(self, case: Case) -> Outcome:
        """Quote secrets in every tool that gets one, and search for them in everything except the vault."""
        from hypothesis import strategies as st

        target = with_secrets(case)
        trial = Trial(case, target=target, faults=False)
        hidden = Hidden()
        types = target.plan.input_types
        trial.inputs = {name: hidden.put(value, types[name]) for name, value in trial.inputs.items()}
        form = case.pick("quoted", st.sampled_from(list(_FORMS)))
        forms = ("in an error", "in a request", "by its type")
        quoted = []

        def decide(asking: Asking) -> CallAnswer | None:
            call = asking.call
            if call.is_model or not hidden.found_in(to_json(asking.args)):
                return honest(case, asking, hidden)
            quoted_in = case.pick(f"{asking.name} quotes", st.sampled_from(("not", *forms)))
            leaf = next(text for text in map(as_text, leaves(asking.args)) if hidden.found_in(text))
            if quoted_in == "in an error":
                quoted.append(asking)
                return CallAnswer("fails", _FORMS[form].quote(leaf))
            if quoted_in == "in a request" and call.may_suspend:
                quoted.append(asking)
                return CallAnswer("suspends", {"asks": call.id, "about": [_FORMS[form].quote(leaf)]})
            if quoted_in == "by its type" and call.returns is not None:
                quoted.append(asking)
                return CallAnswer("wrong", {"quotes": [leaf]} if "object" not in call.returns.kinds else [leaf])
            return honest(case, asking, hidden)

        trial.world.decides.append(decide)
        machine = trial.machine()
        run = trial.start(machine)
        _search(trial, run, hidden)
        run = trial.carry_on(run, machine)
        trial.oracle.judge(run)
        _search(trial, run, hidden)
        _refusals(trial, hidden)
        return Outcome.BLOCKED if quoted else Outcome.ABSORBED if hidden.texts else Outcome.NOT_APPLICABLE


def honest(case: Case, asking: Asking, hidden: Hidden) -> CallAnswer | None:
    """Return an output with secrets where its type is sensitive, or None to leave the answer to the world."""
    call = asking.call
    if call.returns is None or call.may_suspend:
        return None
    return CallAnswer(
        "returns", hidden.put(case.pick(f"answer: {asking.name}", case.target.output(call)), call.returns)
    )


def leaves(value: Any) -> list[Any]:
    """Return the scalars in a value."""
    if isinstance(value, Mapping):
        return [leaf for item in value.values() for leaf in leaves(item)]
    if isinstance(value, list | tuple):
        return [leaf for item in value for leaf in leaves(item)]
    return [value]


def _search(trial: Trial, run: Run, hidden: Hidden) -> None:
    """Search for secrets in everything except the vault. Raises Breach."""
    texts = {f"record {entry.seq}": entry.record.decode() for entry in trial.store.inner.read(run.id)}
    texts |= {
        "the error of the run": run.error,
        "the trace view": to_json(freeze(dict(run.view("trace")))),
        "the model view": to_json(freeze(dict(run.view("model")))),
        "a request": to_json(freeze([one.request for one in run.suspensions])),
        "a doubt": " ".join(one.why for one in run.doubts),
    }
    for source, text in texts.items():
        if hidden.found_in(text):
            raise Breach(Invariant.SECRECY, f"{source} tells a sensitive value")


def _refusals(trial: Trial, hidden: Hidden) -> None:
    """Let sensitive inputs be refused, and check the text of the refusal. Raises Breach."""
    for name in trial.inputs:
        spec = trial.target.plan.input_types[name]
        if spec is None or not spec.sensitive:
            continue
        wrong = {**trial.inputs, name: [trial.inputs[name]]}
        trial.case.count()
        try:
            trial.case.do(trial.machine().run(trial.target.program, wrong, run_id=f"{trial.run}-refused"))
        except StepwardError as error:
            if hidden.found_in(str(error)):
                raise Breach(Invariant.SECRECY, f"a refusal quotes `{name}`") from None


class SecretToModel(Attack):
    """An unchecked program puts a sensitive value into a prompt."""

    family = Family.INJECTION
    surface = "prompts of a program that was not checked"
    action = "a reference to a sensitive value added"
    invariant = Invariant.SECRECY
    defence = "a prompt that would contain a sensitive value is rejected before the model is called"
    severity = "high"
    needs = (MODEL, Need("no input can be free text", _texts_in))

    def play(self, case: Case) -> Outcome:
        """Add the value to the prompt of one step, and check that no model gets it."""
        from hypothesis import strategies as st

        step = case.pick("prompt of", st.sampled_from([call.id for call in case.target.models]))
        name = case.pick("value", st.sampled_from(_texts_in(case.target)))
        field = case.pick("added to", st.sampled_from(("prompt", "system")))
        shape = case.pick("as", st.sampled_from(("alone", "in text")))

        def add(data: dict[str, Any]) -> None:
            data["inputs"][name]["sensitive"] = True
            call = call_in(data, step)
            call[field] = f"${name}" if shape == "alone" else f"{call.get(field) or ''} (${name})"

        target = variant(case.target, f"{step} {field} {name} {shape}", add)
        trial = Trial(case, target=target, faults=False)
        hidden = Hidden()
        types = target.plan.input_types
        trial.inputs = {key: hidden.put(value, types[key]) for key, value in trial.inputs.items()}

        def decide(asking: Asking) -> CallAnswer | None:
            request = asking.request
            if request is not None and hidden.found_in(f"{request.prompt}\n{request.system}"):
                raise Breach(Invariant.SECRECY, f"the model is told a sensitive value by `{asking.call.id}`")
            return None

        trial.world.decides.append(decide)
        trial.finish()
        is_blocked = any(one["body"].get("rule") == "sensitive-to-model" for one in trial.oracle.records)
        return Outcome.BLOCKED if is_blocked else Outcome.NOT_APPLICABLE
