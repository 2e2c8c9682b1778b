"""The Gaussian over weights and what it predicts."""
