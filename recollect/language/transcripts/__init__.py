"""Transcripts of recordings: cues, the formats that are read, and those that are written."""
