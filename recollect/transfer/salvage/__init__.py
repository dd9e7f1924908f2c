"""Rescue what can be read from a damaged SQLite library.

SQLite gives up where a b-tree is broken. This package does not use SQLite to read: it looks at
every page of the file by itself, recognises the rows of documents and messages by their shape, and
checks messages against their digests. So a message is lost only if its own bytes are.

The file format is described at https://www.sqlite.org/fileformat2.html.
"""
