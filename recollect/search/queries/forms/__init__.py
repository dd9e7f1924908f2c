"""Other forms in which a library may have the words of a query."""
