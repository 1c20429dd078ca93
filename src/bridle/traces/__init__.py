"""Traces as pages: what a recording or a conversation holds, as a static file or served while it grows, and two runs compared."""
