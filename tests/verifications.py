"""Verifications for golden files and tests of what is printed."""

from dataclasses import replace

from stackgen.model.reports import Judgement, Ruling, Verification

HOLDS = Judgement(judge="uv 0.9.0", ruling=Ruling.HOLDS)
_ALSO = Judgement(judge="pip-tools 7.5.0", ruling=Ruling.HOLDS)
OTHER_PYTHON = Judgement(
    judge="pip-tools 7.5.0",
    ruling=Ruling.NOT_ASKED,
    words=("it judges for the Python alone that runs it, here 3.11.7",),
)
CONFLICT = Judgement(
    judge="uv 0.9.0",
    ruling=Ruling.FAILS,
    words=(
        "Because tensorflow==2.12.1 depends on numpy>=1.22,<=1.24.3 and you require "
        "numpy==2.0.0, we can conclude that your requirements are unsatisfiable.",
    ),
)
INCOMPLETE = Judgement(
    judge="pip-tools 7.5.0",
    ruling=Ruling.FAILS,
    missing=("six==1.17.0",),
    superfluous=("chardet==5.2.0", "idna==3.10"),
)
NO_INDEX = Judgement(
    judge="uv 0.9.0",
    ruling=Ruling.NOT_ASKED,
    words=("the package index did not answer",),
    unreachable=True,
)
TOO_MUCH = replace(OTHER_PYTHON, words=("it came to no verdict within 120 s",))

BOTH_HOLD = Verification(
    path="Pipfile.lock",
    place="Python 3.11.7",
    pins=("numpy==1.23.5", "tensorflow==2.12.1"),
    judgements=(HOLDS, _ALSO),
)
VERIFICATIONS = {
    "holds": BOTH_HOLD,
    "one-judge": replace(
        BOTH_HOLD,
        place="bookworm-py311 (Python 3.11.2)",
        judgements=(HOLDS, OTHER_PYTHON),
        skipped=("mine: comes from a repository, not from an index",),
        unasked="what no index has may need some of them",
    ),
    "fails": replace(BOTH_HOLD, judgements=(CONFLICT, INCOMPLETE)),
    "nobody": replace(BOTH_HOLD, pins=("numpy==1.23.5",), judgements=(NO_INDEX, TOO_MUCH)),
}
