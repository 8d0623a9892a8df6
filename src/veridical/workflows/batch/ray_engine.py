"""Judge the shards of a batch on Ray Data, in actors (long-lived worker processes) that load the detectors once.

The actors run on a cluster or on this machine. They read the input themselves, so every node must have it under the
same path. The calling process writes the results. If an actor dies, another one judges its shard again.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from typing import Any

from veridical.inference.telemetry import import_without_telemetry
from veridical.records.errors import CannotJudgeError, MissingExtraError
from veridical.workflows.batch.inputs import ShardRange
from veridical.workflows.batch.worker import ShardTexts, WorkerSettings, shard_texts


class ShardActor:
    """Judges shards (ranges of rows) in a worker process of Ray. Ray creates one instance per worker.

    The instance loads the detectors once, and is then called with one shard after another.
    """

    def __init__(self, work: WorkerSettings) -> None:
        self.work = work
        self.reader = work.reader()
        self.detectors = work.load()

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """Judge the shard with the fields `first` and `rows` of `row`. Return `first` and the fields of `ShardTexts`.

        This is called by Ray.
        """
        shard = ShardRange(int(row["first"]), int(row["rows"]))
        texts = shard_texts(self.reader, shard, self.detectors, self.work)
        return {
            "first": shard.first,
            "results": texts.results,
            "scores": texts.scores,
            "failed": texts.failed,
            "failures": texts.failures,
        }


def on_ray(
    shards: Sequence[ShardRange], work: WorkerSettings, workers: int, address: str | None = None
) -> Iterator[ShardTexts]:
    """Judge shards on Ray, and yield the lines to write for each shard, in the order of the shards.

    Args:
        shards: The shards to judge.
        work: The input files, detectors and options, which are sent to the actors.
        workers: How many actors to start.
        address: The Ray cluster, as "auto" or HOST:PORT. Default: $RAY_ADDRESS, or a new cluster on this machine.

    Raises:
        MissingExtraError: Ray is not installed.
        CannotJudgeError: The cluster cannot be reached, or an actor keeps failing.
    """
    try:
        ray = import_without_telemetry("ray")
    except ImportError:
        raise MissingExtraError("the engine ray", "ray") from None
    if not shards:
        return
    connects = not ray.is_initialized()
    try:
        if connects:
            own_cluster = address is None and "RAY_ADDRESS" not in os.environ
            options: dict[str, Any] = {"include_dashboard": False} if own_cluster else {"address": address}
            try:
                ray.init(log_to_driver=False, logging_level="ERROR", **options)
            except Exception as error:  # noqa: BLE001 - Ray raises nothing more specific where a node does not start
                raise CannotJudgeError(f"Ray did not start: {error}", hint="repeat the command to continue") from None
        # silence the log only after this line: it imports ray.data, which sets up its own log
        context = ray.data.DataContext.get_current()
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        context.enable_progress_bars = context.print_on_execution_start = False
        context.execution_options.preserve_order = True
        rows = [{"first": shard.first, "rows": shard.rows} for shard in shards]
        judged = ray.data.from_items(rows, override_num_blocks=len(rows)).map(
            ShardActor, fn_constructor_args=(work,), compute=ray.data.ActorPoolStrategy(size=workers)
        )
        for shard, row in zip(shards, judged.iter_rows(), strict=True):
            assert row["first"] == shard.first  # preserve_order
            yield ShardTexts(row["results"], row["scores"], row["failed"], int(row["failures"]))
    except ray.exceptions.RayError as error:
        lines = [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
        hint = "finished shards are kept: repeat the command to continue"
        raise CannotJudgeError(f"Ray: {lines[-1]}", hint=hint) from None
    finally:
        if connects:
            ray.shutdown()
