"""Assertions for your tests: that a response is grounded in its sources, and that a detector follows the protocol."""

from veridical.testing.contract import CASES, assert_detector_contract
from veridical.testing.grounded import assert_grounded

__all__ = ["CASES", "assert_detector_contract", "assert_grounded"]
