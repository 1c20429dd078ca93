"""Fields, values and functions that are checked when they are built."""
