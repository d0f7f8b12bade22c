"""Measures how far our Lisp gives what Clojure gives, on the conformance cases of the public project ptc_runner.

    git clone https://github.com/andreasronge/ptc_runner DIR
    git -C DIR checkout b4246c638a152b2cdc9601b116d99a37aaf50941
    python benchmarks/lisp_conformance.py DIR

It reads the cases from the checkout, evaluates each in Clojure and here, and prints the figures and each difference.
Nothing of the project is kept here. It needs Debian's `clojure` 1.11.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from stepward.vm.lisp import Outcome, evaluate

CASES = "test/support/lisp_conformance_cases/manual.ex"

_TOKEN = re.compile(
    r"""(?P<sigil>~[sS](?:"{3}\n.*?"{3}|\|[^|]*\||\([^)]*\)|"(?:[^"\\]|\\.)*"|\{[^}]*\}|\[[^\]]*\]))
      | (?P<text>"(?:[^"\\]|\\.)*")
      | (?P<call>\b(?:c|regression_case|fixed_bug_case|bug_case|div_case|unsupported_case)\()
      | (?P<name>[a-z_]+:?|:[a-z_]+)
      | (?P<number>[0-9][0-9_.]*)
      | (?P<sign>\{|\}|\[|\]|\(|\)|<>|,|%|\||->|=>|.)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "s": " ", "e": "\x1b", "0": "\0", "b": "\b", "f": "\f"}
_POLICIES = {
    "c(": "match",
    "regression_case(": "match",
    "fixed_bug_case(": "match",
    "bug_case(": "bug",
    "div_case(": "divergence",
    "unsupported_case(": "unsupported",
}
_JAVA = re.compile(
    r"java|\(\.|[( ]\.[a-z]|(?:Math|Integer|Long|Double|Float|Boolean|System|Instant|LocalDate|Duration)/"
)


@dataclass(frozen=True)
class Case:
    id: str
    form: str
    policy: str
    divergence: str = ""
    namespace: str = ""

    @property
    def has_java(self) -> bool:
        return "java" in self.namespace or "java" in self.id or _JAVA.search(self.form) is not None


def text_of(token: re.Match[str]) -> str:
    """Return the value of an Elixir text."""
    whole = token[0]
    if token.lastgroup == "text":
        body, raw = whole[1:-1], False
    else:
        raw = whole[1] == "S"
        body = whole[5:-3].lstrip("\n") if whole[2:5] == '"""' else whole[3:-1]
    if raw:
        return body
    return re.sub(
        r"\\(?:u\{([0-9a-fA-F]+)\}|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))",
        lambda found: (
            chr(int(found[1] or found[2] or found[3], 16))
            if found[1] or found[2] or found[3]
            else _ESCAPES.get(found[4], found[4])
        ),
        body,
        flags=re.DOTALL,
    )


def arguments(tokens: list[re.Match[str]], start: int) -> Iterator[str | None]:
    """Return the arguments of a call: texts as they are, None for others."""
    depth, text, seen = 0, None, False
    for token in tokens[start:]:
        sign = token[0]
        if depth == 0 and sign in (",", ")"):
            if seen or text is not None:
                yield text
            text, seen = None, False
            if sign == ")":
                return
        elif token.lastgroup in ("text", "sigil") and depth == 0:
            text = (text or "") + text_of(token)
        elif not sign.isspace():
            seen = True
            depth += sign in "([{" or token.lastgroup == "call"
            depth -= sign in ")]}"


def cases(source: str) -> list[Case]:
    """Return the cases of the project's file."""
    source = re.sub(r"(?m)^\s*#.*$", "", source)
    tokens = [token for token in _TOKEN.finditer(source) if not token[0].isspace()]
    found = []
    for number, token in enumerate(tokens):
        if token.lastgroup == "call" and tokens[number - 1][0] not in ("defp", "|>"):
            args = list(arguments(tokens, number + 1))
            if len(args) >= 4 and args[0] is not None and args[3] is not None:
                found.append(
                    Case(args[0], args[3], _POLICIES[token[0]], args[4] or "" if len(args) > 4 else "", args[1] or "")
                )
        elif token[0] == "{" and all(
            one.lastgroup in ("text", "sigil") or one[0] == "," for one in tokens[number + 1 : number + 6]
        ):
            one, _, _, _, three = tokens[number + 1 : number + 6]
            if one.lastgroup == "text" and three.lastgroup in ("text", "sigil") and tokens[number + 7][0] == "[":
                found.append(Case(text_of(one), text_of(three), "match", "", "clojure.core"))
    for label in re.findall(
        r"0x([0-9A-F]{4})(?:\.\.0x([0-9A-F]{4}))?",
        source.partition("clojure_whitespace =")[2].partition("Enum.map(")[0],
    ):
        for code in range(int(label[0], 16), int(label[1] or label[0], 16) + 1):
            found.append(
                Case(f"string/whitespace-u{code:04x}-001", _white_space(source, code), "match", "", "clojure.string")
            )
    return found


def _white_space(source: str, code: int) -> str:
    body = re.search(r'~s"""\n(.*?)"""', source, re.DOTALL)
    assert body is not None, "the project generates cases of white space"
    return body[1].strip().replace("#{whitespace}", chr(code))


def difference(case: Case, ours: Outcome, theirs: str | None) -> str:
    lines = (
        f"{case.id} {case.divergence}: {case.form}",
        f"  here    {ours.shown or ours.error}",
        f"  Clojure {theirs}",
    )
    return "\n".join(lines)


def verdict(ours: Outcome, theirs: str | None) -> str:
    """Return how the two outcomes compare: `same`, `rounded`, `error`, `differs`, `only ours`, `only theirs`."""
    if theirs is None:
        return "error" if ours.shown is None else "only ours"
    if ours.shown is None:
        return "only theirs"
    from clojure import is_near, plain

    left, right = plain(ours.shown), plain(theirs)
    if left == right:
        return "same"
    return "rounded" if is_near(left, right) else "differs"


def main() -> None:
    from clojure import evaluated

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path, help="a checkout of the public project")
    parser.add_argument(
        "--all", action="store_true", help="show the differences of all cases, not only of those marked as matching"
    )
    options = parser.parse_args()
    found = cases((options.checkout / CASES).read_text(encoding="utf-8"))
    answers = evaluated([case.form for case in found])
    total: Counter[tuple[str, str]] = Counter()
    for case, theirs in zip(found, answers, strict=True):
        ours = evaluate(case.form)
        said = verdict(ours, theirs)
        group = case.policy + (" with Java" if case.has_java else "")
        total[group, said] += 1
        if said not in ("same", "rounded", "error") and (options.all or group == "match"):
            print(f"{said}: {difference(case, ours, theirs)}")
    for group in sorted({group for group, _ in total}):
        counts = {said: count for (one, said), count in sorted(total.items()) if one == group}
        agreed = sum(counts.get(said, 0) for said in ("same", "rounded", "error"))
        print(f"{group}: {agreed} of {sum(counts.values())} agree ({agreed / sum(counts.values()):.1%}); {counts}")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests/support"))
    main()
