"""What happens live becomes conversations: the chats that a program has with a model through this server."""
