"""Find out why cases failed: what the retriever, the prompt, the model or the documents did wrong.

Causes are found for each case and summarised for a run.
"""

from veridical.workflows.causes.finding import with_causes
from veridical.workflows.causes.summary import CauseReport, summarise_causes

__all__ = ["CauseReport", "summarise_causes", "with_causes"]
