"""What the servers of one installation share, and what is not a user's document."""
