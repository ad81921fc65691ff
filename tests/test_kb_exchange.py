"""``stackgen kb export``, ``import``, ``origins`` and ``remove`` as commands."""

import json
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.knowledge import samples
from tests.laboratory import Laboratory


def recorded(root: Path, *numbers: int) -> Laboratory:
    root.mkdir()
    found = Laboratory(root=root, index=root.as_uri())
    samples.base(found.kb, *map(samples.inspection, numbers))
    return found


def test_an_export_is_imported_listed_trusted_and_removed(tmp_path: Path) -> None:
    mine, theirs = recorded(tmp_path / "mine", 1), recorded(tmp_path / "theirs", 2, 3)
    file = tmp_path / "team.jsonl"
    assert theirs.run("kb", "export", "--output", str(file)).returncode == 0
    assert theirs.run("kb", "export").stdout == file.read_text()
    added = mine.run("kb", "import", str(file))
    assert (added.returncode, added.stdout) == (0, "2 inspections added\n")
    found = json.loads(mine.run("kb", "origins", "--json").stdout)
    (other,) = [each for each in found if not each["own"]]
    assert (other["label"], other["inspections"], other["trusted"]) == ("team.jsonl", 2, False)
    assert "yes" in mine.run("kb", "origins", "--trust", other["id"][:8]).stdout.splitlines()[1]
    removed = mine.run("kb", "remove", "--origin", other["id"][:8])
    assert removed.stdout == f"2 inspections of origin {other['id'][:12]} removed\n"


def test_a_damaged_export_changes_nothing_and_says_so(tmp_path: Path) -> None:
    mine = recorded(tmp_path / "mine", 1)
    file = tmp_path / "team.jsonl"
    file.write_text("".join(mine.run("kb", "export").stdout.splitlines(keepends=True)[:-1]))
    done = mine.run("kb", "import", str(file))
    assert (done.returncode, done.stdout) == (10, "")
    assert "it was cut off" in done.stderr


def test_an_export_that_is_not_read_to_its_end_leaves_no_traceback(tmp_path: Path) -> None:
    mine = recorded(tmp_path / "mine", *range(400))  # more than a pipe holds
    words = [sys.executable, "-m", "stackgen", "kb", "export"]
    running = subprocess.Popen(
        words, env=mine.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert running.stdout
    assert running.stderr
    assert running.stdout.readline().startswith("{")
    running.stdout.close()
    assert running.wait() == 1
    assert running.stderr.read() == ""
    running.stderr.close()


def test_an_export_that_fails_leaves_what_is_there(tmp_path: Path) -> None:
    mine = recorded(tmp_path / "mine", 1)
    file = tmp_path / "team.jsonl"
    file.write_text("an earlier one")
    with sqlite3.connect(mine.kb) as raw:
        raw.execute("UPDATE inspection_rows SET loops = 9")
    assert mine.run("kb", "export", "--output", str(file)).returncode == 10
    assert file.read_text() == "an earlier one"


def test_an_export_replaces_no_pipe_and_no_link(tmp_path: Path) -> None:
    mine = recorded(tmp_path / "mine", 1)
    pipe, link, file = (tmp_path / name for name in ("pipe", "link", "file"))
    os.mkfifo(pipe)
    link.symlink_to(file)
    file.write_text("")
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    assert mine.run("kb", "export", "--output", str(pipe)).returncode == 0
    assert (stat.S_ISFIFO(pipe.stat().st_mode), os.read(reader, 9)) == (True, b'{"format"')
    os.close(reader)
    assert mine.run("kb", "export", "--output", str(link)).returncode == 0
    assert (link.is_symlink(), file.read_text()[:9]) == (True, '{"format"')


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen")
def test_a_signature_holds_for_an_allowed_signer_and_the_very_file(tmp_path: Path) -> None:
    mine, theirs = recorded(tmp_path / "mine"), recorded(tmp_path / "theirs", 2)
    key, file = tmp_path / "key", tmp_path / "team.jsonl"
    made = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)]
    subprocess.run(made, check=True)
    signers = tmp_path / "allowed_signers"
    signers.write_text(f"team@example.org {key.with_suffix('.pub').read_text()}")
    signed = theirs.run("kb", "export", "--output", str(file), "--sign", str(key))
    assert (signed.returncode, signed.stderr) == (0, "")
    file.write_text(file.read_text() + "\n")
    options = ("kb", "import", str(file), "--signers", str(signers))
    changed = mine.run(*options)
    assert (changed.returncode, changed.stdout) == (10, "")
    assert "its signature does not hold" in changed.stderr
    assert theirs.run("kb", "export", "--output", str(file)).returncode == 0
    assert mine.run(*options).stdout == "1 inspection added; signed by team@example.org\n"
    signers.write_text("")
    assert mine.run(*options).returncode == 10


def test_without_ssh_keygen_a_signature_is_refused_in_words(tmp_path: Path) -> None:
    mine = recorded(tmp_path / "mine", 1)
    options = f"kb export --output {tmp_path / 'x'} --sign key"
    done = mine.shell(f"PATH={tmp_path}; stackgen {options}")
    assert done.returncode == 2
    assert "signatures need ssh-keygen" in done.stderr
    assert not (tmp_path / "x").exists()
