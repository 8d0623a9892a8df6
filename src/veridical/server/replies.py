"""Check a chat reply in the proxy: build a case from chat and reply, check it, and decide whether to withhold it.

A chat server may send several alternative answers in one reply, called choices.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from veridical.io.conversations import coming_turn
from veridical.io.serialization import decode_case, encode
from veridical.records.errors import InputError, VeridicalError, WireError
from veridical.records.types import Case, Checked, Outcome, Source
from veridical.server.batching import in_thread
from veridical.server.errors import Refused
from veridical.server.observation import log
from veridical.server.requests import HowToCheck, ReviseRequest, check_size, refuse_addresses
from veridical.server.service import Service
from veridical.server.settings import ProxySettings
from veridical.workflows.revise import Revised

BLOCKED = "This answer was withheld: its sources do not support it, or that could not be checked."
UNAVAILABLE = "unavailable"
"""The status of a reply if its check failed, so that the reply is neither clear nor flagged."""

_WORST_FIRST = (Outcome.FLAGGED.value, UNAVAILABLE, Outcome.UNJUDGED.value, Outcome.CLEAR.value, Outcome.NO_CLAIM.value)


@dataclass(frozen=True, slots=True)
class CheckedChoice:
    """The result of the check for one choice (alternative answer) of a chat reply.

    Attributes:
        index: The index of the choice in the reply.
        status: The outcome, such as "flagged", or `UNAVAILABLE` if the check failed.
        checked: The result of the check. None if there is none.
        reason: Why there is no result. None if there is one.
        revised: The revision of a flagged choice, if the proxy revises replies.
    """

    index: int
    status: str
    checked: Checked | None = None
    reason: str | None = None
    revised: Revised | None = None

    @property
    def text(self) -> str | None:
        """The revised text. None if the choice was not revised, or the revision changed nothing."""
        return self.revised.revision.text if self.revised is not None and self.revised.changed else None


class ReplyChecker:
    """Checks the replies to one request to a chat model, against the sources in the request.

    Args:
        service: The service with the detectors.
        settings: The settings of the proxy: the roles whose messages are sources, the detector, and what happens to
            flagged replies.
        document: The request. The fields `sources` and `include` are removed from it.
        request_id: The id of the request in the log.
        keep: Called with the settings of the check and with the results, to store them. Default: nothing is stored.

    Raises:
        WireError: The field `sources` does not contain sources, or `include` is not a list of known names.
        InputError: One of the sources in the field is an address.
    """

    def __init__(
        self,
        service: Service,
        settings: ProxySettings,
        document: dict[str, Any],
        request_id: str,
        keep: Callable[[HowToCheck, Sequence[Checked]], Awaitable[object]] | None = None,
    ) -> None:
        self.service, self.settings, self.request_id, self._keep = service, settings, request_id, keep
        include = document.pop("include", [])
        if include not in ([], ["sources"]):
            raise WireError("include is not a list of what to repeat", hint='"include": ["sources"], or leave it out')
        self.with_sources = bool(include)
        sources, messages = _sources_of(document), document.get("messages")
        self.case = Case("reply", "", sources)
        self.problem: str | None = None
        try:
            self.case = coming_turn(
                messages if isinstance(messages, list) else (),
                id="reply",
                sources=sources,
                evidence_roles=settings.source_roles,
                markers=settings.markers,
            )
            check_size(self.case, service.settings.limits, "the chat")
        except (InputError, Refused) as error:  # unreadable, or too large to check; the chat server can still answer
            self.problem = str(error)

    async def check(self, texts: Iterable[tuple[int, str | None]]) -> list[CheckedChoice]:
        """Check the choices (alternative answers) of a reply, given as pairs (index, text), and return one result each.

        If the check of a choice fails, its result has the status `UNAVAILABLE`.
        """
        findings = [await self._check(index, text) for index, text in texts]
        self.service.metrics.proxied(overall_status(findings))
        checked = [finding.checked for finding in findings if finding.checked is not None]
        if self._keep is not None and checked:
            await self._keep(HowToCheck(detector=self.settings.detector), checked)
        return findings

    async def _check(self, index: int, text: str | None) -> CheckedChoice:
        if not text:
            return CheckedChoice(index, Outcome.UNJUDGED.value, reason="the reply has no text")
        if self.problem is not None:
            return CheckedChoice(index, UNAVAILABLE, reason=self.problem)
        case = replace(self.case, response=text)
        try:
            check_size(case, self.service.settings.limits, "the chat")
            ((checked, _),) = await self.service.check_cases([case], HowToCheck(detector=self.settings.detector))
            await in_thread(lambda: encode(checked))  # fail now if a text cannot be written as JSON
            if self.settings.action != "revise" or checked.outcome is not Outcome.FLAGGED:
                return CheckedChoice(index, checked.outcome.value, checked)
            request = ReviseRequest(cases=[], detector=self.settings.detector)
            (revised,) = await self.service.revise_cases([case], request)
            return CheckedChoice(index, revised.outcome.value, checked, revised=revised)
        except VeridicalError as error:
            return CheckedChoice(index, UNAVAILABLE, reason=str(error))
        except Exception as error:  # noqa: BLE001 - a detector may raise anything; the reply is marked as not checked
            log("failure", logging.ERROR, error, request_id=self.request_id)
            return CheckedChoice(index, UNAVAILABLE, reason="the check failed")

    def blocks(self, finding: CheckedChoice) -> bool:
        """Decide from the settings whether to withhold the text of a choice that is flagged or could not be checked."""
        if finding.status == UNAVAILABLE:
            return self.settings.blocks_unavailable
        return self.settings.action == "block" and finding.status == Outcome.FLAGGED.value


def overall_status(findings: Sequence[CheckedChoice]) -> str:
    """Return the worst status of the choices of a reply. If there are no choices, return "unjudged".

    From the worst to the best, the statuses are "flagged", "unavailable", "unjudged", "clear" and "no_claim".

    >>> overall_status([CheckedChoice(0, "clear"), CheckedChoice(1, "unavailable")])
    'unavailable'
    """
    statuses = {finding.status for finding in findings}
    return next((status for status in _WORST_FIRST if status in statuses), Outcome.UNJUDGED.value)


def annotation(checker: ReplyChecker, findings: Sequence[CheckedChoice]) -> dict[str, Any]:
    """Build the field `veridical` that the proxy adds to a reply: status, action, and the result for each choice.

    For a withheld choice, the result of its check is left out, because it would contain the withheld text.
    """
    choices: list[dict[str, Any]] = []
    for finding in findings:
        choice: dict[str, Any] = {"index": finding.index, "status": finding.status}
        if finding.reason is not None:
            choice["reason"] = finding.reason
        if checker.blocks(finding):
            choice["withheld"] = True
        elif finding.revised is not None:
            choice["revised"] = json.loads(encode(finding.revised, sources=checker.with_sources))
        elif finding.checked is not None:
            choice["check"] = json.loads(encode(finding.checked, sources=checker.with_sources))
        choices.append(choice)
    return {"status": overall_status(findings), "action": checker.settings.action, "choices": choices}


def _sources_of(document: dict[str, Any]) -> tuple[Source, ...]:
    """Take the sources out of a request. Raise an error if one of them is not a source, or is an address."""
    try:
        case = decode_case({"response": "", "sources": document.pop("sources", ())}, default_id="reply")
    except WireError as error:
        raise WireError(f"sources: {error.message}", hint='"sources": ["…", {"id": "…", "text": "…"}]') from None
    refuse_addresses(case.sources, "the chat")
    return case.sources
