"""Evaluates hostile Lisp programs and prints what became of each, and the most memory that was taken over the start."""

from __future__ import annotations

import json
import resource
import sys
from collections import Counter

from hostile_lisp import programs
from stepward.vm.lisp import Limits, evaluate


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main(steps: int, every: int) -> None:
    evaluate('(re-find #"a" (format "%s %.2f" (sqrt 2) 1.5)) (json/parse-string "1") (unknown)')
    start = _peak()
    limits = Limits(steps=steps, seconds=600)
    found: Counter[str] = Counter()
    without = []
    for program in programs()[::every]:
        outcome = evaluate(program, limits=limits)
        found[outcome.error.reason if outcome.error is not None else "none"] += 1
        if outcome.error is None:
            without.append(program[:200])
    print(json.dumps({"reasons": found, "without": without, "grown": _peak() - start}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
