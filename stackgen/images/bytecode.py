"""Byte-compile trees of packages with the interpreter that runs this text.

The text of this file runs inside the base (``python -c TEXT FOLDER JOBS``): standard library
alone, Python 3.7 and newer, and no import of ours. Each child of FOLDER is the root of a file
system; bytecode names its source by the path below that root.

The same sources give the same bytes. Bytecode marks what is referred to from elsewhere in the
process, so a process that has compiled other files before writes other bytes: each batch of files
of one tree is compiled by a process of its own, forked from a parent that never compiles.

Modules of tests (``tests/test_*.py``) get no bytecode: a test runner alone imports them, and to
compile those of NumPy takes three times as long as the rest of it.
"""

import errno
import os
import py_compile
import re
import sys

BATCH = 64
TEST_MODULE = re.compile(r"/tests?/(?:.*/)?test_[^/]*\.py$")
OPEN = "open"
NEVER_OPENED = 75  # EX_TEMPFAIL


def sources(root: str) -> "list[tuple[str, str]]":
    """Return (file, the name that its bytecode carries) of a tree, sorted, without tests."""
    found = []
    for folder, _, names in os.walk(root):
        for name in names:
            path = f"{folder}/{name}"
            if name.endswith(".py") and not TEST_MODULE.search(path):
                found.append((path, "/" + os.path.relpath(path, root)))
    return sorted(found)


def batches(folder: str) -> "list[list[tuple[str, str]]]":
    """Return the sources of all trees in batches of one tree, the largest first.

    So the last processes end at about the same time. What is in a batch depends on its tree alone.
    """

    def size(batch: "list[tuple[str, str]]") -> int:
        return sum(os.stat(path).st_size for path, _ in batch)  # noqa: PTH116 # no pathlib here

    found = []
    for tree in sorted(entry.path for entry in os.scandir(folder)):
        files = sources(tree)
        found += [files[start : start + BATCH] for start in range(0, len(files), BATCH)]
    return sorted(found, key=size, reverse=True)


def compile_batch(batch: "list[tuple[str, str]]") -> int:
    """Compile each file that is valid for this interpreter, and pass over the others.

    Returns 0, or the number of the error where the disk takes no more.
    """
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    for path, name in batch:
        try:
            py_compile.compile(path, dfile=name, doraise=True, invalidation_mode=mode)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                return errno.ENOSPC
        except (py_compile.PyCompileError, RecursionError, MemoryError):
            pass
    return 0


def wait_for(gate: str) -> None:
    """Wait until the process that lays out the trees unlocks a file, which says that all is there.

    It holds the file's lock meanwhile, so that it may also be killed: then nothing is compiled.
    """
    import fcntl

    handle = os.open(gate, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_SH)
    if os.read(handle, len(OPEN)) != OPEN.encode():
        sys.exit(NEVER_OPENED)
    os.close(handle)


def end_with_parent(pipe: int) -> None:
    """Have the kernel end this process and those that it forks once the other end is closed.

    Only our parent has the other end, so that is when it ends, also by SIGKILL.
    """
    import fcntl
    import select

    os.setpgid(0, 0)
    fcntl.fcntl(pipe, fcntl.F_SETOWN, -os.getpid())  # the group: SIGIO, which ends a process
    fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select([pipe], [], [], 0)[0]:
        sys.exit("the parent ended before")


def main(folder: str, jobs: int, gate: str = "", pipe: str = "") -> None:
    """Compile all trees, ``jobs`` batches at a time; end with an error unless all were done.

    With a ``gate``, this waits until the trees are there; with the number of a ``pipe``, it ends
    with the process that has the other end (Linux).
    """
    if gate:
        wait_for(gate)
    if pipe and sys.platform == "linux":
        end_with_parent(int(pipe))
    running = failed = 0
    for batch in batches(folder):
        if running == jobs:
            failed |= os.wait()[1]
            running -= 1
        if os.fork() == 0:
            status = 1
            try:
                status = compile_batch(batch)
            finally:
                os._exit(status)
        running += 1
    for _ in range(running):
        failed |= os.wait()[1]
    if failed:  # Without its bytecode, a tree would pass for another one of the same wheel.
        full = failed >> 8 == errno.ENOSPC
        sys.exit(os.strerror(errno.ENOSPC) if full else f"a compiling process ended with {failed}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
