"""Clojure as an oracle: evaluates many expressions in one process, and compares its values with ours."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from stepward.vm.lisp.faults import Fault
from stepward.vm.lisp.forms import Braces, Brackets, Literal, Members, Parens, Pattern, Quoted, Symbol
from stepward.vm.lisp.reader import read
from stepward.vm.lisp.values import Keyword

_RUNNER = """
(require 'clojure.string 'clojure.set 'clojure.walk)
(create-ns 'prelude)
(defn fresh []
  (let [n (create-ns (gensym "user"))]
    (binding [*ns* n]
      (clojure.core/refer 'clojure.core)
      (alias 'str 'clojure.string) (alias 'set 'clojure.set) (alias 'walk 'clojure.walk)
      (doseq [known (keys (ns-publics 'prelude))] (ns-unmap n known))
      (clojure.core/refer 'prelude))
    n))
(binding [*ns* (find-ns 'prelude)]
  (clojure.core/refer 'clojure.core)
  (load-file (second *command-line-args*)))
(doseq [source (read-string (slurp (first *command-line-args*)))]
  (println
    (try
      (binding [*ns* (fresh) *print-length* 500]
        (let [value (eval (read-string (str "(do " source "\\n)")))]
          (str "value " (pr-str (binding [*print-length* 500] (pr-str value))))))
      (catch Throwable t (str "error " (.getSimpleName (class t)))))))
(shutdown-agents)
(System/exit 0)
"""

_SHORT = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""For a virtual machine that lives for seconds: its second compiler and its threads take longer than they save."""


def has_clojure() -> bool:
    """Return whether the command `clojure` of Debian's package is there."""
    return shutil.which("clojure") is not None


def evaluated(expressions: list[str], seconds: int = 120, prelude: str = "") -> list[str | None]:
    """Return what Clojure gives for each expression, as `pr-str` writes it; None for an error.

    `prelude` is evaluated once; each expression is in a namespace of its own that knows what it defines.
    """
    with tempfile.TemporaryDirectory() as folder:
        runner, sources, before = Path(folder, "runner.clj"), Path(folder, "sources.edn"), Path(folder, "prelude.clj")
        runner.write_text(_RUNNER)
        before.write_text(prelude, encoding="utf-8")
        quoted = ('"' + one.replace("\\", "\\\\").replace('"', '\\"') + '"' for one in expressions)
        sources.write_text("[" + "\n".join(quoted) + "]", encoding="utf-8")
        command = ["clojure", str(runner), str(sources), str(before)]
        done = subprocess.run(
            command, capture_output=True, encoding="utf-8", timeout=seconds, check=True, env=os.environ | _SHORT
        )
    lines = [line for line in done.stdout.split("\n") if line.startswith(("value ", "error "))]
    assert len(lines) == len(expressions), f"{len(lines)} answers for {len(expressions)} expressions: {done.stderr}"
    return [_unquoted(line[6:]) if line.startswith("value ") else None for line in lines]


def _unquoted(literal: str) -> str:
    (form,) = read(literal)
    assert isinstance(form, Literal)
    return str(form.value)


def plain(shown: str) -> Any:
    """Return a written value as what can be compared: sequences are alike, sets have no order, numbers are exact.

    Ratios and doubles become what our numbers are; a double that is whole is an integer.
    """
    cleaned = shown.replace("##Inf", '"##Inf"').replace("##-Inf", '"##-Inf"').replace("##NaN", '"##NaN"')
    try:
        (form,) = read(cleaned)
    except (Fault, ValueError):
        return _opaque(shown)
    return _plain(form)


def _opaque(shown: str) -> Any:
    try:
        return ("number", Fraction(shown))
    except ValueError:
        return ("text", shown)


def _plain(form: Any) -> Any:
    match form:
        case Literal(value=bool() as value):
            return ("boolean", value)
        case Literal(value=int() | Decimal() as value):
            return ("number", Fraction(value))
        case Literal(value=Keyword() as value):
            return ("keyword", value.name)
        case Literal(value=value):
            return ("text", value) if value is not None else None
        case Parens(items=items) | Brackets(items=items):
            return ("sequence", tuple(map(_plain, items)))
        case Members(items=items):
            return ("set", frozenset(map(_plain, items)))
        case Braces(items=items):
            plains = list(map(_plain, items))
            return ("map", frozenset(zip(plains[::2], plains[1::2], strict=True)))
        case Symbol(name=name):
            return ("symbol", name.rpartition("/")[2])
        case Pattern(source=source):
            return ("pattern", source)
        case Quoted(form=quoted):
            return _plain(quoted)
        case _:
            raise AssertionError(form)


def is_near(left: Any, right: Any) -> bool:
    """Return whether two plain values are equal but for the rounding of doubles."""
    if isinstance(left, tuple) and isinstance(right, tuple) and len(left) == len(right):
        if left[:1] == right[:1] == ("number",):
            return abs(left[1] - right[1]) <= Fraction(1, 10**12) * max(abs(left[1]), 1)
        return all(is_near(a, b) for a, b in zip(left, right, strict=True))
    return bool(left == right)
