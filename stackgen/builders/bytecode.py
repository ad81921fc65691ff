"""Byte-compile trees of packages with the interpreter that runs this text.

The text of this file runs inside the base (``python -c TEXT FOLDER JOBS``): standard library
alone, Python 3.7 and newer, and no import of ours. Each child of FOLDER is the root of a file
system; bytecode names its source by the path below that root.

The same sources give the same bytes. Bytecode marks what is referred to from elsewhere in the
process, so a process that has compiled other files before writes other bytes: each batch of files
of one tree is compiled by a process of its own, forked from a parent that never compiles.
"""

import contextlib
import os
import py_compile
import sys

BATCH = 64


def sources(root: str) -> "list[tuple[str, str]]":
    """Return (file, the name that its bytecode carries) of a tree, sorted."""
    found = []
    for folder, _, names in os.walk(root):
        for name in names:
            if name.endswith(".py"):
                path = f"{folder}/{name}"
                found.append((path, "/" + os.path.relpath(path, root)))
    return sorted(found)


def compile_batch(batch: "list[tuple[str, str]]") -> None:
    """Compile each file that is valid for this interpreter, and pass over the others."""
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    for path, name in batch:
        with contextlib.suppress(OSError, RecursionError, MemoryError):
            py_compile.compile(path, dfile=name, quiet=2, invalidation_mode=mode)


def main(folder: str, jobs: int) -> None:
    """Compile all trees, ``jobs`` batches at a time."""
    running = 0
    for tree in sorted(entry.path for entry in os.scandir(folder)):
        files = sources(tree)
        for start in range(0, len(files), BATCH):
            if running == jobs:
                os.wait()
                running -= 1
            if os.fork() == 0:
                try:
                    compile_batch(files[start : start + BATCH])
                finally:
                    os._exit(0)
            running += 1
    for _ in range(running):
        os.wait()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
