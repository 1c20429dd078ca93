"""The version of the official package whose names these are."""

__version__ = "0.2.187"
