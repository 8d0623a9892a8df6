"""The service on a free port of this machine, with detectors whose findings a test knows beforehand."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import uvicorn

from tests.processes import LIMIT
from veridical.records.detector import DetectorInfo
from veridical.records.salience_map import MapWord, SalienceMap
from veridical.records.types import Case, Evidence, Judgement, Omission, Span, Verdict
from veridical.server.app import create_app
from veridical.server.settings import ServerSettings
from veridical.text.segment import sentences, words


class Marker:
    """Words that begin with "wrong" have the score 0.9 and cite "right"; "doubtful" has 0.4; "omit …" is left out."""

    name = "marker"
    info = DetectorInfo(needs_sources=False)

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        return [self._judge(case) for case in cases]

    def _judge(self, case: Case) -> Judgement:
        evidence = tuple(
            Evidence(source.id, Span(at, at + 5)) for source in case.sources if (at := source.text.find("right")) >= 0
        )
        verdicts = []
        for span in words(case.response):
            word = span.of(case.response)
            if word.startswith("wrong"):
                verdicts.append(Verdict(span, 0.9, evidence=evidence, reason="it is not right", correction="right"))
            else:
                verdicts.append(Verdict(span, 0.4 if word == "doubtful" else 0.05))
        omissions = [
            Omission(source.id, span, 0.8 if span.of(source.text).startswith("Omit") else 0.1)
            for source in case.sources
            if source.must_cover
            for span in sentences(source.text)
        ]
        worst = max((verdict.score for verdict in verdicts), default=0.0)
        return Judgement(case.id, self.name, worst, None, tuple(verdicts), tuple(omissions))


class Half:
    """Judges the first half of the response and flags nothing of it."""

    name = "half"
    info = DetectorInfo(needs_sources=False)

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        return [
            Judgement(case.id, self.name, 0.1, judged=(Span(0, len(case.response) // 2),), notes=("it was too long",))
            for case in cases
        ]


class Mapped(Marker):
    """The same as the marker, with a salience map."""

    name = "mapped"

    def judge_with_maps(self, cases: Sequence[Case]) -> list[tuple[Judgement, SalienceMap | None]]:
        return [
            (Judgement(case.id, self.name, 0.1, verdicts=(Verdict(words(case.response)[0], 0.9),)), _map(case))
            for case in cases
        ]


def _map(case: Case) -> SalienceMap:
    response = tuple(MapWord(span.of(case.response), span) for span in words(case.response))
    source = tuple(MapWord(span.of(s.text), span, s.id) for s in case.sources for span in words(s.text))
    values = np.array([[float(w.text == word.text) / 2 for word in response] for w in source])
    return SalienceMap(source, response, values, values.max(axis=1), values.max(axis=0))


@contextmanager
def serving(settings: ServerSettings) -> Iterator[str]:
    """The URL of a service with `settings`; it ends with the block."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        config = uvicorn.Config(create_app(settings), log_level="error", lifespan="on", ws="none")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
        finally:
            server.should_exit = True
            thread.join(LIMIT)


def long_text(paragraphs: int) -> str:
    """Text of about 1,000 characters per paragraph, all different."""
    sentence = "Walker {} of road {} saw the river rise above the old bank and spoke to nobody of it. "
    return "\n\n".join("".join(sentence.format(k, i) for k in range(14)).strip() for i in range(paragraphs))
