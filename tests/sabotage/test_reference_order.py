"""Sub-steps with `depends_on`, on the machine and on the reference in lockstep.

`STEPWARD_ORDER_LOCKSTEP=1500` plays that many drawn programs.
"""

from __future__ import annotations

from collections import Counter

import pytest

from sizes import asked_for
from stepward.sabotage.drawn.cases import drawn_case
from stepward.sabotage.drawn.lockstep import lockstep

CHUNK = 20
CHUNKS = max(1, asked_for("STEPWARD_ORDER_LOCKSTEP", 20, 80) // CHUNK)


@pytest.mark.parametrize("chunk", [pytest.param(n, marks=[pytest.mark.slow] * (n > 1)) for n in range(CHUNKS)])
def test_machine_and_reference_agree_on_programs_with_an_order(chunk: int) -> None:
    endings: Counter[str] = Counter()
    ordered = 0
    for number in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        case = drawn_case("order", str(number))
        if case is not None:
            parts = [part for step in case.program.steps for part in step.sub_steps]
            ordered += any(part.depends_on for part in parts)
            endings[lockstep(case).ending[0]] += 1
    assert ordered > CHUNK // 2
    assert len(endings) > 2
