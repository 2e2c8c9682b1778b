"""Priors over the weights and the updates of their precisions."""
