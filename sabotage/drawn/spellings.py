"""The spellings of a sensitive value by tools, clients and masks."""

from __future__ import annotations

import base64
import json
import unicodedata
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
    "by ascii": ascii,
    "bytes by repr": lambda text: repr(text.encode()),
    "as JSON of PHP": lambda text: json.dumps(text).replace("/", "\\/"),
    "as JSON in JSON": lambda text: json.dumps(json.dumps(f"bad {text}")),
    "in escapes of JSON": lambda text: "bad " + _in_units(text),
    "in escapes of JSON, in capitals": lambda text: "bad " + _in_units(text).upper().replace("U", "u"),
    "in escapes of bytes": lambda text: "bad " + "".join(f"\\x{byte:02x}" for byte in text.encode()),
    "in octal": lambda text: "bad " + "".join(f"\\{byte:03o}" for byte in text.encode()),
    "in long escapes": lambda text: "bad " + "".join(f"\\U{ord(one):08x}" for one in text),
    "in names": lambda text: "bad " + "".join(map(_named, text)),
    "in escapes in a URL": lambda text: "bad " + urllib.parse.quote(_in_units(text)),
    "base64 in JSON of PHP": lambda text: base64.b64encode(f"{text}??>>".encode()).decode().replace("/", "\\/"),
}


def _in_units(text: str) -> str:
    """Return a text with all characters escaped, as JSON may have it: units of UTF-16."""
    units = text.encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def _named(character: str) -> str:
    name = unicodedata.name(character, "")
    return f"\\N{{{name}}}" if name else character


QUOTED = ("by repr", "as JSON", "by ascii", "bytes by repr", "as JSON of PHP")
"""The spellings that make a short value one that is searched for, and differ from it by one byte at each end only. The
machine does not tell such bytes in base64 within longer data, which the reference does."""

BY_HALF = (
    "the last half",
    "the first half",
    "but the last one",
    *(name for name in SPELLINGS if name.startswith(("behind ", "before "))),
)
"""The spellings with only a part of the value. For six characters that is too short to exclude chance."""
