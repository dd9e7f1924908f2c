"""The vectors of a library: queued in the database, stored and scanned in files.

A vector is stored as 8-bit integers and the scale that makes it a unit vector. Each space has two
files: one with the integers, row by row, and one with the attributes of the rows that filters need.
The files only grow, and are mapped into memory. A scan compares all rows with the query, or in
large spaces those that their signs choose (`signs.py`), and applies filters as it goes.

The table `vector` lists all vectors. New ones are stored in `new_vector` until they are in the
files, durably. Those up to the row `space.copied` are only in the files. If files are lost, the
passages of their rows are queued for embedding.

A third file has checksums of both (`space-1.checksums`; see `checksums.py`). Files that differ from
them are dropped, like lost ones.

Integers are written before the attributes. If the process is killed in between, the additional
integers are ignored and overwritten later.
"""
