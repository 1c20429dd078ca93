"""Modules of the official package that instrumentations and tests import, although they are private."""
