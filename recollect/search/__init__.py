"""Search: what a query asks for, candidates, their ranking, and pages. Begin with `engine`."""
