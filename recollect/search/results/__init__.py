"""From a ranking to a page: hits, snippets, remarks and variety."""
