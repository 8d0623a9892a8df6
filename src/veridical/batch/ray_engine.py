"""The shards of a batch on Ray Data: actors that have loaded the detectors once, on a cluster or on this machine.

The actors read the input themselves, so that every node must have it under the same path. The process that called
writes the results. A shard of an actor that ends is judged again by another one.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from typing import Any

from veridical.batch.inputs import ShardRange
from veridical.batch.worker import ShardTexts, WorkerSettings, shard_texts
from veridical.core.errors import CannotJudgeError, MissingExtraError
from veridical.core.telemetry import import_without_telemetry

__all__ = ["ShardActor", "on_ray"]


class ShardActor:
    """Judges shards; Ray makes one per worker."""

    def __init__(self, work: WorkerSettings) -> None:
        self.work = work
        self.reader = work.reader()
        self.detectors = work.load()

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """The texts of the shard that `row` describes."""
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
    """The texts of each shard, in their order.

    Args:
        shards: The shards.
        work: What the actors read and how they judge.
        workers: How many actors.
        address: The cluster: "auto" or HOST:PORT; None: $RAY_ADDRESS, else one on this machine, for this call.

    Raises:
        MissingExtraError: Without Ray.
        CannotJudgeError: The cluster cannot be reached, or an actor fails again and again.
    """
    try:
        ray = import_without_telemetry("ray")
    except ImportError:
        raise MissingExtraError("the engine ray", "ray") from None
    if not shards:
        return
    begun = not ray.is_initialized()
    try:
        if begun:
            begins_own = address is None and "RAY_ADDRESS" not in os.environ
            options: dict[str, Any] = {"include_dashboard": False} if begins_own else {"address": address}
            try:
                ray.init(log_to_driver=False, logging_level="ERROR", **options)
            except Exception as error:  # noqa: BLE001 - Ray raises nothing more specific where a node does not start
                raise CannotJudgeError(f"Ray did not start: {error}", hint="the same command goes on") from None
        context = ray.data.DataContext.get_current()  # this imports ray.data, which sets up its own log
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        context.enable_progress_bars = context.print_on_execution_start = False
        context.execution_options.preserve_order = True
        rows = [{"first": shard.first, "rows": shard.rows} for shard in shards]
        judged = ray.data.from_items(rows, override_num_blocks=len(rows)).map(
            ShardActor, fn_constructor_args=(work,), compute=ray.data.ActorPoolStrategy(size=workers)
        )
        for shard, row in zip(shards, judged.iter_rows(), strict=True):
            assert row["first"] == shard.first  # the order is kept
            yield ShardTexts(row["results"], row["scores"], row["failed"], int(row["failures"]))
    except ray.exceptions.RayError as error:
        lines = [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
        raise CannotJudgeError(f"Ray: {lines[-1]}", hint="finished shards are kept: the same command goes on") from None
    finally:
        if begun:
            ray.shutdown()
