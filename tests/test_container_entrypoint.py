"""The entry point of the container image of stackgen, with another installation in its place."""

import os
import subprocess
import sys
from pathlib import Path

ENTRYPOINT = Path(__file__).parents[1] / "packaging" / "entrypoint.sh"


def install(site: Path, says: str) -> None:
    """Write an installed package of that name which says something when it is run."""
    package, facts = site / "stackgen", site / "stackgen-0.1.0.dist-info"
    package.mkdir(parents=True)
    facts.mkdir()
    (package / "__init__.py").write_text('__version__ = "0.1.0"\n')
    (package / "__main__.py").write_text(f"import sys\nprint({says!r}, *sys.argv[1:])\n")
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: stackgen\nVersion: 0.1.0\n")
    (facts / "RECORD").write_text(f"stackgen/__main__.py,sha256={says},1\n")


def run(script: Path, site: Path, home: Path) -> str:
    environ = os.environ | {"PYTHONPATH": str(site), "STACKGEN_HOME": str(home)}
    words = ["sh", str(script), "kb", "check"]
    done = subprocess.run(
        words, env=environ, cwd=home.parent, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_each_build_of_one_version_runs_its_own_code(tmp_path: Path) -> None:
    script = tmp_path / "entrypoint.sh"
    script.write_text(ENTRYPOINT.read_text().replace("/opt/stackgen/bin/python", sys.executable))
    home = tmp_path / "home"
    for says in ("first", "second"):
        install(tmp_path / says, says)
    assert run(script, tmp_path / "first", home) == "first kb check\n"
    assert run(script, tmp_path / "second", home) == "second kb check\n"
    assert run(script, tmp_path / "first", home) == "first kb check\n"
    assert len(list((home / "package").iterdir())) == 2
