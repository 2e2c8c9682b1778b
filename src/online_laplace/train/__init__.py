"""Optimisers, procedures, the loop, outcomes and histories."""
