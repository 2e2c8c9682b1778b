"""A pool of candidates, trained without a fold of the rows in turn, and weighted by what they say of it."""
