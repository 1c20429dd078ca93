"""Threads, wake-ups and work off the event loop."""
