"""What people do with detectors: check, check many rows, revise, find causes, measure, calibrate."""
