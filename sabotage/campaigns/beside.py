"""A process beside a worker of a cluster: it plays one shard, and ends."""

from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path

from stepward.sabotage.campaign import play_in_worker
from stepward.vm.errors import StepwardError


def main(file: str) -> None:
    """Play the shard that standard input describes, and write its result, or the error of the campaign, into a file."""
    data, shard, orders = pickle.load(sys.stdin.buffer)
    answer: tuple[str, object]
    try:
        answer = ("result", play_in_worker(data, shard, orders))
    except StepwardError as error:
        answer = ("error", error)
    Path(f"{file}.new").write_bytes(pickle.dumps(answer))
    os.replace(f"{file}.new", file)


if __name__ == "__main__":
    main(sys.argv[1])
