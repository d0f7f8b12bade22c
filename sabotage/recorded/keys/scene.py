"""Scenes of keys and of what they sign and encrypt: texts, numbers and records, at their own interfaces."""

from __future__ import annotations

from typing import Final

from stepward.sabotage.recorded.keys import files, signs, values
from stepward.sabotage.recorded.shared.probe import Parts

SCENES: Final = Parts(
    (
        (8, files.files),
        (4, files.programs),
        (7, files.described),
        (10, files.vaults),
        (3, files.journals),
        (6, signs.signing),
        (10, signs.receipts),
        (10, signs.kept),
        (9, values.numbers),
        (8, values.values),
        (12, values.texts),
        (8, values.sealed),
        (8, values.records),
        (6, values.traces),
    ),
)
