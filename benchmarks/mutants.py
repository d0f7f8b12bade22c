"""How much of the machine the attacks watch: random mistakes are put into it, one at a time, and it is attacked.

`python benchmarks/mutants.py --mutants 100 --seed 1`. A mistake is a comparison turned, a condition negated, `and` for
`or`, a sum turned, a call or an error left out. The campaign knows nothing of it. What survives is printed, to be read:
a mistake that changes nothing, one in words or speed only, or a defence that no attack watches.
"""

from __future__ import annotations

import argparse
import ast
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
FILES: Final = (
    *(
        f"vm/machine/{name}.py"
        for name in ("apply", "ask", "calls", "data", "decide", "deliveries", "driver", "execution")
    ),
    "vm/language/automata.py",
    *(f"vm/machine/{name}.py" for name in ("history", "keys", "monitors", "replay", "runs", "state", "tools")),
    *(
        f"vm/journal/{name}.py"
        for name in ("chain", "memory", "records", "sealing", "verify", "sqlite", "sqlite_vault")
    ),
)
"""What an attacker has to get past. The language below it has tests of its own."""

SECONDS: Final = 300
TURNED: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}

EVERY: Final[dict[str, Any]] = {
    "name": "every",
    "inputs": {
        "amount": {"type": "integer", "minimum": 0, "maximum": 9},
        "card": {"type": "string", "sensitive": True},
        "notes": {"type": "object", "default": {}, "additionalProperties": {"type": "string", "sensitive": True}},
    },
    "tools": {
        "look": {"effect": "read", "args": {}, "returns": {"type": "integer"}},
        "know": {
            "effect": "read",
            "args": {},
            "returns": {
                "type": "object",
                "sensitive": True,
                "properties": {"pin": {"type": "string"}},
                "required": ["pin"],
            },
        },
        "try": {
            "effect": "read",
            "args": {"pin": {"type": "string"}},
            "returns": {"type": "string", "sensitive": True},
        },
        "ask": {
            "effect": "none",
            "args": {"card": {"type": "string"}},
            "returns": {"enum": ["yes", "no"]},
            "suspends": True,
        },
        "pay": {
            "effect": "write",
            "idempotent": False,
            "args": {"amount": {"type": "integer"}},
            "returns": {"type": "string"},
        },
        "book": {"effect": "write", "idempotent": True, "args": {"text": {}}, "returns": {"type": "object"}},
    },
    "guardrails": [
        {"name": "asked", "protects": {"tool": "pay"}, "requires": {"step": "agreed", "branch": "then"}},
        {"name": "once", "at_most_once": {"step": "pay"}},
        {"name": "small", "never": {"tool": "pay"}, "when": "$args.amount > 9"},
        {"name": "told", "followed_by": {"first": {"tool": "pay"}, "then": {"step": "mail"}}, "ends": "any"},
        {"name": "tried", "followed_by": {"first": {"step": "know"}, "then": {"tool": "pay"}}},
        {"name": "unlucky", "never": {"step": "count"}, "when": "$stock == 13"},
    ],
    "max_steps": 40,
    "max_tokens": 200,
    "max_stalled_steps": 6,
    "steps": [
        {"id": "look", "type": "tool", "tool": "look", "output_key": "stock", "on_error": "retry", "max_retries": 2},
        {"id": "know", "type": "tool", "tool": "know", "output_key": "person"},
        {"id": "try", "type": "tool", "tool": "try", "args": {"pin": "$person.pin"}, "on_error": "skip"},
        {
            "id": "judge",
            "type": "llm",
            "prompt": "Pay $amount?",
            "allowed_outputs": ["yes", "no"],
            "timeout_seconds": 9,
            "on_timeout": "fallback",
            "fallback": "no",
            "output_key": "said",
        },
        {"id": "ask", "type": "tool", "tool": "ask", "args": {"card": "$card"}, "output_key": "answer"},
        {
            "id": "agreed",
            "type": "condition",
            "condition": '$answer == "yes" and $said == "yes" and $stock >= $amount',
            "then": "pay",
            "otherwise": "refuse",
        },
        {
            "id": "pay",
            "type": "tool",
            "tool": "pay",
            "args": {"amount": "$amount"},
            "output_key": "paid",
            "timeout_seconds": 5,
            "error_step": "refuse",
            "next_step": "both",
        },
        {
            "id": "both",
            "type": "parallel",
            "parallel_steps": [
                {"id": "book", "type": "tool", "tool": "book", "args": {"text": "paid $paid"}, "on_error": "retry"},
                {"id": "again", "type": "tool", "tool": "look", "on_error": "skip"},
            ],
            "on_error": "retry",
            "max_retries": 2,
            "max_visits": 2,
            "next_step": "tell",
        },
        {
            "id": "tell",
            "type": "parallel",
            "parallel_steps": [
                {"id": "mail", "type": "tool", "tool": "book", "args": {"text": "paid"}},
                {"id": "note", "type": "llm", "prompt": "Note that $amount was paid"},
            ],
            "max_concurrency": 1,
            "on_error": "skip",
            "output_key": "told",
            "next_step": "count",
        },
        {"id": "count", "type": "set", "set": {"stock": "$stock - 1"}, "max_visits": 2, "next_step": "more"},
        {"id": "more", "type": "condition", "condition": "$stock > 7", "then": "both", "otherwise": "done"},
        {
            "id": "refuse",
            "type": "tool",
            "tool": "book",
            "args": {"text": "no"},
            "outcome": "failure",
            "is_terminal": True,
        },
        {"id": "done", "type": "end", "output": {"paid": "$paid"}},
    ],
}


class Mutant(NamedTuple):
    """One mistake: the file, the line, what it does, and the text of the file with it."""

    file: str
    line: int
    what: str
    text: str


def main(arguments: Sequence[str] | None = None) -> None:
    """Make mutants, attack each, and say which survive."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutants", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--examples", type=int, default=30)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.child:
        sys.exit(attacked(options.examples))
    chosen = Random(options.seed).sample(list(mutants()), options.mutants)
    found: Counter[str] = Counter()
    with ThreadPoolExecutor(options.jobs) as pool:
        for mutant, (verdict, detail) in zip(
            chosen, pool.map(lambda one: judged(one, options.examples), chosen), strict=True
        ):
            found[verdict] += 1
            if verdict != "breached":
                print(f"{verdict}: {mutant.file}:{mutant.line}: {mutant.what}{detail}", flush=True)
    print(", ".join(f"{count} {verdict}" for verdict, count in sorted(found.items())))


# -- mistakes ----------------------------------------------------------------------------------------------------------


def mutants() -> Iterator[Mutant]:
    """Yield every mistake that can be made in the files, in order."""
    for file in FILES:
        text = (ROOT / file).read_text(encoding="utf-8")
        count = sum(1 for _ in places(ast.parse(text)))
        for number in range(count):
            tree = ast.parse(text)
            node, what = list(places(tree))[number]
            change(node, what)
            yield Mutant(file, node.lineno, f"{what}: {text.splitlines()[node.lineno - 1].strip()}", ast.unparse(tree))


def places(tree: ast.AST) -> Iterator[tuple[Any, str]]:
    """Yield the nodes in which a mistake can be made, and which."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and type(node.ops[0]) in TURNED:
            yield node, "a comparison is turned"
        elif isinstance(node, ast.If | ast.IfExp):
            yield node, "a condition is negated"
        elif isinstance(node, ast.BoolOp):
            yield node, "`and` and `or` are swapped"
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call | ast.Await):
            yield node, "a call is left out"
        elif isinstance(node, ast.Raise) and node.exc is not None:
            yield node, "an error is not raised"
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
            yield node, "a sum is turned"


def change(node: Any, what: str) -> None:
    """Make a mistake in a node, in place."""
    if what == "a comparison is turned":
        node.ops[0] = TURNED[type(node.ops[0])]()
    elif what == "a condition is negated":
        node.test = ast.UnaryOp(ast.Not(), node.test)
    elif what == "`and` and `or` are swapped":
        node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    elif what == "a call is left out":
        node.value = ast.Constant(None)
    elif what == "a sum is turned":
        node.op = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
    else:
        assert isinstance(node, ast.Raise), "there is no other mistake"
        node.__class__ = ast.Expr
        node._fields = ("value",)
        node.value = ast.Constant(None)


# -- attacks -----------------------------------------------------------------------------------------------------------


def judged(mutant: Mutant, examples: int) -> tuple[str, str]:
    """Attack a copy of the package with the mistake in it; return what became of it."""
    with tempfile.TemporaryDirectory() as folder:
        for package in ("vm", "sabotage"):
            shutil.copytree(
                ROOT / package, Path(folder, "stepward", package), ignore=shutil.ignore_patterns("__pycache__")
            )
        Path(folder, "stepward", mutant.file).write_text(mutant.text, encoding="utf-8")
        command = [sys.executable, __file__, "--child", "yes", "--examples", str(examples)]
        environment = {**os.environ, "PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False, cwd=folder
            )
        except subprocess.TimeoutExpired:
            return "hung", ""
    if done.returncode == 1 and "BREACH" in done.stdout:
        return "breached", ""
    if done.returncode:
        return "broken", f" ({done.stderr.strip().splitlines()[-1][:120] if done.stderr.strip() else ''})"
    return "survived", ""


def attacked(examples: int) -> int:
    """Attack until something breaks; return 1 when it did."""
    from stepward.sabotage.campaign import Orders, attack_program
    from stepward.sabotage.registry import ATTACKS
    from stepward.vm import Program

    program = Program.from_dict(EVERY)
    for attack in ATTACKS:
        matrix = attack_program(program, (), Orders(examples=examples, attacks=(attack.name,)))
        if matrix.breaches:
            print(f"BREACH {attack.name}: {matrix.breaches[0].what}")
            return 1
    return 0


if __name__ == "__main__":
    main()
