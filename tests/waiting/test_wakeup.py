"""A flag that is closed by one thread while another raises it."""

from __future__ import annotations

import os
import threading

import pytest

from bridle.waiting.threads import Wakeup


def test_what_is_written_never_goes_to_whoever_has_the_descriptor_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """The eight bytes of a flag in the pipe in which `Popen` waits for the error of a start made that wait for ever."""
    wakeup = Wakeup()
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    write = os.write
    closer = threading.Thread(target=wakeup.close)
    others: list[int] = []

    def interrupted_write(descriptor: int, data: bytes) -> int:
        closer.start()
        closer.join(0.3)
        others.append(os.dup(writing))  # the lowest number that is free
        return write(descriptor, data)

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", interrupted_write)
        wakeup.set()
    closer.join()
    with pytest.raises(BlockingIOError):
        os.read(reading, 100)
    for descriptor in (reading, writing, *others):
        os.close(descriptor)


def test_a_closed_flag_does_nothing() -> None:
    wakeup = Wakeup()
    wakeup.set()
    wakeup.clear()
    wakeup.close()
    wakeup.close()
    wakeup.set()
    wakeup.clear()
    assert wakeup.fileno() == -1
