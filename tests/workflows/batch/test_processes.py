"""Worker processes of a batch that end too soon."""

from __future__ import annotations

import multiprocessing
import os
import struct

import pytest

from veridical.records.errors import CannotJudgeError
from veridical.workflows.batch.processes import _exchange


@pytest.mark.parametrize("written", [b"", struct.pack("!i", 1_000_000) + b"half of a result"])
def test_a_worker_that_ends_while_it_writes_is_not_waited_for(written: bytes) -> None:
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    os.write(theirs.fileno(), written)
    theirs.close()
    with pytest.raises(CannotJudgeError, match="a worker process ended"):
        _exchange(ours.recv)
    with pytest.raises(CannotJudgeError, match="a worker process ended"):
        _exchange(ours.send, "the next shard")
    ours.close()
