"""Words: stems, families, spellings, synonyms, and formats of numbers, dates and names."""
