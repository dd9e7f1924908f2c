"""The full-text index of a library in SQLite, its vocabulary, and the queries that use them."""
