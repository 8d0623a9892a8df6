"""Analyse what probes can and cannot detect, with result rows to plot (CH-Wang et al. 2024, §6).

The analyses compare sublayers, types of error, data sets, model sizes, and lengths of the sources. Each analysis takes
the model, the data and an `AnalysisConfig`, and returns an `Analysis`.
"""

from veridical_lab.probes.analysis.context_length import analyse_context_length
from veridical_lab.probes.analysis.dataset import AnalysisConfig
from veridical_lab.probes.analysis.error_types import analyse_error_types
from veridical_lab.probes.analysis.layers import analyse_layers
from veridical_lab.probes.analysis.model_size import analyse_model_size
from veridical_lab.probes.analysis.results import Analysis
from veridical_lab.probes.analysis.transfer import analyse_transfer

__all__ = [
    "Analysis",
    "AnalysisConfig",
    "analyse_context_length",
    "analyse_error_types",
    "analyse_layers",
    "analyse_model_size",
    "analyse_transfer",
]
