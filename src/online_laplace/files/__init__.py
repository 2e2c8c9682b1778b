"""Files: written whole or not at all, and never over what is not ours. Anybody may import this room."""
