"""Anyone's table: reading it, turning its columns into features, and a model that remembers how."""
