"""For tests: that a response of an application is grounded, and that a detector keeps the contract."""

from veridical.testing.contract import CASES, assert_detector_contract
from veridical.testing.grounded import assert_grounded

__all__ = ["CASES", "assert_detector_contract", "assert_grounded"]
