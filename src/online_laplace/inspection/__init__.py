"""The page of a fitted model: a verdict in a sentence, then charts of what it does and how it came there."""
