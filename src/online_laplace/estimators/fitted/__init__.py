"""What was fitted, as a thing that predicts: users' rows in, users' units out."""
