"""Rerun the tables and figures of the four papers, and show the papers' figures beside ours.

A plan (`plans/PAPER.toml`) names, for every table and data figure, the commands of this program that make it: once with
the paper's published data and models, once with data and models at hand.
"""

from veridical_lab.reproduce.plan import PAPERS, Exhibit, Plan, Version, load_plan
from veridical_lab.reproduce.running import Reproduction, Setting, reproduce, run_command

__all__ = [
    "PAPERS",
    "Exhibit",
    "Plan",
    "Reproduction",
    "Setting",
    "Version",
    "load_plan",
    "reproduce",
    "run_command",
]
