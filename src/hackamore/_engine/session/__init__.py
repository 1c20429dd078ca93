"""The part of a session that both shells share and that never waits."""
