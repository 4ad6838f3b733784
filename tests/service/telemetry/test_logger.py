from __future__ import annotations

import logging
import sys

from perturank.service.telemetry.logger import Formatter, logger, name_request, request_id


def written(record: logging.LogRecord) -> list[str]:
    assert name_request(record)
    return Formatter("%(message)s").format(record).split("\n")


def record(message: str, **extra: object) -> logging.LogRecord:
    return logger.makeRecord(logger.name, logging.WARNING, "file", 1, message, (), None, extra=extra)


def test_a_line_names_the_request_that_is_being_answered() -> None:
    token = request_id.set("abc")
    try:
        (line,) = written(record("hello"))
    finally:
        request_id.reset(token)
    assert line.endswith(" WARNING abc hello")
    assert written(record("hello"))[0].endswith(" WARNING - hello")
    assert written(record("hello", request="xyz"))[0].endswith(" WARNING xyz hello")


def test_every_line_of_a_traceback_names_it_too() -> None:
    said = record("failed", request="xyz")
    try:
        raise ValueError("no\nway")
    except ValueError:
        said.exc_info = sys.exc_info()
    found = written(said)
    assert len(found) > 4
    assert all(" WARNING xyz " in line for line in found)
