"""What ``stackgen images bases`` may have to tell."""

from stackgen.model.stacks import BaseContent, BaseEntry, BasesReport, Readiness

_READY = BaseEntry(
    name="openblas",
    summary="Python 3.11 with OpenBLAS",
    state=Readiness.READY,
    why="",
    fix="",
    ways=("debootstrap bookworm",),
    packages=("libopenblas0-pthread",),
    content=BaseContent(
        image_id="sha256:" + "a" * 64,
        python="CPython 3.11.2",
        libc="glibc 2.36",
        machine="x86_64",
        distribution="debian 12",
        tags=914,
        first_tag="cp311-cp311-manylinux_2_36_x86_64",
        blas=(("libopenblas0-pthread", "0.3.21+ds-4"),),
        size=216_600_346,
        origin="debootstrap bookworm",
    ),
)
_OTHER = BaseEntry(
    name="py37",
    summary="Python 3.7, for TensorFlow 1.13 to 1.15",
    state=Readiness.POSSIBLE,
    why="",
    fix="",
    ways=(
        "registry image python@sha256:046fcd03dd0e",
        "debootstrap bookworm with a copy of this machine's Python 3.7",
    ),
    packages=(),
)
_NO_WAY = BaseEntry(
    name="trixie-py313",
    summary="Python 3.13 on Debian trixie",
    state=Readiness.IMPOSSIBLE,
    why="registry image python@sha256:9662417aace5: no such host\n       "
    "debootstrap trixie: debootstrap is not installed",
    fix="install debootstrap and run as root, or take an image that the engine has: --base IMAGE",
    ways=("registry image python@sha256:9662417aace5", "debootstrap trixie"),
    packages=(),
)
_UNKNOWN = BaseEntry(
    name="bookworm-py311",
    summary="Python 3.11 on Debian bookworm",
    state=Readiness.UNKNOWN,
    why="no container engine answers (no such file or directory)",
    fix="start Docker, set DOCKER_HOST, or use: --executor virtualenv",
    ways=("registry image python@sha256:0bee7276f83e", "debootstrap bookworm"),
    packages=(),
)

BASE_REPORTS = {
    "bases": BasesReport(bases=(_READY, _OTHER)),
    "bases-failed": BasesReport(bases=(_READY, _NO_WAY), failed=("trixie-py313",)),
    "bases-no-engine": BasesReport(bases=(_UNKNOWN,)),
}
