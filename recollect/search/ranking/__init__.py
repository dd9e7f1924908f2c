"""The scores of candidates. All candidates of a pool are scored at once, as arrays."""
