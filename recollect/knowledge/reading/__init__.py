"""Reading items within a budget."""
