"""Files are replaced whole: a reader finds the earlier content or the new one."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest

from hackamore.storage.files import write_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def test_a_file_has_all_pieces_and_belongs_to_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_bytes(b"an earlier and longer content")
    path.chmod(0o644)
    assert write_file(path, [b"one ", b"", b"two"]) == 7
    assert path.read_bytes() == b"one two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["page.html"]


def test_a_file_is_complete_before_it_is_seen(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 255)

    def pieces() -> Iterator[bytes]:
        yield b"one "
        assert not path.exists()
        yield b"two"

    write_file(path, pieces())
    assert path.read_bytes() == b"one two"


def test_an_earlier_file_stays_if_the_new_one_fails(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_bytes(b"earlier")

    def pieces() -> Iterator[bytes]:
        yield b"one"
        raise LookupError("no more")

    with pytest.raises(LookupError):
        write_file(path, pieces())
    assert path.read_bytes() == b"earlier"
    assert os.listdir(tmp_path) == ["page.html"]


def test_a_relative_path_begins_at_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert write_file("page.html", [b"one"]) == 3
    assert (tmp_path / "page.html").read_bytes() == b"one"
