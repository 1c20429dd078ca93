"""The tables: every state, what may happen in it, and what follows."""
