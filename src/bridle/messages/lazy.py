"""Properties that are computed when they are first read, and those that decode a part of a message."""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["computed_once", "decoded_once"]

_WHEN = """

        Decoded when first read; the bytes that came are in `raw`, or in the attribute of this name with `_raw` at its end.

        Raises:
            DecodeError: if it is nested deeper than the interpreter's recursion limit allows at this place.
        """

if TYPE_CHECKING:
    from functools import cached_property as computed_once
    from functools import cached_property as decoded_once
else:

    class computed_once:  # noqa: N801 - it stands for `cached_property`
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

    class decoded_once(computed_once):  # noqa: N801
        """Such a property of bytes that are kept: its documentation says when they are decoded, and what that may raise."""

        def __init__(self, function):
            super().__init__(function)
            self.__doc__ = f"{function.__doc__}{_WHEN}"
