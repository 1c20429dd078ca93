"""Serve tools to any MCP client, on the standard streams of a program."""
