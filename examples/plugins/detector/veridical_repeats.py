"""A detector for `veridical`: words that a response repeats too often."""

from collections import Counter

from veridical import Judgement, Verdict
from veridical.records.detector import DetectorInfo
from veridical.records.types import Level
from veridical.text.segment import words


class Repeats:
    """Words that occur more than `most` times in the response; it needs no sources."""

    info = DetectorInfo((Level.RESPONSE, Level.SPAN), needs_sources=False)

    def __init__(self, most=3):
        self.name, self.most = f"repeats:most={most}", most

    @classmethod
    def from_spec(cls, spec, context):
        """Make the detector of `repeats:most=N`."""
        return cls(spec.accept(["most"]).whole("most", 3))

    def judge(self, cases):
        """Return one judgement per case."""
        return [self._judge(case) for case in cases]

    def _judge(self, case):
        spans = words(case.response)
        if not spans:
            return Judgement(case.id, self.name, judged=(), notes=("the response has no words",))
        counts = Counter(span.of(case.response).lower() for span in spans)
        scores = [float(counts[span.of(case.response).lower()] > self.most) for span in spans]
        verdicts = tuple(Verdict(span, score) for span, score in zip(spans, scores, strict=True))
        return Judgement(case.id, self.name, sum(scores) / len(scores), verdicts=verdicts)
