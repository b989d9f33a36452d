"""The rules of the schemas that readers of JUnit XML use, of which Ant's is the strictest."""

import re
from pathlib import Path
from xml.etree import ElementTree as ET

SUITE = {
    "name": r".+",
    "package": r".+",
    "id": r"\d+",
    "timestamp": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d",
    "hostname": r".+",
    "tests": r"\d+",
    "failures": r"\d+",
    "errors": r"\d+",
    "skipped": r"\d+",
    "time": r"\d+(\.\d+)?",
}
CASE = {"name": r".+", "classname": r".+", "time": r"\d+(\.\d+)?"}
OUTCOMES = {"failure": {"type": r".+", "message": r".+"}, "skipped": {"message": r".+"}}


def suites_of(path: Path) -> list[ET.Element]:
    """Return the test suites of a file, which keeps to the schema or fails."""
    root = ET.parse(path).getroot()  # noqa: S314 - our own file
    assert (root.tag, root.attrib) == ("testsuites", {})
    for number, suite in enumerate(root):
        assert suite.tag == "testsuite"
        _assert_attributes(suite, SUITE)
        assert suite.get("id") == str(number)
        tags = [child.tag for child in suite]
        cases = suite.findall("testcase")
        assert tags == ["properties", *["testcase"] * len(cases), "system-out", "system-err"]
        for case in cases:
            _assert_attributes(case, CASE)
            assert len(case) <= 1
            for outcome in case:
                _assert_attributes(outcome, OUTCOMES[outcome.tag])
        for attribute, tag in (("failures", "failure"), ("skipped", "skipped")):
            assert suite.get(attribute) == str(len(suite.findall(f"testcase/{tag}")))
        assert suite.get("tests") == str(len(cases))
    return list(root)


def _assert_attributes(element: ET.Element, patterns: dict[str, str]) -> None:
    assert element.attrib.keys() == patterns.keys(), element.tag
    for name, pattern in patterns.items():
        assert re.fullmatch(pattern, element.attrib[name]), (element.tag, name)
