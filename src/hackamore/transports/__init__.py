"""Bytes in, bytes out, end of input, exit status, stderr: how Bridle reaches a CLI."""
