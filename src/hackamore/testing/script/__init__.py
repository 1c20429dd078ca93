"""Scripts: a conversation written once, for the simulated and the real CLI."""
