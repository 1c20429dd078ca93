"""Things in an order: what comes first is known without a look at the others."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

T = TypeVar("T")


class Row(Generic[T]):
    """Things in the order of their `keys`, of which no two are equal."""

    def __init__(self) -> None:
        self.keys: list[tuple[Any, ...]] = []
        self._things: dict[tuple[Any, ...], T] = {}
        self._places: dict[T, tuple[Any, ...]] = {}

    def __len__(self) -> int:
        return len(self.keys)

    def __iter__(self) -> Iterator[T]:
        return (self._things[key] for key in self.keys)

    def __contains__(self, thing: T) -> bool:
        return thing in self._places

    def __getitem__(self, place: int) -> T:
        return self._things[self.keys[place]]

    def put(self, thing: T, key: tuple[Any, ...] | None) -> None:
        """Bring a thing to the place of a key; None takes it out."""
        before = self._places.get(thing)
        if before == key:
            return
        if before is not None:
            del self._places[thing], self._things[before], self.keys[bisect_left(self.keys, before)]
        if key is not None:
            self._places[thing], self._things[key] = key, thing
            insort(self.keys, key)
