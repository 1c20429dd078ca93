"""Requests of the CLI: hooks, permissions, tools, dialogs. No clock, no IO."""
