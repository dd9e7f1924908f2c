"""The periods that a text names: encoded words, rules, and what the rules mean."""
