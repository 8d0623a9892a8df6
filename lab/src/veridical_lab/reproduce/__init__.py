"""Reproduce the tables and figures of the four papers, and show the papers' numbers beside ours.

For every table and data figure, a plan (`plans/PAPER.toml`) lists the commands of this program that reproduce it. One
version uses the paper's published data and models. The other uses data and models that you have.
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
