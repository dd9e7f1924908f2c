"""Functions on text: cleaning, languages, queries, dates, chunking and transcripts."""
