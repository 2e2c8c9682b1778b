"""Where results are kept, which code made them, and how they are read again."""
