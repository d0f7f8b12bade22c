"""Witnesses: inputs, and a script of all answers from outside, that lead a run to a violation (a counterexample).

A witness is one JSON object (specs/witness.md). It contains the program and the policies, so that checking a finding
needs only that file and `stepward replay`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, Literal, get_args

from stepward.vm.errors import DocumentError, StepwardError
from stepward.vm.language.policy import Policy
from stepward.vm.language.program import Program
from stepward.vm.values import ValueRefused, freeze, to_json
from stepward.vm.writing import put

VERSION: Final = 1
MAX_BYTES: Final = 64 << 20
"""The most bytes of a witness file."""

Does = Literal["returns", "fails", "times out", "misses its deadline", "in doubt", "returns no value"]
"""The behaviours of a tool or a model in a call."""

Code = Literal["SW202", "SW302", "SW305", "SW401", "SW402", "SW403", "SW404", "SW405", "SW406"]
"""The codes of findings that can have a witness."""


def raised(name: str) -> tuple[Does, str]:
    """Return the behaviour by which a call fails with an error, and the name of the error that its tool raises."""
    match name:
        case "Timeout":
            return "times out", ""
        case "Deadline":
            return "misses its deadline", ""
        case "BadOutput":
            return "returns no value", ""
        case "Unexpected" | "":
            return "fails", ""
        case _:
            return "fails", name


class WitnessRefused(StepwardError):  # noqa: N818 - reads better where it is caught than with a suffix
    """A file or an object is not a valid witness, or not one of its program; the message says what is wrong."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The claim of a witness: `rule` (of `policy`, if that is a name) is broken at `step`.

    For SW202 there is no rule, and `reference` is read by `step`, which may be a sub-step, while it is undefined. For
    SW302 and SW305 there is neither: the condition `step` takes no branch, or two of its cases hold.
    """

    code: Code
    step: str
    rule: str | None = None
    policy: str | None = None
    reference: str | None = None


@dataclass(frozen=True, slots=True)
class CallAnswer:
    """The behaviour of a tool or a model at a visit of a step or sub-step, for one attempt or for all other attempts.

    `value` is the result: the output of a tool, or the reply of a model. A reply that the program does not accept is a
    failed attempt, as in any run; `returns no value` is one that no program accepts. `error` is the name of the error
    of a tool that fails, empty for one that it does not list.
    """

    step: str
    visit: int
    does: Does
    value: Any = None
    attempt: int | None = None
    error: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", freeze(self.value))

    def to_data(self) -> dict[str, Any]:
        """Return the answer as plain data."""
        data: dict[str, Any] = {"step": self.step, "visit": self.visit}
        if self.attempt is not None:
            data["attempt"] = self.attempt
        data["does"] = self.does
        if self.error:
            data["error"] = self.error
        return data | {"value": self.value} if self.does == "returns" else data


@dataclass(frozen=True, slots=True)
class Witness:
    """A run that breaks a rule: replay it with `stepward.validator.engine.witnesses.replay`.

    `max_steps` is the budget of the machine for the run, beside the program's own; a witness for a run out of budget
    needs exactly that many. `policies` are those that apply, without their waivers.
    """

    claim: Claim
    program: Program
    policies: tuple[Policy, ...]
    inputs: Mapping[str, Any]
    script: tuple[CallAnswer, ...]
    max_steps: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "inputs", freeze(dict(self.inputs)))

    @property
    def digest(self) -> str:
        """The digest of the program, as in journals."""
        from stepward.vm.journal.canonical import canonical, portable
        from stepward.vm.journal.records import document_digest

        return document_digest(canonical(portable(self.program.to_data())).encode())

    def to_data(self) -> dict[str, Any]:
        """Return the witness as plain data."""
        claim = {name: getattr(self.claim, name) for name in ("code", "rule", "policy", "step", "reference")}
        return {
            "version": VERSION,
            "shows": {name: value for name, value in claim.items() if value is not None},
            "inputs": self.inputs,
            "script": [answer.to_data() for answer in self.script],
            "max_steps": self.max_steps,
            "digest": self.digest,
            "program": self.program.to_data(),
            "policies": [policy.to_data() for policy in self.policies],
        }

    def to_json(self) -> str:
        """Return the witness as JSON text that loads to an equal witness."""
        return to_json(self.to_data(), indent=2) + "\n"

    def save(self, path: str | Path) -> None:
        """Write the witness to a file; raises OSError where that is not possible.

        A symbolic link of that name is replaced, not followed.
        """
        put(Path(path), self.to_json().encode())

    @classmethod
    def load(cls, path: str | Path) -> Witness:
        """Return the witness in a file; raises WitnessRefused for invalid content, OSError if there is no file."""
        with Path(path).open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise WitnessRefused(f"a witness has at most {MAX_BYTES} bytes")
        try:
            return cls.from_json(content.decode())
        except UnicodeDecodeError as error:
            raise WitnessRefused(f"it is not UTF-8: byte {error.start} can't be read") from None

    @classmethod
    def from_json(cls, text: str) -> Witness:
        """Return the witness in a JSON text; raises WitnessRefused for invalid text."""
        try:
            data = json.loads(text, parse_float=Decimal, parse_constant=_no_constant, object_pairs_hook=_object)
        except json.JSONDecodeError as error:
            raise WitnessRefused(f"it is no JSON: {str(error)[:1].lower()}{str(error)[1:]}") from None
        except (ValueError, ArithmeticError) as error:
            raise WitnessRefused(str(error)) from None
        except RecursionError:
            raise WitnessRefused("it is nested too deep") from None
        return cls.from_data(data)

    @classmethod
    def from_data(cls, data: Any) -> Witness:
        """Return the witness in plain data; raises WitnessRefused for invalid data."""
        whole = _Fields(data, "a witness")
        if whole.need("version", int) != VERSION:
            raise WitnessRefused(f"`version` is not {VERSION}: this version of Stepward reads no other")
        claim = _claim(_Fields(whole.need("shows", dict), "`shows`"))
        script = tuple(
            _answer(_Fields(entry, f"`script[{number}]`")) for number, entry in enumerate(whole.need("script", list))
        )
        keys: set[tuple[str, int, int | None]] = set()
        for answer in script:
            key = (answer.step, answer.visit, answer.attempt)
            if key in keys:
                raise WitnessRefused(f"`script` has two answers for visit {answer.visit} of `{answer.step}`")
            keys.add(key)
        try:
            program = Program.from_dict(whole.need("program", dict))
            policies = tuple(Policy.from_dict(entry) for entry in whole.need("policies", list))
            inputs = freeze(whole.need("inputs", dict))
        except DocumentError as error:
            raise WitnessRefused(f"its program or a policy is none: {error.problems[0].message}") from None
        except ValueRefused as error:
            raise WitnessRefused(f"an input is no value: {error}") from None
        witness = cls(claim, program, policies, inputs, script, whole.count("max_steps"))
        if whole.need("digest", str) != witness.digest:
            raise WitnessRefused("`digest` is not that of its program: one of the two was changed")
        whole.close()
        return witness


_NAMES: Final[dict[str, tuple[str, ...]]] = {"SW202": ("reference",), "SW302": (), "SW305": ()}
"""The fields of a claim beside the step, for codes without a rule."""


def _claim(fields: _Fields) -> Claim:
    code = fields.need("code", str)
    if code not in get_args(Code):
        raise WitnessRefused(f"`shows.code` is `{code}`, and no witness is about that")
    names = _NAMES.get(code, ("rule", "policy"))
    values = {name: fields.maybe(name, str) for name in names}
    if names and values[names[0]] is None:
        raise WitnessRefused(f"`shows` has no `{names[0]}`")
    claim = Claim(code, fields.need("step", str), **values)
    fields.close()
    return claim


def _answer(fields: _Fields) -> CallAnswer:
    does = fields.need("does", str)
    if does not in get_args(Does):
        known = ", ".join(f"`{word}`" for word in get_args(Does))
        raise WitnessRefused(f"{fields.label}.does is `{does}`, and should be one of {known}")
    value = fields.any("value") if does == "returns" else None
    attempt = fields.count("attempt") if "attempt" in fields.data else None
    error = (fields.maybe("error", str) or "") if does == "fails" else ""
    try:
        answer = CallAnswer(fields.need("step", str), fields.count("visit"), does, value, attempt, error)
    except ValueRefused as error:
        raise WitnessRefused(f"the value of {fields.label} is none: {error}") from None
    fields.close()
    return answer


class _Fields:
    """The fields of one object, each read once; `close` refuses the rest."""

    def __init__(self, data: Any, what: str) -> None:
        if not isinstance(data, dict):
            raise WitnessRefused(f"{what} is no object")
        self.data = data
        self.label = what
        self.names_read: set[str] = set()

    def any(self, name: str) -> Any:
        """Return a field that may hold any value."""
        if name not in self.data:
            raise WitnessRefused(f"{self.label} has no `{name}`")
        self.names_read.add(name)
        return self.data[name]

    def need(self, name: str, kind: type) -> Any:
        """Return a field with a value of a kind."""
        value = self.any(name)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            word = {int: "a whole number", str: "text", list: "a list", dict: "an object"}[kind]
            raise WitnessRefused(f"`{name}` of {self.label} is not {word}")
        return value

    def maybe(self, name: str, kind: type) -> Any:
        """Return a field of a kind, or None if it is absent."""
        return None if self.data.get(name) is None else self.need(name, kind)

    def count(self, name: str) -> int:
        """Return a field with a number of at least 1."""
        value = self.need(name, int)
        if value < 1:
            raise WitnessRefused(f"`{name}` of {self.label} counts from 1")
        return int(value)

    def close(self) -> None:
        """Refuse the fields that were not read."""
        left = sorted(name for name in self.data if name not in self.names_read and self.data[name] is not None)
        if left:
            raise WitnessRefused(f"{self.label} has a field `{left[0]}` that no witness has")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"an object names `{twice}` twice")
    return fields


def _no_constant(name: str) -> Any:
    raise ValueError(f"`{name}` is no number")


_NOT_HELD: Final = ("applies_to", "waivers")


def without_waivers(policies: tuple[Policy, ...]) -> tuple[Policy, ...]:
    """Return policies as witnesses contain them: a waiver allows a violation, but the rule is still broken."""
    return tuple(
        Policy.from_dict({name: value for name, value in policy.to_data().items() if name not in _NOT_HELD})
        for policy in policies
    )
