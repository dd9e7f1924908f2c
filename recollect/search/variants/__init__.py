"""Other searches: literal, FTS5 expressions, concepts, similar messages, other databases."""
