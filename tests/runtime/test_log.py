"""Records of the logger: one line each, with the ids of what they are about."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from hackamore.runtime.log import Log, logger, one_line


class OfASession(Log):
    def ids(self) -> dict[str, Any]:
        return {**super().ids(), "session_id": "s", "pid": 7}


def test_lines_become_one() -> None:
    assert one_line("one\n\n  two \r\n\tthree") == "one; two; three"
    assert one_line(ValueError("a\nb")) == "a; b"
    assert one_line("") == ""


def test_a_record_has_one_line_its_ids_and_the_place_that_logged_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "hackamore")
    logger.warning("%s, %s and %d", "a\nb", OSError("c\nd"), 3)
    OfASession().error("failed", extra={"code": "X", "pid": 8})
    logger.debug("%s", "not this one")
    assert [record.getMessage() for record in caplog.records] == ["a; b, c; d and 3", "failed"]
    assert {(record.name, record.filename) for record in caplog.records} == {("hackamore", "test_log.py")}
    first, second = (vars(record) for record in caplog.records)
    assert [first[name] for name in ("session_id", "turn_id", "pid")] == [None, None, None]
    assert [second[name] for name in ("session_id", "turn_id", "pid", "code")] == ["s", None, 8, "X"]


def test_a_helper_can_log_for_its_caller(caplog: pytest.LogCaptureFixture) -> None:
    def helper() -> None:
        logger.warning("for the caller", stacklevel=2)

    helper()
    assert [record.funcName for record in caplog.records] == ["test_a_helper_can_log_for_its_caller"]


def test_a_level_that_is_off_costs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Costly:
        def __str__(self) -> str:
            raise AssertionError("it was formatted")

    class Error(Exception, Costly):
        pass

    caplog.set_level(logging.WARNING, "hackamore")
    logger.info("%s", Error())
    assert caplog.records == []
