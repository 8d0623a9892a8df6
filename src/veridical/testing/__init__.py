"""Assertions for your tests: one for responses that must be grounded, one for detectors that must keep the contract."""

from veridical.testing.contract import CASES, assert_detector_contract
from veridical.testing.grounded import assert_grounded

__all__ = ["CASES", "assert_detector_contract", "assert_grounded"]
