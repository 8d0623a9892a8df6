"""Checked cases as SARIF 2.1.0 (OASIS), the form in which code hosts and editors read findings with their places."""

from __future__ import annotations

import json
import os
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote

import veridical
from veridical.core.spans import Span
from veridical.core.text import shorten, visible
from veridical.core.types import Case, Checked, Outcome
from veridical.report.findings import HALLUCINATION, OMISSION, Finding, findings, unjudged_reasons
from veridical.report.locations import CaseLocations, Location

__all__ = ["SarifReport"]

_RULES = {
    HALLUCINATION: ("error", "Not backed by the sources", "What the response says that its sources do not support."),
    OMISSION: ("warning", "Left out", "What the response had to cover of its sources and does not."),
}
_EVIDENCE = 3  # passages of the sources per result


class SarifReport:
    """A result per finding, and a notification per case that could not be judged.

    Places are in the files that were read: `charOffset` and columns count Unicode code points.
    """

    def __init__(self) -> None:
        self.results: list[dict[str, Any]] = []
        self.notifications: list[dict[str, Any]] = []

    def add(self, checked: Checked, locations: CaseLocations | None = None) -> None:
        """Take in one case, whose texts are at `locations`."""
        case = checked.case
        self.results += [_result(case, finding, locations) for finding in findings(checked)]
        if checked.outcome is Outcome.UNJUDGED:
            words = f"case {visible(shorten(case.id, 200))} could not be judged: {'; '.join(unjudged_reasons(checked))}"
            place = _location(case, None, Span(0, len(case.response)), locations)
            notification = {"level": "warning", "message": _message(words), "locations": [place]}
            self.notifications.append({"descriptor": {"id": "unjudged"}, **notification})

    def text(self) -> str:
        """The document."""
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
        properties["source"] = visible(finding.source_id)
    # the same words in the same case are the same finding, wherever in the file they are by now
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
        {**_location(case, evidence.source_id, evidence.span, locations), "message": {"text": "the closest passage"}}
        for evidence in finding.evidence[:_EVIDENCE]
    ]
    return {**result, "relatedLocations": related} if related else result


def _message(words: str) -> dict[str, str]:
    return {"text": words.replace("](", "] (")}  # which would make a link


def _location(case: Case, source_id: str | None, span: Span, locations: CaseLocations | None) -> dict[str, Any]:
    """Where `span` is: the case and the text by name, and the file where there is one."""
    name = "response" if source_id is None else f"source {visible(source_id)}"
    full = f"{visible(case.id)}/{name}"
    logical = {"logicalLocations": [{"name": name, "fullyQualifiedName": full, "kind": "text"}]}
    found = None if locations is None else locations.find(case, source_id, span)
    return logical if found is None else {"physicalLocation": _physical(found), **logical}


def _physical(location: Location) -> dict[str, Any]:
    artifact = {"artifactLocation": {"uri": _uri(location.path)}}
    region = location.region
    if region is None:
        return artifact
    place: dict[str, Any] = {"startLine": region.line, "startColumn": region.column}
    place |= {"endLine": region.end_line, "endColumn": region.end_column}
    place |= {"charOffset": region.start, "charLength": region.end - region.start}
    return {**artifact, "region": {**place, "snippet": {"text": region.text}}}


def _uri(path: Path) -> str:
    """The path as a URI reference: relative to the folder where the command runs where it is below it."""
    here = Path.cwd()
    if path.is_absolute() and path.is_relative_to(here):
        path = path.relative_to(here)
    if path.is_absolute():
        return path.as_uri()
    return quote(os.fsencode(path.as_posix()))
