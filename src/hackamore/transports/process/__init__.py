"""The CLI as a local child process."""
