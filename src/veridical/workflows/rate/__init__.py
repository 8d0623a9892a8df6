"""Estimate the true rate of wrong answers in a run, which is a set of judged answers, from labels of a few answers.

This package chooses the answers to label, and computes the rate from the labels.
"""
