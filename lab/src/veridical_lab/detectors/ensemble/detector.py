"""Several detectors as one, with the contribution of each; as a cascade, only as many of them as are needed.

A member that cannot be used (not installed, its folder gone, a case that it refuses) is left out with a note. The
remaining members get the weights that were fitted for them. If none remains, nothing is judged.
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


MemberScores = Sequence[Judgement | str | None]  # per member: its judgement, why there is none, or None if not asked


class Ensemble:
    """Several detectors combined by fitted weights, or asked in turn until one decides (`veridical train ensemble`).

    Every score is the fitted probability given the members that gave a score; without a fit it is their mean. Verdicts
    are about words of the response. `provenance` has each member's score, its contribution to the log-odds and its
    share of the decision; `reason` says the same in words.

    Args:
        members: The detectors in the order of the fit; `Missing` for one that cannot be used.
        fitted: The fit for these members; None: the mean of their scores.
        cascade: Whether to ask the members one after the other, until one decides.
        name: Default: "ensemble".
    """

    info = DetectorInfo(needs_chat_model=True)  # only if a member does

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
        """Return the detector for `ensemble:FOLDER[,cascade=yes,member2=SPEC]`, or the mean for `ensemble:SPEC,SPEC…`.

        The user did not write the specs in a folder, so they may not say how to reach a chat model
        (`DetectorContext.artifact`). `member2=SPEC` gives the current place of the second member.
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
        """The threshold of each fitted level; none for a mean."""
        return {} if self.fitted is None else {level: fit.threshold for level, fit in self.fitted.levels.items()}

    def fingerprint(self) -> dict[str, Any]:
        """Return everything the scores depend on: the fit, the usable members, and whether it is a cascade."""
        self._compare()
        fitted: dict[str, Any] = {}
        if self.fitted is not None:
            document = parse(encode(self.fitted))
            fitted = {"fitted": digest_of([document["levels"], document.get("cascade")])}
        used = [None if isinstance(m, Missing) else fingerprint_of(m) for m in self.members]
        return {**fitted, "members": used, "cascade": bool(self.stages)}

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        """Judge each case; `InputError` for a member that differs from the fitted one."""
        if not cases:
            return []
        self._compare()
        by_case: list[list[Judgement | str | None]] = [[None] * len(self.members) for _ in cases]
        decided: list[str | None] = [None] * len(cases)
        open_cases = list(range(len(cases)))
        for i in range(len(self.members)):
            for case_i, answer in zip(open_cases, self._ask(i, [cases[k] for k in open_cases]), strict=True):
                by_case[case_i][i] = answer
            if i < len(self.stages):
                left = []
                for case_i in open_cases:
                    probability = self._response(by_case[case_i])[0]
                    if self.stages[i].decides(probability):
                        decided[case_i] = f"{self.names[i]}, {i + 1} of {len(self.members)} members asked"
                    else:
                        left.append(case_i)
                open_cases = left
        if self.stages:
            last = f"{self.names[-1]}, {len(self.members)} of {len(self.members)} members asked"
            decided = [text or last for text in decided]
        return [self.combine(case, answers, by) for case, answers, by in zip(cases, by_case, decided, strict=True)]

    def combine(self, case: Case, found: MemberScores, decided: str | None = None) -> Judgement:
        """Return the judgement that follows from the members' judgements of `case`.

        Args:
            case: The case.
            found: For each member its judgement, why there is none, or None if it was not asked.
            decided: The member of a cascade that decided, in words.
        """
        judgements = [j if isinstance(j, Judgement) else None for j in found]
        hallucination, parts = self._response(judgements)
        omission, coverage_parts = self._of_one(Level.COVERAGE, coverage_scores(judgements))
        verdicts = self._verdicts(case, judgements) if Level.SPAN in self.levels else ()
        omissions = self._omissions(case, judgements) if Level.SOURCE in self.levels else ()
        provenance = [] if decided is None else [("decided by", decided)]
        provenance += self._shares("response", response_scores(judgements), parts)
        provenance += self._shares("coverage", coverage_scores(judgements), coverage_parts)
        return Judgement(
            case.id,
            self.name,
            None if np.isnan(hallucination) else hallucination,
            None if np.isnan(omission) else omission,
            verdicts,
            omissions,
            self._judged(case, judgements, hallucination),
            (*self._notes(found), *self._left_out(judgements)),
            Usage.total(j.usage for j in judgements if j is not None),
            self._reason(parts),
            tuple(sorted(provenance)),
            self._judged_sources(case, judgements),
        )

    def _compare(self) -> None:
        """Compare the members with those of the fit, once; a member whose model cannot be loaded becomes `Missing`."""
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
                    hint=f"give the detector of the fit (,member{i + 1}=SPEC), or fit again: veridical train ensemble",
                )
        self._compared = True

    def _ask(self, i: int, cases: Sequence[Case]) -> list[Judgement | str]:
        """Return member `i`'s judgement of each case, or why there is none; a refused case does not stop the others."""
        member = self.members[i]
        if isinstance(member, Missing):
            return [f"{self.names[i]} cannot be used: {member.why}"] * len(cases)
        try:
            return list(judge(member, cases))
        except _UNUSABLE as error:
            if len(cases) == 1:
                return [f"{self.names[i]} could not judge this: {error}"]
        return [answer for case in cases for answer in self._ask(i, [case])]

    def _response(self, answers: MemberScores) -> tuple[float, Floats]:
        """Return the response-level score (NaN without one), and what each member adds to it."""
        return self._of_one(Level.RESPONSE, response_scores([j if isinstance(j, Judgement) else None for j in answers]))

    def _of_one(self, level: Level, scores: Floats) -> tuple[float, Floats]:
        if level not in self.levels:
            return float("nan"), np.full(len(scores), np.nan)
        combined, parts = self.levels[level].combine(scores[None])
        return float(combined[0]), parts[0]

    def _raised_by(self, parts: Floats) -> str | None:
        """Return the members that make a word more suspicious than average, in words."""
        names = [name for name, part in zip(self.names, parts.tolist(), strict=True) if part > 0]
        return f"raised by {', '.join(names)}" if names else None

    def _verdicts(self, case: Case, judgements: Sequence[Judgement | None]) -> tuple[Verdict, ...]:
        """Return one verdict per word that a member's verdict is about and that can be scored."""
        table = word_scores(case, judgements)
        probabilities, parts = self.levels[Level.SPAN].combine(table.scores)
        evidence = evidence_by_word(table.units, (v for j in judgements if j is not None for v in j.verdicts))
        return tuple(
            Verdict(span, float(probabilities[i]), evidence=evidence[i], reason=self._raised_by(parts[i]))
            for i, span in enumerate(table.spans())
            if table.named[i] and not np.isnan(probabilities[i])
        )

    def _omissions(self, case: Case, judgements: Sequence[Judgement | None]) -> tuple[Omission, ...]:
        """Return one omission per run of words with equal scores that a member's omission is about.

        The words of a run have only blanks between them.
        """
        omissions = []
        for id, table in source_word_scores(case, judgements).items():
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
        """Return score, contribution, share of the decision and cost of each contributing member, as provenance."""
        total = np.nansum(np.abs(parts))
        pairs = []
        for i, name in enumerate(self.names):
            if not np.isnan(parts[i]):
                share = f", {abs(parts[i]) / total:.0%} of the decision" if total > 0 else ""
                cost = "" if self.fitted is None else f", {self.fitted.members[i].seconds:.2g} s"
                pairs.append((f"{level}: {name}", f"score {scores[i]:.3f}, adds {parts[i]:+.3f}{share}{cost}"))
        return pairs

    def _reason(self, parts: Floats) -> str | None:
        """Return in words which members raise and lower the response's score, the largest share first."""
        order = [i for i in np.argsort(-np.abs(np.nan_to_num(parts)), kind="stable") if not np.isnan(parts[i])]
        total = sum(abs(parts[i]) for i in order)
        shown = [
            f"{self.names[i]} {'raises' if parts[i] > 0 else 'lowers'} the score ({abs(parts[i]) / total:.0%})"
            for i in order
            if parts[i]
        ]
        return "; ".join(shown) or None

    def _judged(
        self, case: Case, judgements: Sequence[Judgement | None], hallucination: float
    ) -> tuple[Span, ...] | None:
        """Return the spans that at least one member judged; None for the whole response if it has a score."""
        answered = [j for j in judgements if j is not None]
        if Level.RESPONSE not in self.levels and Level.SPAN not in self.levels:
            return None if any(j.judged != () for j in answered) else ()
        scored = [j for j in answered if j.judged != () and (j.hallucination is not None or j.verdicts or j.judged)]
        if any(j.judged is None for j in scored) and not np.isnan(hallucination):
            return None
        return tuple(union(span for j in scored for span in judged_spans(case, j)))

    def _judged_sources(self, case: Case, judgements: Sequence[Judgement | None]) -> tuple[SourceSpan, ...] | None:
        """Return the spans of sources to cover that at least one member judged; None for all of them."""
        scores = coverage_scores(judgements)
        scored = [
            j for j, score in zip(judgements, scores.tolist(), strict=True) if j is not None and not np.isnan(score)
        ]
        if not any(source.must_cover for source in case.sources) or any(j.judged_sources is None for j in scored):
            return None
        by_source: dict[str, list[Span]] = {}
        for judgement in scored:
            for id, spans in judged_source_spans(case, judgement).items():
                by_source.setdefault(id, []).extend(spans)
        return tuple(SourceSpan(id, span) for id, spans in by_source.items() for span in union(spans))

    def _notes(self, answers: MemberScores) -> list[str]:
        """Return why members gave no judgement, and their own notes."""
        notes = []
        for name, answer in zip(self.names, answers, strict=True):
            if isinstance(answer, str):
                notes.append(answer)
            elif answer is not None:
                own_notes = answer.notes or (("did not judge this",) if answer.judged == () else ())
                notes += [f"{name}: {note}" for note in own_notes]
        return notes

    def _left_out(self, judgements: Sequence[Judgement | None]) -> list[str]:
        """Return a note on the kinds of scores that members gave and that were not fitted."""
        answered = [j for j in judgements if j is not None]
        kinds = {
            Level.RESPONSE: ("the score of the whole response", any(j.hallucination is not None for j in answered)),
            Level.SPAN: ("the scores of words", any(j.verdicts for j in answered)),
            Level.COVERAGE: ("coverage", any(j.omission is not None for j in answered)),
            Level.SOURCE: ("the scores of source words", any(j.omissions for j in answered)),
        }
        missing = [what for level, (what, applies) in kinds.items() if applies and level not in self.levels]
        return [f"{', '.join(missing)}: left out, for nothing was fitted for it"] if missing else []


def columns_by_level(infos: Mapping[int, DetectorInfo]) -> dict[Level, tuple[int, ...]]:
    """Return the members that score each level; the highest word stands for the whole if need be.

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
    """Return short names: without options, if that keeps them distinct.

    >>> labels_of(["overlap", "overlap:values", "align:models/minilm,dtype=fp32"])
    ['overlap', 'overlap:values', 'align']
    """
    kinds = [name.partition(":")[0] for name in names]
    counted = Counter(kinds)
    return [kind if counted[kind] == 1 else name for kind, name in zip(kinds, names, strict=True)]
