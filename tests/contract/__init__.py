"""What the library promises, by id, and the tests that keep each promise: `behaviours.toml`, `shows`, and the checks of both."""

from tests.contract.shows import shows

__all__ = ["shows"]
