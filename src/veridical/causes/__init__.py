"""Why cases failed: what the retriever, the prompt, the model or the documents did wrong, by case and for a run."""

from veridical.causes.finding import with_causes
from veridical.causes.summary import CauseReport, summarise_causes

__all__ = ["CauseReport", "summarise_causes", "with_causes"]
