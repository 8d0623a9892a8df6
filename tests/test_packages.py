"""Each package builds a wheel. The product works alone; its laboratory and plugins join it by entry points."""

from __future__ import annotations

import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.processes import LIMIT

ROOT = Path(__file__).parents[1]
PLUGINS = [ROOT / "examples" / "plugins" / name for name in ("detector", "dataset", "command")]
Install = Callable[..., Path]


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("wheels")
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index", "--no-build-isolation",
        "--wheel-dir", folder, ROOT, ROOT / "lab", *PLUGINS)  # fmt: skip
    return {wheel.name.split("-")[0]: wheel for wheel in folder.glob("*.whl")}


@pytest.fixture(scope="module")
def installed(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Install:
    """The command `veridical` of an environment with some of the wheels, and with what they depend on."""
    dependencies = tmp_path_factory.mktemp("dependencies")
    for path in Path(pytest.__file__).parents[1].iterdir():
        if not path.name.startswith(("veridical", "_veridical", "__editable__")) and path.suffix != ".pth":
            (dependencies / path.name).symlink_to(path)

    def install(*names: str) -> Path:
        folder = tmp_path_factory.mktemp("environment")
        venv.create(folder, symlinks=True)
        (packages,) = folder.glob("lib/python*/site-packages")
        (packages / "dependencies.pth").write_text(f"{dependencies}\n")
        run(sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install", "--quiet", "--no-deps",
            "--no-index", *(wheels[name] for name in names))  # fmt: skip
        return folder / "bin" / "veridical"

    return install


def run(*command: object, code: int = 0) -> str:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, cwd="/", timeout=LIMIT, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def test_the_product_alone(installed: Install) -> None:
    veridical = installed("veridical")
    assert "FLAGGED" in run(veridical, "check", ROOT / "examples" / "demo.jsonl", code=1)
    assert "bench is a command of veridical-lab" in run(veridical, "bench", code=2)
    assert "align" not in [line.split()[0] for line in run(veridical, "detectors").splitlines()]
    assert "unknown detector 'align'" in run(veridical, "check", ROOT / "README.md", "--detector", "align:x", code=2)


def test_the_laboratory_joins_it(installed: Install) -> None:
    veridical = installed("veridical", "veridical_lab")
    assert "Usage" in run(veridical, "bench", "--help")
    assert "align" in [line.split()[0] for line in run(veridical, "detectors").splitlines()]
    assert "xsum_token" in run(veridical, "data", "list")
    assert "comparison" in run(veridical, "schema").split()


def test_plugins_join_it(installed: Install, tmp_path: Path) -> None:
    veridical = installed("veridical", "veridical_repeats", "veridical_pairs_csv", "veridical_count")
    response, source, pairs = (tmp_path / name for name in ("response.txt", "source.txt", "pairs.csv"))
    response.write_text("It is very very very old.")
    source.write_text("Cats like fish.")
    rows = [f"It is {word}.,It is red in room {i}.,{label}" for i in range(30) for word, label in LABELLED]
    pairs.write_text("\n".join(["response,source,label", *rows]))
    assert "of 6 words are flagged" in run(veridical, "count", response, source, "-d", "overlap", code=1)
    assert "“very very very”" in run(veridical, "check", response, "--detector", "repeats:most=2", code=1)
    code = "import veridical_repeats as r, veridical.testing as t; t.assert_detector_contract(r.Repeats())"
    run(veridical.parent / "python", "-c", code)
    run(veridical, "calibrate", "overlap", f"pairs_csv:{pairs}", "--levels", "response", "--out", tmp_path / "fitted")
    assert "FLAGGED" in run(veridical, "check", response, source, "-d", f"calibrated:{tmp_path / 'fitted'}", code=1)


LABELLED = [("red", "supported"), ("blue", "unsupported")]
