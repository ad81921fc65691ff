"""What advise proposes to measure where it knows nothing."""

import os
from pathlib import Path

import pytest

from stackgen.campaign.options import IndexOptions
from stackgen.commands.advise import advise
from stackgen.errors import EvidenceError
from stackgen.model.progress import NullProgress
from stackgen.storage.paths import find_paths


@pytest.mark.parametrize(
    ("pins", "fix"),
    [
        ("numpy==1.26.4\n", "run: stackgen explore --from "),
        ("requests==2.32.3\n", "nothing in it varies by itself"),
    ],
)
def test_a_lock_in_which_nothing_varies_is_not_sent_to_explore(
    tmp_path: Path, pins: str, fix: str
) -> None:
    lock = tmp_path / "requirements.txt"
    lock.write_text(pins)
    paths = find_paths({"HOME": str(tmp_path)}, kb=tmp_path / "kb.db")
    with pytest.raises(EvidenceError) as unknown:
        advise(
            lock,
            IndexOptions(no_index=True),
            paths,
            {"PIP_CONFIG_FILE": os.devnull},
            NullProgress(),
        )
    assert unknown.value.fix.startswith(fix)
