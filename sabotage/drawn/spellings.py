"""The spellings of a sensitive value by tools, clients and masks."""

from __future__ import annotations

import base64
import json
import urllib.parse
from collections.abc import Callable

SPELLINGS: dict[str, Callable[[str], str]] = {
    "as it is": lambda text: f"404 for {text}",
    "upper case": lambda text: f"no such user {text.upper()}",
    "title": lambda text: f"no such user {text.title()}",
    "in a URL": lambda text: "404 for https://x/u?" + urllib.parse.urlencode({"q": text}),
    "in a URL, all of it": lambda text: "404 for " + "".join(f"%{byte:02x}" for byte in text.encode()),
    "in fours": lambda text: "bad " + " ".join(text[at : at + 4] for at in range(0, len(text), 4)),
    "with dashes": lambda text: "bad " + "-".join(text[at : at + 3] for at in range(0, len(text), 3)),
    "over lines": lambda text: "bad\n" + "\n".join(text[at : at + 8] for at in range(0, len(text), 8)),
    "the last half": lambda text: f"bad ***{text[len(text) // 2 :]}",
    "behind dots": lambda text: f"bad ••{text[len(text) // 2 :]}",
    "behind blocks": lambda text: f"bad ██{text[len(text) // 2 :]}",
    "behind small dots": lambda text: f"bad ··{text[len(text) // 2 :]}",
    "before crosses": lambda text: f"bad {text[: len(text) // 2 + 1]}xx",
    "before number signs": lambda text: f"bad {text[: len(text) // 2 + 1]}##",
    "before circles": lambda text: f"bad {text[: len(text) // 2 + 1]}●●",
    "before squares": lambda text: f"bad {text[: len(text) // 2 + 1]}▪▪",
    "before three stops": lambda text: f"bad {text[: len(text) // 2 + 1]}...",
    "in thousands": lambda text: f"bad {int(text):,}" if text.isascii() and text.isdigit() else f"bad {text}",
    "the first half": lambda text: f"bad {text[: len(text) // 2 + 1]}…",
    "but the last one": lambda text: f"bad {text[:-1]}",
    "base64": lambda text: "Basic " + base64.b64encode(text.encode()).decode(),
    "base64 behind one byte": lambda text: "Basic " + base64.b64encode(f"a{text}:pw".encode()).decode(),
    "base64 behind two": lambda text: "Basic " + base64.b64encode(f"ab{text}:pw".encode()).decode(),
    "base64 for URLs": lambda text: base64.urlsafe_b64encode(f"{text}??>>".encode()).decode(),
    "hex": lambda text: text.encode().hex(),
    "hex in capitals": lambda text: text.encode().hex().upper(),
    "hex in pairs": lambda text: text.encode().hex(":"),
    "by repr": repr,
    "as JSON": json.dumps,
}

QUOTED = ("by repr", "as JSON")
"""The spellings that make a short value one that is searched for, and differ from it by one byte at each end only. The
machine does not tell such bytes in base64 within longer data, which the reference does."""

BY_HALF = (
    "the last half",
    "the first half",
    "but the last one",
    *(name for name in SPELLINGS if name.startswith(("behind ", "before "))),
)
"""The spellings with only a part of the value. For six characters that is too short to exclude chance."""
