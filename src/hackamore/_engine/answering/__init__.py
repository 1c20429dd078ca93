"""Requests of the CLI: hooks, permissions, tools, dialogs. No clock, no IO: the shells run what is to be called."""
