"""Verifications for golden files and tests of what is printed."""

from dataclasses import replace

from stackgen.model.reports.locks import Validation, Validity, Verification

HOLDS = Validation(validator="uv 0.9.0", validity=Validity.HOLDS)
_ALSO = Validation(validator="pip-tools 7.5.0", validity=Validity.HOLDS)
OTHER_PYTHON = Validation(
    validator="pip-tools 7.5.0",
    validity=Validity.UNKNOWN,
    reasons=("it resolves only for the Python that runs it, which is 3.11.7",),
)
CONFLICT = Validation(
    validator="uv 0.9.0",
    validity=Validity.FAILS,
    reasons=(
        "Because tensorflow==2.12.1 depends on numpy>=1.22,<=1.24.3 and you require "
        "numpy==2.0.0, we can conclude that your requirements are unsatisfiable.",
    ),
)
INCOMPLETE = Validation(
    validator="pip-tools 7.5.0",
    validity=Validity.FAILS,
    missing=("six==1.17.0",),
    superfluous=("chardet==5.2.0", "idna==3.10"),
)
NO_INDEX = Validation(
    validator="uv 0.9.0",
    validity=Validity.UNKNOWN,
    reasons=("the package index did not answer",),
    unreachable=True,
)
TOO_MUCH = replace(OTHER_PYTHON, reasons=("it came to no verdict within 120 s",))

BOTH_HOLD = Verification(
    path="Pipfile.lock",
    target="Python 3.11.7",
    pins=("numpy==1.23.5", "tensorflow==2.12.1"),
    validations=(HOLDS, _ALSO),
)
VERIFICATIONS = {
    "holds": BOTH_HOLD,
    "one-validator": replace(
        BOTH_HOLD,
        target="bookworm-py311 (Python 3.11.2)",
        validations=(HOLDS, OTHER_PYTHON),
        skipped=("mine: comes from a repository, not from an index",),
        superfluous_unknown="a package that is on no index may require some of them",
    ),
    "fails": replace(BOTH_HOLD, validations=(CONFLICT, INCOMPLETE)),
    "no-verdict": replace(BOTH_HOLD, pins=("numpy==1.23.5",), validations=(NO_INDEX, TOO_MUCH)),
}
