"""Live capture: transcripts of coding agents, a recording proxy, and agent frameworks."""
