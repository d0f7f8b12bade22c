"""Injection of sensitive values through outputs: tools and models repeat their inputs, and the run continues."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import cache
from random import Random
from typing import Any, Final
from urllib.parse import quote_plus

from stepward.sabotage.attack import Attack, Family, Need
from stepward.sabotage.attacks.secrecy import SECRET, Hidden, honest, with_secrets
from stepward.sabotage.invariants import Breach, Invariant, Outcome
from stepward.sabotage.playing.answers import CallAnswer
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.trial import Trial
from stepward.sabotage.playing.world import Asking
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.language.program import Program
from stepward.vm.language.types import refusal
from stepward.vm.machine.plan import CallPlan
from stepward.vm.machine.run import Run
from stepward.vm.values import as_text, freeze, to_json

SPELLINGS: Final[Mapping[str, Callable[[str], str]]] = {
    "as it is": lambda text: text,
    "in a sentence": lambda text: f"paid to {text}, as you said",
    "in capitals": str.upper,
    "in a URL": lambda text: f"https://bank/{quote_plus(text)}",
    "in groups": lambda text: " ".join(text[at : at + 4] for at in range(0, len(text), 4)),
    "masked": lambda text: f"****{text[len(text) // 2 :]}",
    "in base64": lambda text: base64.b64encode(f"a{text}".encode()).decode(),
    "in hexadecimal": lambda text: text.encode().hex(),
    "in escapes of JSON": lambda text: "".join(f"\\u{ord(one):04x}" for one in text),
    "in escapes of Python": lambda text: "".join(f"\\x{byte:02x}" for byte in text.encode()),
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

        def decide(asking: Asking) -> CallAnswer | None:
            request = asking.request
            if request is not None and _tells(f"{request.prompt}\n{request.system}", hidden, repeated):
                raise Breach(Invariant.SECRECY, f"the model is told by `{asking.call.id}` what an output repeated")
            if not secrets or not _can_repeat(asking.call):
                return honest(case, asking, hidden)
            spelled = SPELLINGS[spelling](secrets[0])
            output = next((one for one in (SHAPES[shape](spelled), spelled) if _fits(asking.call, one)), None)
            if output is None or not case.pick(f"{asking.name} repeats", st.booleans()):
                return honest(case, asking, hidden)
            repeated.append(spelled)
            return CallAnswer("returns", output)

        trial.world.decides.append(decide)
        machine = trial.machine()
        run = trial.carry_on(trial.start(machine), machine)
        trial.oracle.judge(run)
        _search(trial, run, hidden, repeated)
        if repeated:
            case.log("erase the run")
            erased = case.do(trial.machine().erase(run.id))
            _search(trial, erased, hidden, repeated)
            _search_vault(trial, repeated)
        return Outcome.BLOCKED if repeated else Outcome.NOT_APPLICABLE


def _tells(text: str, hidden: Hidden, repeated: list[str]) -> bool:
    return hidden.found_in(text) or any(
        form in text for spelled in repeated for form in (spelled, json.dumps(spelled)[1:-1], to_json(spelled)[1:-1])
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
    if any(spelled.encode() in stored for spelled in repeated):
        raise Breach(Invariant.SECRECY, "the vault has what an output repeated of a value that was erased")


NUMBER: Final = 8_127_309_455
"""A sensitive number. What is computed from it has none of its digits in a row."""

COMPUTED: Final[Mapping[str, Decimal | int]] = {
    "$n + 1111111111.25": NUMBER + Decimal("1111111111.25"),
    "$n * 3": NUMBER * 3,
    "$n * 0.7": NUMBER * Decimal("0.7"),
    "1111111111 - $n": 1_111_111_111 - NUMBER,
    "$n - 1111111111.5 + $n": NUMBER - Decimal("1111111111.5") + NUMBER,
}
"""What a program computes from it."""

WAYS: Final = ("set", "carry", "in an item", "in a branch")
"""Where it is computed."""


class ComputedEchoed(Attack):
    """A program computes numbers from a sensitive one, by itself, in bodies or beside others, and a tool repeats them:
    as texts and as numbers, in a list and as a field."""

    family = Family.INJECTION
    surface = "outputs of tools"
    action = "numbers repeated that were computed from sensitive ones"
    invariant = Invariant.SECRECY
    defence = "numbers that are computed from sensitive ones are known to a run as these are, and erased with them"
    severity = "high"
    weight = 4
    draws = True

    def play(self, case: Case) -> Outcome:
        """Compute each number in each place, and search the records for it."""
        for way, text in case.each("way, number", [(way, text) for way in WAYS for text in COMPUTED]):
            self._play(case, _computing(way, text), f"{way}: {text}", COMPUTED[text])
        return Outcome.BLOCKED

    def _play(self, case: Case, program: Program, what: str, number: Decimal | int) -> None:
        written = as_text(number)
        store = MemoryJournal()

        def repeat() -> Any:
            return {"text": f"it is {written}!", "number": number, "list": [written]}

        machine = case.machine({"repeat": repeat}, None, store)
        case.act(f"{what}, which is {written}")
        run = case.do(machine.run(program, {"n": NUMBER}, run_id="run"))
        case.hold(run.status == "SUCCESS", Invariant.KEPT, f"the run is {run.status}: {run.error}")
        digits = written.lstrip("-").encode()
        for entry in store.read("run"):
            case.hold(digits not in entry.record, self.invariant, f"record {entry.seq} has {written}")
        case.do(machine.erase("run"))
        case.hold(not store.vault.get("run"), Invariant.ERASURE, "the vault has values after the erasure")


@cache
def _computing(way: str, text: str) -> Program:
    repeat = {"id": "tell", "type": "tool", "tool": "repeat", "output_key": "told"}
    compute = {"id": "compute", "type": "set", "set": {"v": text}}
    again = {"id": "again", "type": "set", "set": {"w": "$told"}}
    other = {"id": "other", "type": "set", "set": {"o": 1}}
    item = {"id": "each", "type": "for_each", "items": [1], "as": "item"}
    steps: dict[str, list[dict[str, Any]]] = {
        "set": [compute, repeat, again],
        "carry": [{**item, "carry": {"v": text}, "steps": [repeat, {"id": "in", "type": "set", "set": {"v": "$v"}}]}],
        "in an item": [{**item, "steps": [compute]}, repeat, again],
        "in a branch": [
            {"id": "both", "type": "parallel", "branches": {"a": {"steps": [compute]}, "b": {"steps": [other]}}},
            repeat,
            again,
        ],
    }
    data: dict[str, Any] = {"name": "computes", "language": 2, "inputs": {"n": {"type": "integer", "sensitive": True}}}
    return Program.from_dict({**data, "tools": {"repeat": {"effect": "read"}}, "steps": steps[way]})


COUNTS: Final = (10, 40)
"""How many sensitive values a run has: few, and more than are searched for one by one."""

FITS: Final = {"type": "string", "sensitive": True}
OF_MANY: Final = Program.from_dict(
    {
        "name": "many",
        "language": 2,
        "inputs": {"cards": {"type": "array", "items": FITS, "maxItems": max(COUNTS)}},
        "tools": {"book": {"effect": "write", "args": {"card": {"type": "string"}}, "returns": {"type": "string"}}},
        "steps": [
            {
                "id": "each",
                "type": "for_each",
                "items": "$cards",
                "as": "card",
                "steps": [{"id": "book", "type": "tool", "tool": "book", "args": {"card": "$card"}}],
            }
        ],
    }
)


class OneOfMany(Attack):
    """A run has few or many sensitive values, and a tool repeats one of them in each spelling."""

    family = Family.INJECTION
    surface = "outputs of tools"
    action = "one of many sensitive values repeated in each spelling"
    invariant = Invariant.SECRECY
    defence = "a value is found in every spelling, however many values a run has"
    severity = "high"
    weight = 20
    draws = True

    def play(self, case: Case) -> Outcome:
        """Repeat a value of each run in each spelling, and look for texts that are not sealed."""
        chance = Random(f"of many {case.seed()}")
        for count in case.each("the values", COUNTS):
            cards = [_card(chance) for _ in range(count)]
            spellings = {card: spell(card) for card, spell in zip(cards, SPELLINGS.values(), strict=False)}
            store = MemoryJournal()
            book = lambda card: spellings.get(card, "well")  # noqa: B023, E731
            machine = case.machine({"book": book}, None, store)
            case.act(f"run over {count} cards, of which {len(spellings)} are repeated")
            run = case.do(machine.run(OF_MANY, {"cards": cards}, run_id="run"))
            case.hold(run.status == "SUCCESS", Invariant.KEPT, f"the run is {run.status}: {run.error}")
            bodies = [json.loads(entry.record)["body"] for entry in store.read("run")]
            outputs = [body["output"] for body in bodies if body.get("step") == "book" and "output" in body]
            for spelling, text, output in zip(SPELLINGS, spellings.values(), outputs, strict=False):
                case.hold(output != text, self.invariant, f"one of {count} values stands {spelling} in the journal")
            others = outputs[len(SPELLINGS) :]
            case.hold(others == ["well"] * len(others), Invariant.DATA, "an output without a sensitive value is sealed")
            case.hold(len(outputs) == count, Invariant.KEPT, f"of {count} outputs {len(outputs)} are in the journal")
        return Outcome.BLOCKED


def _card(chance: Random) -> str:
    """Return a value of letters and digits that repeats no other."""
    return "".join(chance.choice("bcdfghjkmnpqrstvwz23456789") for _ in range(chance.randint(12, 20)))
