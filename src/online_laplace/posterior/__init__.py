"""The Gaussian over weights, what it predicts, and how good that is."""
