"""Write checked cases as JUnit XML, which CI servers read as test results (Jenkins, GitLab, GitHub actions)."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree

from veridical.records.strings import shorten, visible
from veridical.records.types import Checked, Outcome
from veridical.report.findings import HALLUCINATION, OMISSION, as_text, findings, unjudged_reasons

if TYPE_CHECKING:
    from veridical.report.locations import CaseLocations


class JUnitReport:
    """Collects checked cases for a JUnit XML report, with one test per case.

    A flagged case is a failed test, and a case that could not be judged is a test with an error. Both contain the same
    text as the terminal shows. Characters that XML cannot represent are replaced by symbols.
    """

    def __init__(self, name: str = "cases") -> None:
        self.name = visible(shorten(name, 200))
        self.failures = self.errors = 0
        self.tests: list[ElementTree.Element] = []

    def add(self, checked: Checked, locations: CaseLocations | None = None) -> None:
        """Add one checked case. `locations` is ignored, because JUnit has no positions in files (unlike SARIF)."""
        name = visible(shorten(checked.case.id, 200))
        test = ElementTree.Element("testcase", classname=self.name, name=name)
        self.tests.append(test)
        if checked.outcome is Outcome.FLAGGED:
            self.failures += 1
            flagged = findings(checked)
            kinds = [kind for kind in (HALLUCINATION, OMISSION) if any(f.kind == kind for f in flagged)]
            message = "; ".join(finding.message for finding in flagged[:3])
            message += f"; and {len(flagged) - 3} more" if len(flagged) > 3 else ""
            problem = ElementTree.SubElement(test, "failure", type=" ".join(kinds), message=message)
        elif checked.outcome is Outcome.UNJUDGED:
            self.errors += 1
            reasons = "; ".join(unjudged_reasons(checked)[:3])
            problem = ElementTree.SubElement(test, "error", type="unjudged", message=f"could not be judged: {reasons}")
        else:
            return
        problem.text = as_text(checked)

    def text(self) -> str:
        """Return the XML document."""
        counts = {"tests": str(len(self.tests)), "failures": str(self.failures), "errors": str(self.errors)}
        suites = ElementTree.Element("testsuites", {"name": "veridical", **counts})
        suite = ElementTree.SubElement(suites, "testsuite", {"name": self.name, **counts})
        suite.extend(self.tests)
        ElementTree.indent(suites)
        return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(suites, encoding="unicode")}\n'
