"""Hostile and huge inputs: each ends soon, in little memory, with a problem that has a code, and never a traceback.

What a file makes `Program.load` do is measured in a child process of its own, under a limit of address space and of
processor time, so that a test that fails does not take the others with it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from sizes import size
from stepward.validator.analysis.graph import StepGraph
from stepward.vm.errors import ProgramError
from stepward.vm.language import loading
from stepward.vm.language.flow import Flow
from stepward.vm.language.program import Program

MEBIBYTES: Final = 512
SECONDS: Final = 5

SERVER: Final = """
import json, os, resource, sys
from stepward.vm.errors import ProgramError
from stepward.vm.language.program import Program

def load(path, mebibytes, seconds):
    resource.setrlimit(resource.RLIMIT_AS, (mebibytes << 20, mebibytes << 20))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds + 1, seconds + 2))
    try:
        Program.load(path)
    except ProgramError as error:
        str(error)
        said = [[problem.code, problem.message, problem.span is not None] for problem in error.problems]
    else:
        said = None
    used = resource.getrusage(resource.RUSAGE_SELF)
    peak = used.ru_maxrss
    try:  # ru_maxrss starts from what the parent held when it forked; the high-water mark is this program's own
        with open("/proc/self/status") as status:
            peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    except OSError:
        pass
    return {"said": said, "seconds": used.ru_utime + used.ru_stime, "mebibytes": peak / 1024}

for line in sys.stdin:
    path, mebibytes, seconds, out, err = json.loads(line)
    child = os.fork()
    if not child:
        os.dup2(os.open(err, os.O_WRONLY | os.O_CREAT), 2)
        found = load(path, mebibytes, seconds)
        with open(out, "w") as file:
            json.dump(found, file)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
"""Forks a child for each file: that is a process as small as a new one, without the time that the imports take."""


@dataclass(frozen=True)
class Outcome:
    """What became of a child: its problems, or None where the file was loaded."""

    said: list[list[Any]] | None
    seconds: float
    mebibytes: float


Load = Callable[..., Outcome]


@pytest.fixture(scope="module")
def server() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", SERVER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


@pytest.fixture
def load_in_child(server: subprocess.Popen[str], tmp_path: Path) -> Load:
    def load(path: Path | str, mebibytes: int = MEBIBYTES, seconds: int = SECONDS) -> Outcome:
        out, err = tmp_path / "out", tmp_path / "err"
        assert server.stdin is not None
        assert server.stdout is not None
        print(json.dumps([str(path), mebibytes, seconds, str(out), str(err)]), file=server.stdin, flush=True)
        status = int(server.stdout.readline())
        assert status == 0, f"the child ended by {status}:\n{err.read_text()[-2000:]}"
        assert err.read_text() == ""
        outcome = Outcome(**json.loads(out.read_text()))
        assert outcome.seconds <= seconds
        assert outcome.mebibytes <= mebibytes
        return outcome

    return load


def codes_of(outcome: Outcome) -> list[str]:
    """Return the codes of the problems of a file that must not load."""
    assert outcome.said, "the file was loaded"
    assert all(message for _, message, _ in outcome.said)
    return [code for code, _, _ in outcome.said]


DEEP: Final = 100_000


def bomb() -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30)]
    return "\n".join([*lines, "steps: *a29"])


HOSTILE: Final[dict[str, tuple[str, str, Callable[[], str | bytes]]]] = {
    "flow lists": ("p.yaml", "SW004", lambda: "steps: " + "[" * DEEP + "]" * DEEP),
    "flow mappings": ("p.yaml", "SW004", lambda: "{a: " * DEEP + "}" * DEEP),
    "flow lists never closed": ("p.yaml", "SW004", lambda: "[" * 10_000_000),
    "block lists": ("p.yaml", "SW004", lambda: "- " * DEEP + "x"),
    "block mappings": ("p.yaml", "SW004", lambda: "".join(" " * n + "a:\n" for n in range(3_000))),
    "complex keys": ("p.yaml", "SW001", lambda: "? " * DEEP),
    "JSON lists": ("p.json", "SW004", lambda: "[" * DEEP + "]" * DEEP),
    "JSON objects": ("p.json", "SW004", lambda: '{"a":' * DEEP + "1" + "}" * DEEP),
    "JSON lists never closed": ("p.json", "SW004", lambda: "[" * 10_000_000),
    "alias bomb": ("p.yaml", "SW004", bomb),
    "many aliases": ("p.yaml", "SW004", lambda: "a: &a {x: 1}\nsteps:\n" + "- *a\n" * 200_000),
    "invalid UTF-8": ("p.yaml", "SW001", lambda: b"name: \xff\xfe\n"),
    "invalid UTF-8 at the end": ("p.yaml", "SW001", lambda: b"# x\n" * 1_000_000 + b"\xc3"),
    "invalid UTF-8 in JSON": ("p.json", "SW001", lambda: b'{"name": "\xff"}'),
    "NUL": ("p.yaml", "SW001", lambda: "name: a\x00b\n"),
    "NUL in JSON": ("p.json", "SW001", lambda: '{"name": "a\x00b"}'),
    "nothing but NUL": ("p.yaml", "SW001", lambda: b"\x00" * 1_000_000),
    "nothing but NUL in JSON": ("p.json", "SW001", lambda: b"\x00" * 1_000_000),
    "a long integer": ("p.yaml", "SW004", lambda: "max_steps: " + "9" * 1_000_000),
    "a long integer in JSON": ("p.json", "SW004", lambda: '{"max_steps": ' + "9" * 1_000_000 + "}"),
    "a long based integer": ("p.yaml", "SW004", lambda: "name: 0x" + "f" * 1_000_000),
    "a long fraction": ("p.json", "SW004", lambda: '{"name": 1.' + "0" * 10_000_000 + "}"),
    "a huge exponent": ("p.json", "SW004", lambda: '{"name": 1e' + "9" * 40 + "}"),
    "a long integer as a key": ("p.yaml", "SW004", lambda: "9" * 100_000 + ": 1"),
    "half a character": ("p.json", "SW001", lambda: '{"name": "\\ud800"}'),
    "an empty file": ("p.yaml", "SW001", lambda: ""),
    "an empty file of JSON": ("p.json", "SW001", lambda: ""),
}


@pytest.mark.one_in(3)
@pytest.mark.slow
@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_file_is_refused_soon_and_in_words(case: str, load_in_child: Load, tmp_path: Path) -> None:
    name, code, content = HOSTILE[case]
    written = content()
    path = tmp_path / name
    path.write_bytes(written if isinstance(written, bytes) else written.encode())
    assert set(codes_of(load_in_child(path))) == {code}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["p.yaml", "p.json"])
def test_a_file_of_200_megabytes_is_not_read(load_in_child: Load, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with path.open("wb") as file:
        file.truncate(200_000_000)
    outcome = load_in_child(path, mebibytes=192, seconds=2)
    assert outcome.said is not None
    assert [code for code, _, _ in outcome.said] == ["SW004"]


@pytest.mark.slow
def test_a_device_without_end_is_not_read_to_its_end(load_in_child: Load) -> None:
    assert codes_of(load_in_child("/dev/zero")) == ["SW004"]


@pytest.mark.slow
def test_a_program_within_all_limits_loads_in_the_same_child(load_in_child: Load, tmp_path: Path) -> None:
    """The harness itself: were every file refused, the tests above would say nothing."""
    path = tmp_path / "p.yaml"
    path.write_text("steps:\n- {id: a, type: end}\n")
    assert load_in_child(path).said is None


@pytest.mark.slow
def test_a_child_that_runs_out_of_memory_fails_its_test(load_in_child: Load, tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("steps:\n" + "".join(f"- {{id: s{number}, type: end}}\n" for number in range(50_000)))
    with pytest.raises(AssertionError, match="the child ended by"):
        load_in_child(path, mebibytes=48)
    with pytest.raises(AssertionError):
        load_in_child(path, seconds=0)


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "field",
    [
        *("args", "prompt", "tool", "returns", "default", "unknown", "next_step", "id", "output"),
        "type",
        "guardrails",
    ],
)
def test_python_data_that_is_too_deep_is_refused(field: str) -> None:
    deep = nested(DEEP)
    steps: list[dict[str, Any]] = [{"id": "a", "type": "tool", "tool": "t"}]
    data: dict[str, Any] = {"steps": steps}
    if field == "args":
        steps[0]["args"] = {"x": deep}
    elif field == "output":
        steps[0] = {"id": "a", "type": "end", "output": deep}
    elif field == "prompt":
        steps[0] = {"id": "a", "type": "llm", "prompt": deep}
    elif field == "returns":
        data["tools"] = {"t": {"returns": deep}}
    elif field == "default":
        data["inputs"] = {"x": {"default": deep}}
    elif field in ("unknown", "guardrails"):
        data[field] = deep
    else:
        steps[0][field] = deep
    with pytest.raises(ProgramError) as caught:
        Program.from_dict(data)
    assert {problem.code for problem in caught.value.problems} <= {"SW002", "SW004"}


@pytest.mark.parametrize("key", ["items", "additionalProperties", "properties"])
def test_a_type_that_is_too_deep_is_refused(key: str) -> None:
    spec: Any = {}
    for _ in range(DEEP):
        spec = {key: {"x": spec} if key == "properties" else spec}
    with pytest.raises(ProgramError) as caught:
        Program.from_dict({"inputs": {"x": spec}, "steps": [{"id": "a", "type": "end"}]})
    assert {problem.code for problem in caught.value.problems} == {"SW004"}


# -- large, and right -----------------------------------------------------------------------------------------------

LARGE: Final = size(8_000, 100_000)
"""The usual number of steps."""


def chain(count: int = LARGE) -> dict[str, Any]:
    return {"steps": [{"id": f"s{number}", "type": "tool", "tool": "t"} for number in range(count)]}


def ladder(count: int = LARGE) -> dict[str, Any]:
    """Each condition goes on to the next, or round it by a step of its own."""
    steps: list[dict[str, Any]] = []
    rungs = count // 2
    for number in range(rungs):
        after = f"c{number + 1}" if number + 1 < rungs else "end"
        steps.append(
            {
                "id": f"c{number}",
                "type": "condition",
                "condition": f"$x > {number}",
                "then": f"t{number}",
                "otherwise": after,
            }
        )
        steps.append({"id": f"t{number}", "type": "tool", "tool": "t", "next_step": after})
    return {"steps": [*steps, {"id": "end", "type": "end"}]}


def long_condition() -> dict[str, Any]:
    terms = " or ".join(f"$x == {number} and not $y > {number}" for number in range(5_000))
    steps = [
        {"id": "c", "type": "condition", "condition": terms, "then": "e", "otherwise": "f"},
        {"id": "e", "type": "end"},
        {"id": "f", "type": "end"},
    ]
    return {"steps": steps}


def wide_parallel(count: int = LARGE) -> dict[str, Any]:
    parts = [{"id": f"p{number}", "type": "tool", "tool": "t", "args": {"n": number}} for number in range(count // 10)]
    return {"steps": [{"id": "all", "type": "parallel", "parallel_steps": parts}, {"id": "e", "type": "end"}]}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("build", "count"), [(chain, LARGE), (ladder, LARGE + 1), (long_condition, 3), (wide_parallel, 2)]
)
def test_a_large_program_has_a_flow(build: Callable[[], dict[str, Any]], count: int) -> None:
    program = Program.from_dict(build())
    flow = Flow(program)
    assert len(flow.transitions) == len(program.steps) == count
    assert StepGraph(flow).reachable == set(range(count))
    assert sum(map(len, flow.successors)) == sum(map(len, flow.predecessors))


@pytest.mark.one_in(2)
@pytest.mark.slow
@pytest.mark.parametrize("build", [chain, ladder, long_condition, wide_parallel])
def test_a_large_program_is_loaded_from_both_formats(build: Callable[[], dict[str, Any]], tmp_path: Path) -> None:
    data = build()
    program = Program.from_dict(data)
    for path in (tmp_path / "p.json", tmp_path / "p.yaml"):
        path.write_text(json.dumps(data))  # JSON is YAML, and quick to write
        assert Program.load(path) == program


@pytest.mark.one_in(3)
@pytest.mark.slow
@pytest.mark.parametrize("build", [chain, ladder, wide_parallel])
def test_a_large_program_of_json_loads_in_little_memory(
    build: Callable[[int], dict[str, Any]], load_in_child: Load, tmp_path: Path
) -> None:
    path = tmp_path / "p.json"
    path.write_text(json.dumps(build(100_000)))
    assert load_in_child(path, mebibytes=1024, seconds=20).said is None


def test_more_steps_than_the_limit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert loading.MAX_STEPS == 250_000
    monkeypatch.setattr(loading, "MAX_STEPS", 1_000)
    step = {"id": "s", "type": "tool", "tool": "t"}
    with pytest.raises(ProgramError, match="1,001 steps; 1,000 are the limit"):
        Program.from_dict({"steps": [step] * 1_001})
