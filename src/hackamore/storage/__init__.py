"""How a thing is kept, and which process holds it: SQLite files that programs share, names of holders."""
