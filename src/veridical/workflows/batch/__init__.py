"""Check many rows with any detectors: from files into a folder of results (`run`), or in data frames (`frames`)."""

from veridical.workflows.batch.frames import check_dataframe, check_rows
from veridical.workflows.batch.run import BatchSettings, run_batch

__all__ = ["BatchSettings", "check_dataframe", "check_rows", "run_batch"]
