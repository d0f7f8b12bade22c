"""Says how far the examples of the public project ptc_runner compile here, or why they are refused.

    git clone https://github.com/andreasronge/ptc_runner DIR
    git -C DIR checkout b4246c638a152b2cdc9601b116d99a37aaf50941    # its files; or v0.13.0 for the blocks of its pages
    python benchmarks/lisp_examples.py DIR

It reads each `.clj` file and each block of Clojure in a page, compiles it, and prints how many compile and how many are
refused for which reason. A block that reads a name which another block of its page defines is compiled with that block
in front of it. Nothing of the project is kept here.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from stepward.vm import Program
from stepward.vm.errors import ProgramError

MOST_JOINED = 5
"""Blocks that are put in front of another one."""

_BLOCK = re.compile(r"^```(?:clojure|clj|lisp)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def examples(root: Path) -> Iterator[tuple[str, str]]:
    """Yield the kind and the text of each example."""
    for path in sorted(root.rglob("*.clj")):
        yield "files", path.read_text(encoding="utf-8")
    for path in sorted([*root.rglob("*.md"), *root.rglob("*.livemd")]):
        page = _BLOCK.findall(path.read_text(encoding="utf-8"))
        for block in page:
            yield "blocks", joined(block, page)


def joined(block: str, page: Sequence[str]) -> str:
    """Return a block behind those of its page that define the names which it reads and does not define."""
    text = block
    for _ in range(MOST_JOINED):
        try:
            Program.from_lisp(text)
        except ProgramError as error:
            missing = re.search(r"`([^`]*)` has no value", error.problems[0].message)
            name = re.escape(missing[1]) if missing else ""
            defining = (one for one in page if name and re.search(rf"\((?:def|defn|defonce) {name}[\s)]", one))
            other = next((one for one in defining if one not in text), None)
            if other is None:
                return text
            text = f"{other}\n{text}"
        else:
            return text
    return text


def main() -> None:
    """Compile all, and print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("checkout", type=Path)
    compiled: Counter[str] = Counter()
    refused: dict[str, Counter[str]] = {"files": Counter(), "blocks": Counter()}
    for kind, text in examples(parser.parse_args().checkout):
        try:
            Program.from_lisp(text)
            compiled[kind] += 1
        except ProgramError as error:
            refused[kind][re.sub("`[^`]*`", "`…`", error.problems[0].message)] += 1
    for kind, reasons in refused.items():
        print(f"{kind}: {compiled[kind]} compile, {reasons.total()} are refused")
        for reason, count in reasons.most_common():
            print(f"  {count:4} {reason}")


if __name__ == "__main__":
    main()
