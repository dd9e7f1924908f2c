"""The candidates of a search: found by their words and by their meaning, then read."""
