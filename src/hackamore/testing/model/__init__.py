"""The scripted model: a Messages API for the real CLI."""
