"""The protocol, run on tables."""
