"""Find out why cases failed, and whether to blame the retriever, the prompt, the model or the documents.

`with_causes` finds the cause of each case, and `summarise_causes` counts the causes of a run.
"""

from veridical.workflows.causes.finding import with_causes
from veridical.workflows.causes.summary import CauseReport, summarise_causes

__all__ = ["CauseReport", "summarise_causes", "with_causes"]
