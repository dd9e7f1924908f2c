"""Drafts of observations: stretches of a conversation, and what is worth quoting of them."""
