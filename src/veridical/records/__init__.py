"""The records that every part shares, and the contract of detectors. It imports nothing but itself."""
