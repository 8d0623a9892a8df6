"""Several detectors as one, and what each of them adds to the decision; as a cascade, no more of them than are needed.

What could not be used of a member (not installed, its folder gone, a case that it refuses) is left out with a note, and
the weights are those fitted for the members that are left. Where none is left, nothing is judged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from veridical.calibration.calibrated import difference
from veridical.core.detector import Detector, DetectorContext, DetectorInfo, digest_of, fingerprint_of, info_of
from veridical.core.errors import CircularArtifactError, InputError, VeridicalError
from veridical.core.judging import judge
from veridical.core.serialization import encode, parse
from veridical.core.spans import Span, union
from veridical.core.spec import Spec
from veridical.core.types import (
    Case,
    Judgement,
    Level,
    Omission,
    SourceSpan,
    Usage,
    Verdict,
    judged_source_spans,
    judged_spans,
)
from veridical.metrics.arrays import Floats
from veridical_lab.detectors.ensemble.artifact import KIND, FittedEnsemble, load_ensemble
from veridical_lab.detectors.ensemble.combination import LevelCombinations, Mean
from veridical_lab.detectors.ensemble.scores import (
    coverage_scores,
    evidence_by_word,
    response_scores,
    source_word_scores,
    word_scores,
)

__all__ = ["Ensemble", "Missing", "columns_by_level", "labels_of"]

_UNUSABLE = (VeridicalError, ImportError, OSError)


@dataclass(frozen=True, slots=True)
class Missing:
    """A member that cannot be used, and why."""

    name: str
    why: str


MemberScores = Sequence[Judgement | str | None]  # of each member: what it says, why it says nothing, or None: not asked


class Ensemble:
    """Several detectors combined by fitted weights, or asked in turn until one decides (`veridical train ensemble`).

    Every score is the probability that was fitted for the members that gave one; without a fit it is their mean. Words
    of the response are the common unit of verdicts. `provenance` has each member's score, what it adds to the log odds
    and its share of the decision; `reason` says the same in words.

    Args:
        members: The detectors in the order of the fit, or why one is `Missing`.
        fitted: What was fitted for them; None: the mean of their scores.
        cascade: Ask the members one after the other, and only as long as none decides.
        name: Default: "ensemble".
    """

    info = DetectorInfo(needs_chat_model=True)  # where a member does

    def __init__(
        self,
        members: Sequence[Detector | Missing],
        fitted: FittedEnsemble | None = None,
        *,
        cascade: bool = False,
        name: str | None = None,
    ) -> None:
        self.members = list(members)
        self.name = name or KIND
        self.fitted = fitted
        if len(self.members) < 2:
            raise InputError(f"an ensemble of {len(self.members)}", hint="two or more members")
        if fitted is not None and len(fitted.members) != len(self.members):
            raise InputError(f"{len(self.members)} members for an ensemble of {len(fitted.members)}")
        if cascade and (fitted is None or not fitted.cascade):
            raise InputError(f"no cascade was fitted for {self.name}", hint="veridical train ensemble, on more data")
        self.stages = fitted.cascade if cascade and fitted is not None else ()
        self.names = labels_of([member.name for member in self.members])
        self._compared = fitted is None
        infos = {i: info_of(m) for i, m in enumerate(self.members) if not isinstance(m, Missing)}
        self.levels: Mapping[Level, LevelCombinations | Mean]
        if fitted is None:
            self.levels = {level: Mean(columns) for level, columns in columns_by_level(infos).items()}
        else:
            self.levels = fitted.levels
        self.info = DetectorInfo(
            tuple(level for level in Level if level in self.levels),
            needs_sources=bool(infos) and all(info.needs_sources for info in infos.values()),
            needs_chat_model=any(info.needs_chat_model for info in infos.values()),
        )

    @classmethod
    def from_spec(cls, spec: Spec, context: DetectorContext) -> Ensemble:
        """The detector for `ensemble:FOLDER[,cascade=yes,member2=SPEC]`, or the mean for `ensemble:SPEC,SPEC…`.

        The specs in a folder are not the user's own, so they may not say how a chat model is reached
        (`DetectorContext.artifact`). `member2=SPEC` says where the second one is now.
        """
        if len(spec.values) > 1:
            spec.accept(values=len(spec.values))
            return cls([context.load(value) for value in spec.values], name=str(spec))
        if spec.value is None:
            hint = f"{KIND}:FOLDER, as `veridical train ensemble` wrote it, or {KIND}:SPEC,SPEC for the mean"
            raise InputError(f"{KIND} needs a folder, or two detectors", hint=hint)
        fitted = load_ensemble(spec.value)
        numbered = {f"member{i}": member.detector for i, member in enumerate(fitted.members, 1)}
        spec.accept(["cascade", *numbered], values=1)
        inside = context.inside(spec.value)
        members: list[Detector | Missing] = []
        for option, named in numbered.items():
            if option in spec.options:
                members.append(context.load(spec.options[option]))
                continue
            try:
                members.append(inside.load(named))
            except CircularArtifactError:
                raise
            except _UNUSABLE as error:
                members.append(Missing(named, str(error)))
        return cls(members, fitted, cascade=spec.flag("cascade", False), name=str(spec))

    @property
    def thresholds(self) -> dict[Level, float]:
        """The fitted threshold of each level that was fitted; none for a mean."""
        return {} if self.fitted is None else {level: fit.threshold for level, fit in self.fitted.levels.items()}

    def fingerprint(self) -> dict[str, Any]:
        """What its scores depend on: all that was fitted, the members that can be used, and whether it is a cascade."""
        self._compare()
        fitted: dict[str, Any] = {}
        if self.fitted is not None:
            document = parse(encode(self.fitted))
            fitted = {"fitted": digest_of([document["levels"], document.get("cascade")])}
        used = [None if isinstance(m, Missing) else fingerprint_of(m) for m in self.members]
        return {**fitted, "members": used, "cascade": bool(self.stages)}

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        """One judgement per case; `InputError` for a member that is not the one that was fitted."""
        if not cases:
            return []
        self._compare()
        found: list[list[Judgement | str | None]] = [[None] * len(self.members) for _ in cases]
        decided: list[str | None] = [None] * len(cases)
        open_cases = list(range(len(cases)))
        for i in range(len(self.members)):
            for at, said in zip(open_cases, self._ask(i, [cases[at] for at in open_cases]), strict=True):
                found[at][i] = said
            if i < len(self.stages):
                left = []
                for at in open_cases:
                    probability = self._response(found[at])[0]
                    if self.stages[i].decides(probability):
                        decided[at] = f"{self.names[i]}, {i + 1} of {len(self.members)} members asked"
                    else:
                        left.append(at)
                open_cases = left
        if self.stages:
            last = f"{self.names[-1]}, {len(self.members)} of {len(self.members)} members asked"
            decided = [text or last for text in decided]
        return [self.combine(case, said, by) for case, said, by in zip(cases, found, decided, strict=True)]

    def combine(self, case: Case, found: MemberScores, decided: str | None = None) -> Judgement:
        """The judgement that follows from what each member says of `case`.

        Args:
            case: The case.
            found: Of each member its judgement, why there is none, or None where it was not asked.
            decided: Which member of a cascade decided, in words.
        """
        said = [j if isinstance(j, Judgement) else None for j in found]
        hallucination, parts = self._response(said)
        omission, coverage_parts = self._of_one(Level.COVERAGE, coverage_scores(said))
        verdicts = self._verdicts(case, said) if Level.SPAN in self.levels else ()
        omissions = self._omissions(case, said) if Level.SOURCE in self.levels else ()
        provenance = [] if decided is None else [("decided by", decided)]
        provenance += self._shares("response", response_scores(said), parts)
        provenance += self._shares("coverage", coverage_scores(said), coverage_parts)
        return Judgement(
            case.id,
            self.name,
            None if np.isnan(hallucination) else hallucination,
            None if np.isnan(omission) else omission,
            verdicts,
            omissions,
            self._judged(case, said, hallucination),
            (*self._notes(found), *self._left_out(said)),
            Usage.total(j.usage for j in said if j is not None),
            self._reason(parts),
            tuple(sorted(provenance)),
            self._judged_sources(case, said),
        )

    def _compare(self) -> None:
        """Compare the members with those that were fitted, once; one whose model cannot be loaded is `Missing`."""
        if self._compared or self.fitted is None:
            return
        for i, (member, fitted) in enumerate(zip(self.members, self.fitted.members, strict=True)):
            if isinstance(member, Missing):
                continue
            try:
                current = fingerprint_of(member)
            except _UNUSABLE as error:
                self.members[i] = Missing(member.name, str(error))
                continue
            differs = difference(fitted.fingerprint, current)
            if differs is not None:
                raise InputError(
                    f"{self.name} was fitted for {fitted.detector!r} and does not fit {member.name!r}: {differs}",
                    hint=f"give the detector that it was fitted for (,member{i + 1}=SPEC), or fit again: "
                    "veridical train ensemble",
                )
        self._compared = True

    def _ask(self, i: int, cases: Sequence[Case]) -> list[Judgement | str]:
        """What member `i` says of each case, or why it says nothing; one that it refuses does not stop the others."""
        member = self.members[i]
        if isinstance(member, Missing):
            return [f"{self.names[i]} cannot be used: {member.why}"] * len(cases)
        try:
            return list(judge(member, cases))
        except _UNUSABLE as error:
            if len(cases) == 1:
                return [f"{self.names[i]} could not judge this: {error}"]
        return [said for case in cases for said in self._ask(i, [case])]

    def _response(self, found: MemberScores) -> tuple[float, Floats]:
        """The response-level score, NaN without one, and what each member adds to it."""
        return self._of_one(Level.RESPONSE, response_scores([j if isinstance(j, Judgement) else None for j in found]))

    def _of_one(self, level: Level, scores: Floats) -> tuple[float, Floats]:
        if level not in self.levels:
            return float("nan"), np.full(len(scores), np.nan)
        combined, parts = self.levels[level].combine(scores[None])
        return float(combined[0]), parts[0]

    def _raised_by(self, parts: Floats) -> str | None:
        """The members that make a word more suspicious than the average, in words."""
        names = [name for name, part in zip(self.names, parts.tolist(), strict=True) if part > 0]
        return f"raised by {', '.join(names)}" if names else None

    def _verdicts(self, case: Case, said: Sequence[Judgement | None]) -> tuple[Verdict, ...]:
        """One verdict per word that a member speaks of and that can be scored."""
        table = word_scores(case, said)
        probabilities, parts = self.levels[Level.SPAN].combine(table.scores)
        evidence = evidence_by_word(table.units, (v for j in said if j is not None for v in j.verdicts))
        return tuple(
            Verdict(span, float(probabilities[i]), evidence=evidence[i], reason=self._raised_by(parts[i]))
            for i, span in enumerate(table.spans())
            if table.named[i] and not np.isnan(probabilities[i])
        )

    def _omissions(self, case: Case, said: Sequence[Judgement | None]) -> tuple[Omission, ...]:
        """One omission per run of words with the same score that a member speaks of; a run has only blanks between."""
        omissions = []
        for id, table in source_word_scores(case, said).items():
            text, units = case.source(id).text, table.units
            probabilities, parts = self.levels[Level.SOURCE].combine(table.scores)
            usable = np.flatnonzero(table.named & ~np.isnan(probabilities))
            raised = parts[usable] > 0
            starts = np.ones(len(usable), dtype=bool)
            starts[1:] = (
                (np.diff(usable) > 1)
                | (np.diff(probabilities[usable]) != 0)
                | (raised[1:] != raised[:-1]).any(axis=1)
                | (units[usable[1:], 0] != units[usable[:-1], 1] + 1)
                | np.array([text[end] != " " for end in units[usable[:-1], 1].tolist()], dtype=bool)
            )
            runs = np.split(usable, np.flatnonzero(starts)[1:]) if len(usable) else []
            omissions += [
                Omission(
                    id,
                    Span(int(units[run[0], 0]), int(units[run[-1], 1])),
                    float(probabilities[run[0]]),
                    self._raised_by(parts[run[0]]),
                )
                for run in runs
            ]
        return tuple(omissions)

    def _shares(self, level: str, scores: Floats, parts: Floats) -> list[tuple[str, str]]:
        """Score, contribution, share of the decision and cost of each member that took part, as provenance."""
        total = np.nansum(np.abs(parts))
        pairs = []
        for i, name in enumerate(self.names):
            if not np.isnan(parts[i]):
                share = f", {abs(parts[i]) / total:.0%} of the decision" if total > 0 else ""
                cost = "" if self.fitted is None else f", {self.fitted.members[i].seconds:.2g} s"
                pairs.append((f"{level}: {name}", f"score {scores[i]:.3f}, adds {parts[i]:+.3f}{share}{cost}"))
        return pairs

    def _reason(self, parts: Floats) -> str | None:
        """Which members raise and lower the score of the response, the one with the largest share first."""
        there = [i for i in np.argsort(-np.abs(np.nan_to_num(parts)), kind="stable") if not np.isnan(parts[i])]
        total = sum(abs(parts[i]) for i in there)
        shown = [
            f"{self.names[i]} {'raises' if parts[i] > 0 else 'lowers'} the score ({abs(parts[i]) / total:.0%})"
            for i in there
            if parts[i]
        ]
        return "; ".join(shown) or None

    def _judged(self, case: Case, said: Sequence[Judgement | None], hallucination: float) -> tuple[Span, ...] | None:
        """What at least one member judged; all of it is written as None where there is a score of the response."""
        there = [j for j in said if j is not None]
        if Level.RESPONSE not in self.levels and Level.SPAN not in self.levels:
            return None if any(j.judged != () for j in there) else ()
        scored = [j for j in there if j.judged != () and (j.hallucination is not None or j.verdicts or j.judged)]
        if any(j.judged is None for j in scored) and not np.isnan(hallucination):
            return None
        return tuple(union(span for j in scored for span in judged_spans(case, j)))

    def _judged_sources(self, case: Case, said: Sequence[Judgement | None]) -> tuple[SourceSpan, ...] | None:
        """What of the sources to cover at least one member judged; None = all of it."""
        scores = coverage_scores(said)
        there = [j for j, score in zip(said, scores.tolist(), strict=True) if j is not None and not np.isnan(score)]
        if not any(source.must_cover for source in case.sources) or any(j.judged_sources is None for j in there):
            return None
        by_source: dict[str, list[Span]] = {}
        for judgement in there:
            for id, spans in judged_source_spans(case, judgement).items():
                by_source.setdefault(id, []).extend(spans)
        return tuple(SourceSpan(id, span) for id, spans in by_source.items() for span in union(spans))

    def _notes(self, found: MemberScores) -> list[str]:
        """Why members say nothing, and what they noted themselves."""
        notes = []
        for name, said in zip(self.names, found, strict=True):
            if isinstance(said, str):
                notes.append(said)
            elif said is not None:
                own = said.notes or (("did not judge this",) if said.judged == () else ())
                notes += [f"{name}: {note}" for note in own]
        return notes

    def _left_out(self, said: Sequence[Judgement | None]) -> list[str]:
        """A note on the kinds of scores that members gave and nothing was fitted for."""
        there = [j for j in said if j is not None]
        given = {
            Level.RESPONSE: ("the score of the whole response", any(j.hallucination is not None for j in there)),
            Level.SPAN: ("the scores of words", any(j.verdicts for j in there)),
            Level.COVERAGE: ("coverage", any(j.omission is not None for j in there)),
            Level.SOURCE: ("the scores of source words", any(j.omissions for j in there)),
        }
        left = [what for level, (what, applies) in given.items() if applies and level not in self.levels]
        return [f"{', '.join(left)}: left out, for nothing was fitted for it"] if left else []


def columns_by_level(infos: Mapping[int, DetectorInfo]) -> dict[Level, tuple[int, ...]]:
    """Which members score each level that any of them scores; the highest word stands for the whole, if need be.

    >>> columns_by_level({0: DetectorInfo((Level.RESPONSE,)), 1: DetectorInfo((Level.SPAN,))})
    {<Level.RESPONSE: 'response'>: (0, 1), <Level.SPAN: 'span'>: (1,)}
    """
    parts = {Level.RESPONSE: Level.SPAN, Level.COVERAGE: Level.SOURCE}
    scored = {
        level: tuple(i for i, info in infos.items() if level in info.levels or parts.get(level) in info.levels)
        for level in Level
    }
    return {level: columns for level, columns in scored.items() if columns}


def labels_of(names: Sequence[str]) -> list[str]:
    """Short names: without options where that tells them apart.

    >>> labels_of(["overlap", "overlap:values", "align:models/minilm,dtype=fp32"])
    ['overlap', 'overlap:values', 'align']
    """
    kinds = [name.partition(":")[0] for name in names]
    counted = Counter(kinds)
    return [kind if counted[kind] == 1 else name for kind, name in zip(kinds, names, strict=True)]
