"""The query language, and what kind of query a text is."""
