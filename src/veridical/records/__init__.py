"""The records that all parts share, and the contract of detectors. This package imports no other part of Veridical."""
