"""Connections to an SQLite file: those that read, the one that writes, and what reads share."""
