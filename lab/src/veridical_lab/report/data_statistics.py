"""Show the statistics of a labelled data set as text."""

from __future__ import annotations

from veridical_lab.datasets.stats import DataStatistics


def statistics_text(statistics: DataStatistics) -> str:
    """Write one line for each count, with the name of the count first."""
    s = statistics
    share = f"{s.hallucinated_responses / max(s.labelled_responses, 1):.1%}"
    counts = {
        "cases": s.cases,
        "documents": s.documents,
        "labelled responses": s.labelled_responses,
        "of them hallucinated": f"{s.hallucinated_responses} ({share})" if s.labelled_responses else 0,
        "not judged": s.not_judged,
        "marked spans": s.marked_spans,
        "marked characters": f"{s.marked_characters} of {s.characters} "
        f"({s.marked_characters / max(s.characters, 1):.1%})",
        "omitted passages": s.omitted_passages,
        "annotators' judgements": s.annotations,
        "groups": ", ".join(f"{name} ({count} values)" for name, count in s.groups.items()) or "none",
        "hash": s.hash,
    }
    return "".join(f"{name:<24}{count}\n" for name, count in counts.items())
