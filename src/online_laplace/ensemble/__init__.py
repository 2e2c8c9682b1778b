"""The one way from a model, rows and a plan to a trained ensemble."""
