"""JUnit XML: the reports of scripts and of fleets for CI."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

_NOT_IN_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Case(NamedTuple):
    """A test case: it passed, unless it has a `problem`, the reason on one line, or was `skipped` and has no outcome."""

    name: str
    problem: str | None = None
    details: str = ""
    skipped: bool = False
    seconds: float = 0.0


def junit(suites: Iterable[tuple[str, list[Case]]]) -> bytes:
    """Return named suites as a document in UTF-8."""
    from xml.etree.ElementTree import Element, SubElement, indent, tostring  # each simulated CLI would load it

    root = Element("testsuites")
    for title, cases in suites:
        box = SubElement(root, "testsuite", name=_xml(title))
        for each in cases:
            case = SubElement(
                box, "testcase", classname=_xml(title), name=_xml(each.name), time=f"{round(each.seconds, 3):.15g}"
            )
            if each.problem is not None:
                SubElement(case, "failure", message=_xml(each.problem)).text = _xml(each.details)
            elif each.skipped:
                SubElement(case, "skipped")
        for name, count in (
            ("tests", len(cases)),
            ("failures", sum(each.problem is not None for each in cases)),
            ("skipped", sum(each.problem is None and each.skipped for each in cases)),
            ("errors", 0),
        ):
            box.set(name, str(count))
    indent(root)
    return f"<?xml version='1.0' encoding='utf-8'?>\n{tostring(root, encoding='unicode')}\n".encode()


def _xml(text: str) -> str:
    """Return a text without the characters that XML does not have."""
    return _NOT_IN_XML.sub("\N{REPLACEMENT CHARACTER}", text)
