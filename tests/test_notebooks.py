"""Each notebook runs from its first cell to its last, on small samples."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from veridical.detectors.default.detector import PACKAGED

FOLDER = Path(__file__).parents[1] / "notebooks"
READER = "{models}/reader-6m"
PARAMETERS: dict[str, dict[str, object]] = {
    "check_answers": {},
    "chang2024_perspectives": {"DATA": "{data}/perspectrum", "MODEL": READER, "SAMPLE": 3},
    "liu2022_without_a_source": {"DATA": "xsum_token:{data}/xsum_token", "MODEL": READER, "SAMPLE": 60},
    "george2023_factored": {
        "DATA": "summedits:{data}/summedits",
        "CRITICS": ["overlap:values", "verify:overlap:values"],
        "SAMPLE": 12,
    },
    "chwang2024_probes": {"DATA": "e2e:{data}/e2e", "MODEL": READER, "SAMPLE": 60},
}


@pytest.mark.skipif(not PACKAGED.is_dir(), reason="the default detector is not in this checkout")
@pytest.mark.parametrize("name", PARAMETERS)
@pytest.mark.timeout(300)
def test_notebook_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    parameters = PARAMETERS[name]
    if parameters:
        places = {part: request.getfixturevalue(f"shared_{part}") for part in ("data", "models")}
        parameters = {k: v.format(**places) if isinstance(v, str) else v for k, v in parameters.items()}
    monkeypatch.chdir(tmp_path)
    _display(monkeypatch)
    cells = json.loads((FOLDER / f"{name}.ipynb").read_text("utf-8"))["cells"]
    names: dict[str, object] = {}
    for number, cell in enumerate(cells):
        if cell["cell_type"] != "code":
            continue
        exec(compile("".join(cell["source"]), f"{name}, cell {number}", "exec"), names)
        if "parameters" in cell["metadata"].get("tags", ()):
            assert parameters.keys() <= names.keys()
            names.update(parameters)


def test_every_notebook_is_tested_and_holds_no_outputs() -> None:
    notebooks = {path.stem: json.loads(path.read_text("utf-8")) for path in FOLDER.glob("*.ipynb")}
    assert notebooks.keys() == PARAMETERS.keys()
    assert not [cell for notebook in notebooks.values() for cell in notebook["cells"] if cell.get("outputs")]


def _display(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand in for IPython, which shows text and HTML."""
    module = ModuleType("IPython.display")
    for name in ("HTML", "Markdown"):
        setattr(module, name, str)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    sys.modules["IPython"].version_info = (9, 0)  # type: ignore[attr-defined]  # matplotlib asks for it
