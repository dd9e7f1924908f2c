"""What a query asks for in a library: its terms, their corrections, its meaning and its filter."""
