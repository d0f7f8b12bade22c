"""What of the planner depends on the language in which a model writes: the card that teaches it, and its replies.

The language is YAML. A second one would have a file like this, with the same two functions.
"""

from __future__ import annotations

import re
from typing import Final

from stepward.validator.gate.suppressions import read_comments
from stepward.validator.gateway.pages import LESSON, page
from stepward.validator.gateway.refusals import RequestRefused

MAX_REPLY: Final = 50_000
"""Characters of the longest reply that is looked at."""

_OTHERWISE: Final = {
    "copy those that you use from `list_tools`, or leave it out.": "leave it out.",
    "- `llm`: `prompt`, `system`,": "- `llm`: `prompt`,",
}
"""What the lesson says otherwise than a plan needs it."""

_FENCED: Final = re.compile(r"```[a-zA-Z]*[ \t]*\n(.*?)\n?```", re.DOTALL)
_FENCE: Final = re.compile(r"^```", re.MULTILINE)
_ALONE: Final = "reply with the program alone: YAML, without a word before or after it"


def card() -> str:
    """Return the card that teaches the language: the lesson, without its words about the tools of the MCP server."""
    lesson = page(LESSON)
    text = lesson[lesson.index("```yaml") :]
    for words, ours in _OTHERWISE.items():
        text = text.replace(words, ours)
    return text


def program_text(reply: str) -> str:
    """Return the text of the program in a reply: the whole reply, or what is in a fence around all of it.

    Raises RequestRefused for a reply that is empty, is too long, has text around the program, or silences findings.
    """
    text = reply.strip()
    if not text:
        raise RequestRefused("the reply is empty", _ALONE)
    if len(reply) > MAX_REPLY:
        raise RequestRefused(
            f"the reply has {len(reply):,} characters, more than {MAX_REPLY:,}", "write a shorter program"
        )
    text = unfenced(text)
    if _FENCE.search(text):
        raise RequestRefused("there is text around the program, or more than one program", _ALONE)
    if text.lstrip()[:1] != "{" and read_comments(text, "yaml"):
        raise RequestRefused(
            "a comment in the program silences findings", "remove the comment, and correct what it hides"
        )
    return text


def unfenced(reply: str) -> str:
    """Return a reply without white space at its ends, and without a fence around all of it."""
    text = reply.strip()
    fenced = _FENCED.fullmatch(text)
    return fenced[1] if fenced else text
