"""Properties that are computed when they are first read."""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["decoded_once"]

if TYPE_CHECKING:
    from functools import cached_property as decoded_once
else:

    class decoded_once:  # noqa: N801 - it stands for `cached_property`
        """A property that is computed when it is first read, without the lock that `cached_property` takes in Python 3.11.

        Two threads that read it at the same moment may both compute it; both get the same value.
        """

        def __init__(self, function):
            self.function = function
            self.name = function.__name__
            self.__doc__ = function.__doc__

        def __get__(self, instance, owner=None):
            if instance is None:
                return self
            value = self.function(instance)
            return instance.__dict__.setdefault(self.name, value)
