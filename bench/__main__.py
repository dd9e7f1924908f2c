"""The two benchmarks of `make bench`: a library, and the start of the stdio server."""

from __future__ import annotations

from bench import library, mcp_start

if __name__ == "__main__":
    print("## Importing and searching\n")
    library.main()
    print("\n## Starting the stdio server\n")
    mcp_start.main()
