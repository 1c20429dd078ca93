"""Bytes in, bytes out, end of input, exit status, stderr: how Hackamore reaches a CLI."""
