"""The command line within the process of the tests, which saves the start of an interpreter."""

import io
import os
import sys
import traceback
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from subprocess import CompletedProcess
from unittest.mock import patch

from stackgen.__main__ import main


def run_command(
    *words: str, folder: Path, environ: Mapping[str, str] = os.environ
) -> "CompletedProcess[str]":
    """Run ``stackgen WORDS`` in a folder, with these environment variables alone.

    What comes with stackgen is left out, unless ``STACKGEN_SEED`` is among them.

    What belongs to a process (signals, imports, an end by force) is for tests that start one.
    """
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    before = Path.cwd()
    os.chdir(folder)
    try:
        with (
            patch.dict(os.environ, {"STACKGEN_SEED": "", **environ}, clear=True),
            patch.object(sys, "argv", ["stackgen", *words]),
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            code = _exit_code()
    finally:
        os.chdir(before)
    texts = (each.buffer.getvalue().decode() for each in (out, err))
    return CompletedProcess(["stackgen", *words], code, *texts)


def _exit_code() -> int:
    try:
        main()
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        sys.stderr.write(f"{end.code}\n")
        return 1
    except Exception:  # noqa: BLE001 # as the interpreter does
        traceback.print_exc()
        return 1
    return 0
