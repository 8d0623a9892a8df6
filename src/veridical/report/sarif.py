"""Write checked cases as SARIF 2.1.0 (OASIS), which code hosts and editors read as findings with their places."""

from __future__ import annotations

import json
import os
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote

import veridical
from veridical.records.spans import Span
from veridical.records.strings import shorten, visible
from veridical.records.types import Case, Checked, Outcome
from veridical.report.findings import HALLUCINATION, OMISSION, Finding, findings, unjudged_reasons
from veridical.report.locations import CaseLocations, Location

_RULES = {
    HALLUCINATION: ("error", "Not backed by the sources", "The response states something its sources do not support."),
    OMISSION: ("warning", "Left out", "The response leaves out something of its sources that it had to cover."),
}
_EVIDENCE = 3  # passages of the sources per result


class SarifReport:
    """Collects checked cases for a SARIF report, which code hosts and editors can display.

    Each finding (a flagged span, an omission, or a response flagged as a whole) becomes a SARIF result. Each case that
    could not be judged becomes a notification. Positions refer to the files that the cases were read from.
    `charOffset` and columns are counted in Unicode code points.
    """

    def __init__(self) -> None:
        self.results: list[dict[str, Any]] = []
        self.notifications: list[dict[str, Any]] = []

    def add(self, checked: Checked, locations: CaseLocations | None = None) -> None:
        """Add one checked case. `locations` finds the positions of its spans in files (None without files)."""
        case = checked.case
        self.results += [_result(case, finding, locations) for finding in findings(checked)]
        if checked.outcome is Outcome.UNJUDGED:
            words = f"case {visible(shorten(case.id, 200))} could not be judged: {'; '.join(unjudged_reasons(checked))}"
            place = _location(case, None, Span(0, len(case.response)), locations)
            notification = {"level": "warning", "message": _message(words), "locations": [place]}
            self.notifications.append({"descriptor": {"id": "unjudged"}, **notification})

    def text(self) -> str:
        """Return the JSON document."""
        rules = [
            {
                "id": kind,
                "name": name.title().replace(" ", ""),
                "shortDescription": {"text": name},
                "fullDescription": {"text": about},
                "defaultConfiguration": {"level": level},
            }
            for kind, (level, name, about) in _RULES.items()
        ]
        unjudged = {"id": "unjudged", "shortDescription": {"text": "A case that could not be judged"}}
        driver = {"name": "Veridical", "version": veridical.__version__, "semanticVersion": veridical.__version__}
        invocation = {"executionSuccessful": True, "toolExecutionNotifications": self.notifications}
        run = {
            "tool": {"driver": {**driver, "rules": rules, "notifications": [unjudged]}},
            "invocations": [invocation],
            "columnKind": "unicodeCodePoints",
            "newlineSequences": ["\n"],
            "results": self.results,
        }
        schema = "https://json.schemastore.org/sarif-2.1.0.json"
        return json.dumps({"$schema": schema, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def _result(case: Case, finding: Finding, locations: CaseLocations | None) -> dict[str, Any]:
    span = finding.span or Span(0, len(case.response))
    text = case.response if finding.source_id is None else case.source(finding.source_id).text
    properties = {"case": visible(case.id), "detector": finding.detector, "score": finding.score}
    properties |= {"start": span.start, "end": span.end}
    if finding.source_id is not None:
        properties |= {"source": visible(finding.source_id), **_page(case, finding.source_id, span)}
    # the fingerprint holds words instead of offsets, so that a finding stays the same if it moves within the file
    words = span.of(text)
    key = json.dumps([case.id, finding.kind, finding.source_id, words, text.count(words, 0, span.start)])
    result: dict[str, Any] = {
        "ruleId": finding.kind,
        "ruleIndex": list(_RULES).index(finding.kind),
        "level": _RULES[finding.kind][0],
        "message": _message(finding.message),
        "locations": [_location(case, finding.source_id, span, locations)],
        "partialFingerprints": {"veridical/v1": sha256(key.encode()).hexdigest()[:32]},
        "rank": round(100 * finding.score, 4),
        "properties": properties,
    }
    related = [
        {
            **_location(case, evidence.source_id, evidence.span, locations),
            "message": {"text": "the closest passage"},
            **({"properties": page} if (page := _page(case, evidence.source_id, evidence.span)) else {}),
        }
        for evidence in finding.evidence[:_EVIDENCE]
    ]
    return {**result, "relatedLocations": related} if related else result


def _page(case: Case, source_id: str, span: Span) -> dict[str, int]:
    """Return the page of a span of a source, or an empty dict if the source has no pages."""
    page = case.source(source_id).page_of(span)
    return {} if page is None else {"page": page}


def _message(words: str) -> dict[str, str]:
    return {"text": words.replace("](", "] (")}  # "[…](…)" would be a link


def _location(case: Case, source_id: str | None, span: Span, locations: CaseLocations | None) -> dict[str, Any]:
    """Describe the location of `span` by the names of case and text, and by the place in the file if there is one."""
    name = "response" if source_id is None else f"source {visible(source_id)}"
    full = f"{visible(case.id)}/{name}"
    logical = {"logicalLocations": [{"name": name, "fullyQualifiedName": full, "kind": "text"}]}
    location = None if locations is None else locations.find(case, source_id, span)
    return logical if location is None else {"physicalLocation": _physical(location), **logical}


def _physical(location: Location) -> dict[str, Any]:
    artifact = {"artifactLocation": {"uri": _uri(location.path)}}
    region = location.region
    if region is None:
        return artifact if location.line is None else {**artifact, "region": {"startLine": location.line}}
    place: dict[str, Any] = {"startLine": region.line, "startColumn": region.column}
    place |= {"endLine": region.end_line, "endColumn": region.end_column}
    place |= {"charOffset": region.start, "charLength": region.end - region.start}
    return {**artifact, "region": {**place, "snippet": {"text": region.text}}}


def _uri(path: Path) -> str:
    """Convert a path to a URI reference, which is relative if the path is inside the current folder."""
    folder = Path.cwd()
    if path.is_absolute() and path.is_relative_to(folder):
        path = path.relative_to(folder)
    if path.is_absolute():
        return path.as_uri()
    return quote(os.fsencode(path.as_posix()))
