"""Remove secrets from text: API keys, tokens, passwords and private keys."""
