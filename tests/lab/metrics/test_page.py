"""The table of docs/metrics.md is made from the catalogue: `python -m tests.lab.metrics.test_page` writes it anew."""

import re
from pathlib import Path

from veridical_lab.metrics.registry import METRICS

PAGE = Path(__file__).parents[3] / "docs" / "metrics.md"
PART = re.compile(r"(?<=<!-- metrics -->\n).*(?=<!-- /metrics -->)", re.DOTALL)


def table() -> str:
    """One row a metric, in the catalogue's order."""
    rows = ["| name | level | what it is | range, best in bold | threshold | source |", "|---|---|---|---|---|---|"]
    for m in METRICS.values():
        low, high = (f"{end:g}".replace("-inf", "-∞") for end in (m.low, m.high))
        low, high = (low, f"**{high}**") if m.higher_is_better else (f"**{low}**", high)
        asks = "yes" if m.needs_threshold else "no"
        rows.append(f"| `{m.name}` | {m.level} | {m.definition} | {low} to {high} | {asks} | {m.source} |")
    return "\n".join(rows) + "\n"


def test_the_table_is_in_step():
    found = PART.search(PAGE.read_text("utf-8"))
    assert found[0] == table(), "run: python -m tests.lab.metrics.test_page"


if __name__ == "__main__":
    PAGE.write_text(PART.sub(lambda _: table(), PAGE.read_text("utf-8")), "utf-8")
