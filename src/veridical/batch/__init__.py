"""Check many rows with any detectors: files into a folder of results (`run`), or data frames in a notebook."""

from veridical.batch.frames import check_dataframe, check_rows
from veridical.batch.run import BatchSettings, run_batch

__all__ = ["BatchSettings", "check_dataframe", "check_rows", "run_batch"]
