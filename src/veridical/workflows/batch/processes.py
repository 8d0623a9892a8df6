"""Judge the shards of a batch in several worker processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from veridical.records.errors import CannotJudgeError
from veridical.workflows.batch.inputs import ShardRange
from veridical.workflows.batch.worker import ShardTexts, WorkerSettings, shard_texts

_IN_HAND = 2  # shards that each worker has at a time: one to judge, and the next
_AHEAD = 4  # shards per worker that may be handed out while the oldest one is not finished


def in_processes(shards: Sequence[ShardRange], work: WorkerSettings, workers: int) -> Iterator[ShardTexts]:
    """Judge shards (ranges of rows) in worker processes, and yield the lines to write for each shard, in order.

    Each worker loads the detectors once. Each worker also has a pipe of its own, which closes if the worker is killed,
    even halfway through a result. (With the shared queue of a `ProcessPoolExecutor`, the parent would wait forever for
    the other half.)

    Args:
        shards: The shards to judge.
        work: The input files, detectors and options, which are sent to the processes.
        workers: How many processes to start, at most one for each shard.

    Raises:
        CannotJudgeError: A worker process ended, for example because it was killed or out of memory.
    """
    context = multiprocessing.get_context("spawn")
    pipes: list[Connection] = []
    processes: list[BaseProcess] = []
    try:
        for _ in range(min(workers, len(shards))):
            ours, theirs = context.Pipe()
            pipes.append(ours)
            processes.append(context.Process(target=_judge_shards, args=(theirs, work, workers), daemon=True))
            processes[-1].start()
            theirs.close()
        in_hand: list[deque[int]] = [deque() for _ in pipes]  # the shards that each worker has, by index
        results: dict[int, ShardTexts | Exception] = {}
        sent = 0
        for i in range(len(shards)):
            while i not in results:
                for count in range(_IN_HAND):
                    for pipe, indices in zip(pipes, in_hand, strict=True):
                        if len(indices) <= count and sent < min(len(shards), i + _AHEAD * len(pipes)):
                            _exchange(pipe.send, shards[sent])
                            indices.append(sent)
                            sent += 1
                ready = wait(pipes)
                for pipe, indices in zip(pipes, in_hand, strict=True):
                    if pipe in ready:
                        result = _exchange(pipe.recv)
                        results[indices.popleft()] = result
            result = results.pop(i)
            if isinstance(result, Exception):
                raise result
            yield result
    finally:
        for pipe in pipes:
            pipe.close()
        for process in processes:
            process.terminate()
            process.join()


def _exchange(call: Callable[..., Any], *arguments: object) -> Any:
    """Send or receive through a pipe, or raise `CannotJudgeError` if the worker at its other end has ended."""
    try:
        return call(*arguments)
    except (EOFError, OSError):
        raise CannotJudgeError(
            "a worker process ended (killed, or out of memory)",
            hint="finished shards are kept: repeat the command to continue; fewer --workers take less memory",
        ) from None


def _judge_shards(pipe: Connection, work: WorkerSettings, workers: int) -> None:
    """Judge the shards that come through the pipe, and send back the lines or the error of each.

    The process ends when its parent ends, and uses only its share of the processors.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // workers)))
    reader, detectors = work.reader(), work.load()
    while True:
        try:
            shard = pipe.recv()
        except EOFError:
            return
        try:
            result: ShardTexts | Exception = shard_texts(reader, shard, detectors, work)
        except Exception as error:  # noqa: BLE001 - raised again in the parent
            result = error
        pipe.send(result)


def _end_with_parent() -> None:
    """Wait until the parent process ends or is killed, then end this process."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
