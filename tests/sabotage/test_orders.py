"""Settings of a campaign that would leave attacks out without a word are refused."""

from __future__ import annotations

from typing import Any

import pytest

from stepward.sabotage.campaign import Orders

REFUSED: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "a family": ({"families": ("injektion",)}, ValueError, "no family `injektion`; did you mean `injection`?"),
    "an attack": (
        {"attacks": ("forged-tol-name",)},
        ValueError,
        "no attack `forged-tol-name`; did you mean `forged-tool-name`?",
    ),
    "no family at all": ({"families": ("zzz",)}, ValueError, "no family `zzz`; there are: "),
    "a text": ({"families": "injection"}, TypeError, "`families` is a tuple of names"),
    "a number": ({"attacks": (5,)}, TypeError, "`attacks` is a tuple of names"),
    "no examples": ({"examples": 0}, ValueError, "`examples` is at least 1, and not 0"),
    "fewer": ({"examples": -3}, ValueError, "`examples` is at least 1, and not -3"),
    "no workers": ({"workers": 0}, ValueError, "`workers` is at least 1, and not 0"),
    "half a worker": ({"workers": 0.5}, TypeError, "`workers` is a whole number, and not 0.5"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_settings_that_attack_nothing_are_refused(case: str) -> None:
    settings, kind, words = REFUSED[case]
    with pytest.raises(kind) as refused:
        Orders(**settings)
    assert words in str(refused.value)


def test_names_of_families_may_be_texts() -> None:
    assert {attack.family for attack in Orders(families=("injection",)).chosen()} == {"injection"}  # type: ignore[arg-type]
