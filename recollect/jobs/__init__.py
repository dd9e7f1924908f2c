"""What runs jobs: imports, indexing, scans and backups, in a server or in `recollect worker`."""
