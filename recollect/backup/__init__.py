"""Backups: incremental, verified, optionally encrypted copies of the libraries of a place.

A backup folder contains packs of chunks, which all backups share, and one manifest for each
backup. See docs/backup.md.
"""
