"""What other programs call: tools for any MCP client, on the standard streams of a program."""
