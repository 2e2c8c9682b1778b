"""Models in folders: what is written, how it is checked, and how it becomes an estimator again."""
