"""Reports for CI: the whole document."""

from __future__ import annotations

from hackamore.runtime.junit import Case, junit

DOCUMENT = """\
<?xml version='1.0' encoding='utf-8'?>
<testsuites>
  <testsuite name="tools &lt;1&gt;" tests="4" failures="1" skipped="1" errors="0">
    <testcase classname="tools &lt;1&gt;" name="well" time="0" />
    <testcase classname="tools &lt;1&gt;" name="slow" time="61.235" />
    <testcase classname="tools &lt;1&gt;" name="bad &#65533;" time="1200000">
      <failure message="no &quot;é&quot;">a\ufffdb\ufffd\t\U0001f40e</failure>
    </testcase>
    <testcase classname="tools &lt;1&gt;" name="left out" time="0">
      <skipped />
    </testcase>
  </testsuite>
  <testsuite name="empty" tests="0" failures="0" skipped="0" errors="0" />
</testsuites>
""".replace("&#65533;", "\ufffd")


def test_a_document_counts_what_it_lists_and_has_no_character_that_xml_has_not() -> None:
    cases = [
        Case("well"),
        Case("slow", seconds=61.23456),
        Case("bad \x1b", 'no "é"', "a\x00b\ud800\t\U0001f40e", skipped=True, seconds=1.2e6),
        Case("left out", skipped=True),
    ]
    assert junit([("tools <1>", cases), ("empty", [])]).decode() == DOCUMENT
