"""Predictive distributions, row by row, and how good they are."""
