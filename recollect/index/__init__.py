"""Indexing: what is new in a library is sealed and embedded, in the background or on request."""
