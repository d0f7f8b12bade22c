"""A campaign on a Dask cluster of processes is the one of a single machine, also while workers die."""

from __future__ import annotations

import os
import pickle
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from click.testing import CliRunner

from paths import GOOD
from stepward.sabotage.campaign import Matrix, Orders, attack_program
from stepward.sabotage.campaigns import cluster as module
from stepward.sabotage.campaigns.cluster import ClusterRefused, ShardLost, play_beside
from stepward.sabotage.campaigns.shard import Shard
from stepward.sabotage.invariants import Outcome
from stepward.sabotage.target import Target
from stepward.validator.cli import main
from stepward.vm import Program

PROGRAM = Program.load(GOOD / "customer_refund.yaml")
ATTACKS = ("token-twice", "run-id-reused")
ORDERS = Orders(seed=5, examples=12, attacks=ATTACKS)


def counts(matrix: Matrix) -> dict[str, Any]:
    """What a matrix says but for seconds."""
    return {row.attack.name: (dict(row.outcomes), row.events, row.breach, row.misses, row.lost) for row in matrix.rows}


@pytest.fixture(scope="module")
def two_workers() -> Iterator[Any]:
    """A cluster of two processes on this machine, on the loopback interface.

    They are forks of one that has imported the library: each would take a second for that. The library sets variables
    in the environment of this process (`PYTHONHASHSEED`), which no later test shall hand on.
    """
    distributed = pytest.importorskip("distributed", reason="Dask is not installed: `pip install 'stepward[dask]'`")
    import dask

    with (
        patch.dict(os.environ),
        dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
        ) as cluster,
    ):
        yield cluster


def test_no_shard_starts_after_the_time(two_workers: Any) -> None:
    orders = Orders(seed=5, examples=12, attacks=ATTACKS, seconds=1e-9, dask=address(two_workers))
    matrix = attack_program(PROGRAM, orders=orders)
    assert (matrix.ran, matrix.lost) == (0, 0)
    assert matrix.left > 0


def test_a_worker_with_other_code_is_refused(two_workers: Any) -> None:
    data = Target(PROGRAM).to_data()
    with pytest.raises(ClusterRefused, match="has another version of Stepward") as caught:
        list(module.on_cluster(address(two_workers), data, ORDERS, [], None, "another"))
    assert "the same version" in caught.value.help


@pytest.mark.slow
def test_a_shard_whose_process_dies_each_time_is_not_run(two_workers: Any, tmp_path: Path) -> None:
    """Processes of shards die at their start, as those do for which a machine has no memory."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\nif 'stepward.sabotage.campaigns.beside' in sys.orig_argv: os._exit(9)\n"
    )
    there = f"import os; os.environ['PYTHONPATH'] = {str(tmp_path)!r}"
    from distributed import Client

    with Client(address(two_workers), set_as_default=False) as client:
        client.run(exec, there)
        try:
            orders = Orders(seed=5, examples=4, attacks=ATTACKS[:2], dask=address(two_workers))
            matrix = attack_program(PROGRAM, orders=orders)
        finally:
            client.run(exec, "import os; os.environ.pop('PYTHONPATH', None)")
    assert [row.outcome for row in matrix.rows] == [Outcome.NOT_RUN] * 2
    assert [row.why_not for row in matrix.rows] == ["the workers that played it died"] * 2
    assert (matrix.lost, matrix.left, matrix.ran, matrix.ok) == (2, 0, 0, True)


@pytest.mark.slow
def test_a_cluster_of_which_a_worker_is_killed_gives_the_matrix_of_one_machine(two_workers: Any) -> None:
    killed: list[int] = []

    def kill_one(shard: Shard, done: int, total: int) -> None:
        if not killed:
            killed.append(two_workers.workers[0].process.pid)
            os.kill(killed[0], signal.SIGKILL)

    alone = attack_program(PROGRAM, orders=ORDERS)
    matrix = attack_program(PROGRAM, orders=replace(ORDERS, dask=address(two_workers)), progress=kill_one)
    assert killed
    assert counts(matrix) == counts(alone)
    assert (matrix.left, matrix.lost) == (0, 0)


def test_the_process_of_a_shard_says_why_it_died() -> None:
    work = pickle.dumps((Target(PROGRAM).to_data(), Shard("no-such-attack", 0, 1, 5), ORDERS))
    with pytest.raises(ShardLost, match=r"(?s)ended with 1: .*KeyError"):
        play_beside(work)


@pytest.mark.parametrize("named", ["tcp://127.0.0.1:1", "nowhere", "tcp://"])
def test_a_cluster_that_is_not_there_is_told(named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed", reason="Dask is not installed: `pip install 'stepward[dask]'`")
    monkeypatch.setattr(module, "CONNECT_SECONDS", 1)
    with pytest.raises(ClusterRefused, match=f"there is no Dask scheduler at `{named}`"):
        attack_program(PROGRAM, orders=Orders(seed=5, examples=2, attacks=ATTACKS[:1], dask=named))


def test_a_library_that_is_missing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ClusterRefused, match="a Dask cluster needs a library") as caught:
        attack_program(PROGRAM, orders=Orders(seed=5, examples=2, attacks=ATTACKS[:1], dask="tcp://127.0.0.1:1"))
    assert "stepward[dask]" in caught.value.help


def address(cluster: Any) -> str:
    return str(cluster.scheduler_address)


def test_a_command_says_what_is_wrong_with_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    file = str(GOOD / "customer_refund.yaml")
    result = CliRunner().invoke(main, ["sabotage", file, "--isolated", "--dask", "tcp://127.0.0.1:1"])
    assert result.exit_code == 2
    assert "error: a Dask cluster needs a library that is missing" in result.stderr
    assert "stepward[dask]" in result.stderr
    for more in (["--workers", "2"], ["--call-real-tools", "--tools", "x.py"]):
        assert "--dask" in CliRunner().invoke(main, ["sabotage", file, "--dask", "tcp://127.0.0.1:1", *more]).stderr
