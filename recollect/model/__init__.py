"""The values that flow through Recollect: frozen, without I/O."""
