"""The core: everything that can be decided without waiting. No clock, no threads, no IO."""
