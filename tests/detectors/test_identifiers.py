"""Identifiers: one that no source has is flagged as a whole, another spelling of one that a source has is not."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.detectors.test_signs import judged
from veridical.detectors.default.detector import PACKAGED
from veridical.detectors.discrepancies.finding import discrepancies
from veridical.inference.artifact import DETECTOR
from veridical.records.types import Case, Outcome, Source, Turn
from veridical.text.identifiers import KnownIdentifiers, identifiers

COMMIT, UUID = "da39a3ee5e6b4b0d3255bfef95601890afd807", "123e4567-e89b-12d3-a456-42661417400"
INVENTED = [  # a source, a response, and its identifier that the source does not have
    (
        "See https://acme.io/docs/setup first.",
        "See https://acme.io/docs/install first.",
        "https://acme.io/docs/install",
    ),
    ("Support answers by mail: help@acme.io.", "Support answers by mail: support@acme.io.", "support@acme.io"),
    ("The tool is documented well.", "The tool is documented at https://tool.dev/docs.", "https://tool.dev/docs"),
    ("See the shop for prices.", "See acme-shop.com for prices.", "acme-shop.com"),
    ("The server has the address 10.20.30.41.", "The server has the address 10.20.30.14.", "10.20.30.14"),
    ("The fix is in version 1.3.2.", "The fix is in version 1.3.3.", "version 1.3.3"),
    ("The fix is in release 1.3.2.", "The fix is in 1.3.3.", "1.3.3"),
    (f"Commit {COMMIT}09 fixed it.", f"Commit {COMMIT}08 fixed it.", f"{COMMIT}08"),
    ("Pay to DE89 3704 0044 0532 0130 00.", "Pay to DE89 3704 0044 0532 0130 01.", "DE89 3704 0044 0532 0130 01"),
    ("The test card is 4111 1111 1111 1111.", "The test card is 4111 1111 1111 1112.", "4111 1111 1111 1112"),
    ("The flaw is CVE-2024-3094.", "The flaw is CVE-2024-3049.", "CVE-2024-3049"),
    ("The bug is tracked as OPS-712.", "The bug is tracked as OPS-721.", "OPS-721"),
    ("The paper is doi:10.1000/xyz123.", "The paper is doi:10.1000/xyz124.", "10.1000/xyz124"),
    ("The book has ISBN 978-3-16-148410-0.", "The book has ISBN 978-3-16-148411-0.", "ISBN 978-3-16-148411-0"),
    ("Call +47 22 33 44 55 for help.", "Call +47 22 33 44 56 for help.", "+47 22 33 44 56"),
    ("Call 555-010-9999 for help.", "Call 555-010-9998 for help.", "555-010-9998"),
    ("Edit /etc/app/main.conf first.", "Edit /etc/app/local.conf first.", "/etc/app/local.conf"),
    ("Edit C:\\app\\main.ini first.", "Edit C:\\app\\user.ini first.", "C:\\app\\user.ini"),
    ("Run it with --dry-run to test.", "Run it with --dryrun to test.", "--dryrun"),
    ("Run it with `--dry-run` to test.", "Run it with `--dryrun` to test.", "--dryrun"),
    ("Set retries=3 in the file.", "Set retry=3 in the file.", "retry=3"),
    ("Set retries=3 in the file.", "Set retries=5 in the file.", "retries=5"),
    ("Call load_rows() to read it.", "Call read_rows() to read it.", "read_rows()"),
    ("Call load_rows to read it.", "Call read_rows to read it.", "read_rows"),
    ("The class is DataLoader and the method getUserName.", "Use the method getUserId of DataLoader.", "getUserId"),
    ("Read the [guide](https://acme.io/guide).", "Read the [guide](https://acme.io/manual).", "https://acme.io/manual"),
    ("The tower is open daily.", "The [tower](https://tower.net.br/x) is open daily.", "https://tower.net.br/x"),
    ("The tower is open daily and free.", "The [tower is open daily](https://tower.com/a).", "https://tower.com/a"),
    ("The order INV-20391 was sent.", "The order INV-20931 was sent.", "INV-20931"),
    ("The plane is an A380.", "The plane is an A350.", "A350"),
    ("The MAC address is 00:1B:44:11:3A:B7.", "The MAC address is 00:1B:44:11:3A:B8.", "00:1B:44:11:3A:B8"),
    (f"The id is {UUID}0.", f"The id is {UUID}1.", f"{UUID}1"),
    ("It listens on 2001:db8:0:1::1.", "It listens on 2001:db8:0:1::2.", "2001:db8:0:1::2"),
    ("It follows RFC 7231.", "It follows RFC 7230.", "RFC 7230"),
    ("Write to ana@acme.io.", "Write to [Ana](mailto:ben@acme.io).", "ben@acme.io"),
    ("The setting is `max_retries`.", "The setting is `max_tries`.", "max_tries"),
]
KNOWN: list[tuple[str | dict[str, Any], str]] = [  # a source, and a response that has its identifier in another form
    ("The docs are at https://docs.acme.io/guide/.", "The docs are at docs.acme.io/guide."),
    ("The docs are at docs.acme.io/guide.", "The docs are at https://www.docs.acme.io/guide/."),
    ("The docs are at https://Docs.Acme.io/guide.", "The docs are at <https://docs.acme.io/guide>."),
    ("The docs are at [the site](https://docs.acme.io/guide).", "The docs are at https://docs.acme.io/guide."),
    ("The docs are at https://docs.acme.io/guide.", "The docs are at [docs.acme.io](https://docs.acme.io/guide)."),
    ("Edit /etc/app/main.conf first.", "Edit main.conf first."),
    ("Edit /etc/app/main.conf first.", "Edit `app/main.conf` first."),
    ("Edit src\\app\\main.py first.", "Edit src/app/main.py first."),
    ("It needs v1.3.2.", "It needs version 1.3.2."),
    ("It works with versions 1.2 to 1.8.", "It works with version 1.5."),
    ("It works with version 2.1 or later.", "It works with version 2.4."),
    ("It needs Python >=3.9,<3.13.", "It works with version 3.11."),
    ("It needs version 1.3.2.", "It needs version 1.3."),
    ("Commit da39a3ee5e6b4b0d3255bfef95601890afd80709 fixed it.", "Commit da39a3e fixed it."),
    ("Pay to DE89370400440532013000.", "Pay to DE89 3704 0044 0532 0130 00."),
    ("Call +47 22 33 44 55 for help.", "Call +4722334455 for help."),
    ("Call (555) 010-9999 for help.", "Call +1 555-010-9999 for help."),
    ("Call +47 22 33 44 55 for help.", "Call 22 33 44 55 for help."),
    ("The book has ISBN 9783161484100.", "The book has ISBN 978-3-16-148410-0."),
    ("The bug is tracked as OPS 712.", "The bug is tracked as OPS-712."),
    ("Run it with –dry-run to test.", "Run it with --dry-run to test."),
    ("Run it with --dry-run to test.", "Run it with `--dry-run` to test."),
    ("retries: 3\ntimeout: 5", "Set retries=3 in the file."),
    ('{"retries": 3}', "Set `retries=3` in the file."),
    ("Set retries = 3 in the file.", "Set retries=3 in the file."),
    ("Each row has a user ID.", "Each row has a `user_id`."),
    ("It follows RFC2616.", "It follows RFC 2616."),
    ("The base URL is https://api.acme.io/v2. Users are at /users.", "Users are at https://api.acme.io/v2/users."),
    ({"id": "https://acme.io/pool", "text": "It opens at nine."}, "It opens at nine (https://acme.io/pool)."),
    (
        {"text": "It opens at nine.", "metadata": {"url": "https://acme.io/pool", "title": "Pool FAQ v2.3.1"}},
        "It opens at nine, see https://acme.io/pool.",
    ),
    ({"id": "handbook.pdf", "text": "It opens at nine."}, "It opens at nine, see handbook.pdf."),
    ("The meeting is on 12.03.2024 at 10:30.", "The meeting is on 12.03.2024 at 10:30."),
    ("Growth was 3.5% and 1.234.567 people came.", "Growth was 3.5% and 1.234.567 people came."),
    ("Ana and/or Ben may use the car at 50 km/h.", "Ana and/or Ben may use the car at 50 km/h."),
    ("Use the _pool_ with care.", "Use the _pool_ with care."),
    ("Section 5 covers refunds.", "§ 5 covers refunds."),
]


def case(source: str | dict[str, Any], response: str) -> Case:
    return Case("1", response, (Source("s", source) if isinstance(source, str) else Source(**{"id": "s", **source}),))


@pytest.mark.parametrize(("source", "response", "identifier"), INVENTED)
def test_what_no_source_has_is_a_discrepancy(source: str, response: str, identifier: str) -> None:
    (found,) = discrepancies(case(source, response))
    assert found.span.of(response) == identifier
    assert identifier in found.reason
    assert found.kind == "invented reference"
    assert found.correction is None or found.correction in source
    assert discrepancies(case(source, source)) == ()


@pytest.mark.parametrize(("source", "response"), KNOWN)
def test_another_form_is_none(source: str | dict[str, Any], response: str) -> None:
    assert discrepancies(case(source, response)) == ()


def test_the_closest_identifier_of_a_source_is_the_correction() -> None:
    (found,) = discrepancies(case("It is at 10.20.30.41, or at 192.168.1.7.", "It is at 10.20.30.14."))
    assert (found.reason, found.correction) == ("the source has 10.20.30.41, not 10.20.30.14", "10.20.30.41")
    (found,) = discrepancies(case("It is at 10.20.30.41, or at 10.20.30.44.", "It is at 10.20.30.47."))
    assert (found.reason, found.correction) == ("no source has 10.20.30.47", None)


def test_what_the_user_wrote_is_known_and_what_the_assistant_said_is_not() -> None:
    text, source = "It is CVE-2024-3049.", Source("s", "The flaw is severe.")
    assert discrepancies(Case("1", text, (source,), question="What about CVE-2024-3049?")) == ()
    turns = (Turn("user", "Which flaw?"), Turn("assistant", "CVE-2024-3049."), Turn("user", "Sure?"))
    assert len(discrepancies(Case("1", text, (source,), history=turns))) == 1


def test_names_in_a_block_of_code_are_its_own_and_addresses_are_not() -> None:
    block = "```python\nmy_rows = load_rows(path)\nget('https://acme.io/x')\n```"
    found = discrepancies(case("Call load_rows() to read a file.", block))
    assert [each.span.of(block) for each in found] == ["https://acme.io/x"]


def test_the_own_machine_and_emphasis_need_no_source() -> None:
    text = "Use _any_ name, `true`, http://localhost:8000/x or 127.0.0.1, the #1 choice."
    assert discrepancies(case("It is open.", text)) == ()


@pytest.mark.skipif(not (PACKAGED / DETECTOR).is_file(), reason="the default detector is not in this checkout")
@pytest.mark.parametrize("name", ["default", "overlap", "verify:overlap:values", "verify"])
def test_detectors_mark_them(name: str) -> None:
    results = judged(name, [case(source, response) for source, response, _ in INVENTED])
    for (result, judgement), (_, response, identifier) in zip(results, INVENTED, strict=True):
        assert result is Outcome.FLAGGED, response
        marked = [verdict for verdict in judgement.verdicts if identifier in str(verdict.reason)]
        assert name.startswith("verify") or identifier in [verdict.span.of(response) for verdict in marked]
    unchanged = [case(source, source) for source, _, _ in INVENTED]
    for (result, _), each in zip(judged(name, unchanged), unchanged, strict=True):
        assert result is Outcome.CLEAR, each.response


@pytest.mark.skipif(not (PACKAGED / DETECTOR).is_file(), reason="the default detector is not in this checkout")
def test_the_default_detector_knows_other_forms() -> None:
    cases = [case(*pair) for pair in KNOWN]
    for (result, _), each in zip(judged("default", cases), cases, strict=True):
        assert result is Outcome.CLEAR, each.response


@pytest.mark.skipif(not (PACKAGED / DETECTOR).is_file(), reason="the default detector is not in this checkout")
def test_an_address_alone_is_flagged() -> None:
    for name in ("default", "verify:overlap"):
        ((result, judgement),) = judged(name, [case("See the handbook.", "https://acme.io/manual")])
        assert result is Outcome.FLAGGED
        assert judgement.hallucination == 1.0


PIECES = ("1 ", "+1 ", "call 1", "AB12 ", "a1", "A1-", "ab=", "a:", "1:", "97", "(555", "a.", "a-b.", "/a.b", "`a")


@pytest.mark.parametrize("piece", [*PIECES, "a_"])
def test_long_texts_take_linear_time(piece: str) -> None:
    started = time.process_time()
    known = KnownIdentifiers([piece * 20_000])
    assert sum(each in known for each in identifiers(piece * 4000)) >= 0
    assert time.process_time() - started < 10
