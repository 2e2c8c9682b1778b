"""What is trained and how: every setting, the rows of the splits, one run of them, and its record."""
