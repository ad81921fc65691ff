"""The option groups that no campaign needs, as a user gives them.

They are those of ``resolve``, of ``advise`` and of ``pi run``; all others are in
``campaign/options.py``.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from stackgen.model.choices import AdviceType, AuditService, Listing
from stackgen.model.options import option, parse_duration, parse_gpus, parse_names

if TYPE_CHECKING:
    from stackgen.model.evidence import ChangePolicy

DEFAULT_SAMPLES = 30
"""Timings of one process that runs outside of a campaign."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedTargetOptions:
    """What a resolution is for: a base, or a target that is stated; ours by default.

    base: a base's name, an image, or an interpreter. python, platform: either may be "".
    """

    TITLE: ClassVar[str] = "Where stacks run"

    base: str = option("", metavar="NAME", help="Base, image, or Python such as 3.11.")
    python: str = option("", metavar="X.Y", help="Python to resolve for.")
    platform: str = option(
        "", metavar="TAG", help="As manylinux_2_36_x86_64, macosx_14_0_arm64, win_amd64, linux."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingOptions:
    """What is printed of a search space, and which of its stacks.

    explain: a package, or a requirement, whose versions are explained.
    contains: a lock file that may be one of the stacks.
    """

    TITLE: ClassVar[str] = "What is printed"

    count: bool = option(False, help="Print the number of stacks.", common=True)
    one: bool = option(False, help="Print the newest stack.", common=True)
    number: int | None = option(
        None,
        "--list",
        minimum=1,
        metavar="N",
        help="Print N stacks, newest choices first.",
        common=True,
    )
    explain: str = option(
        "",
        metavar="NAME-OR-REQ",
        help="Why versions of it are, or are not, in stacks.",
        common=True,
    )
    contains: Path | None = option(
        None, metavar="LOCK", help="Is this lock one of the stacks, and if not, why?", common=True
    )
    every: bool = option(
        False, "--all", help="List stacks, not choices: the last decided varies first."
    )
    sample: int | None = option(
        None, minimum=1, metavar="N", help="N stacks, spread over the versions that vary."
    )
    uniform: bool = option(False, help="Sample all stacks alike, whatever varies.")
    sample_rest: bool = option(False, help="Sample also what does not vary.")
    cover: bool = option(False, help="Few stacks with every pair of varied versions.")
    seed: int = option(0, help="Seed of samples.")

    @property
    def kind(self) -> Listing:
        """Return which stacks are listed."""
        if self.sample is not None:
            return Listing.UNIFORM if self.uniform else Listing.STRATIFIED
        if self.every:
            return Listing.STACKS
        return Listing.COVER if self.cover else Listing.CHOICES

    @property
    def given(self) -> dict[str, bool]:
        """Return the options that exclude each other, and whether each was given."""
        return {
            "--count": self.count,
            "--one": self.one,
            "--list": self.number is not None,
            "--sample": self.sample is not None,
            "--cover": self.cover,
            "--explain": bool(self.explain),
            "--contains": self.contains is not None,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class VulnerabilityOptions:
    """Where known vulnerabilities are searched; by default nowhere, and that is stated.

    osv_url: another server for the service ``osv``; "" for pip-audit's own.
    """

    TITLE: ClassVar[str] = "Known vulnerabilities"

    osv: Path | None = option(None, metavar="DIR", help="Folder or zip with OSV records of PyPI.")
    audit: AuditService = option(
        AuditService.NONE, help="Send names and versions to this service of pip-audit."
    )
    osv_url: str = option("", metavar="URL", help="Server for --audit osv, in place of its own.")

    @property
    def requested(self) -> bool:
        """Return whether anything is searched."""
        return self.osv is not None or self.audit is not AuditService.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class AdviceOptions:
    """What may be recommended for a lock.

    python: only what was measured on this minor version counts; "" for any.
    """

    TITLE: ClassVar[str] = "What may be recommended"

    kind: AdviceType = option(
        AdviceType.PERFORMANCE,
        flags=("--type",),
        help="performance: what is faster; stable: the newest that never failed; latest: the "
        "newest that fit, measured or not; size: the smallest; security: the fewest known "
        "vulnerabilities. All but latest are shown not to be slower.",
        common=True,
    )
    only: tuple[str, ...] = option(
        (), metavar="NAME", parse=parse_names, help="Change no other package."
    )
    keep: tuple[str, ...] = option(
        (), metavar="NAME", parse=parse_names, help="Do not change this one."
    )
    allow_major: bool = option(
        False,
        help="Recommend new major versions, also where your own requirements do not range over "
        "them.",
    )
    allow_downgrade: bool = option(
        False, help="Recommend older versions as well, where --osv or --audit could check them."
    )
    allow_vulnerable: bool = option(
        False, help="Recommend releases with known vulnerabilities as well."
    )
    python: str = option(
        "", metavar="X.Y", help="Take evidence of this Python alone, and resolve for it."
    )

    @property
    def policy(self) -> "ChangePolicy":
        """Return which changes may be recommended."""
        from stackgen.model.evidence import ChangePolicy

        return ChangePolicy(
            kind=self.kind,
            only=self.only,
            keep=self.keep,
            allow_major=self.allow_major,
            allow_downgrade=self.allow_downgrade,
            allow_vulnerable=self.allow_vulnerable,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureOptions:
    """Whether ``advise`` measures what would decide its answer.

    budget_s: for building and measuring; None measures nothing.
    """

    TITLE: ClassVar[str] = "Measuring what would decide"

    budget_s: float | None = option(
        None,
        flags=("--measure",),
        metavar="TIME",
        help="Measure what would decide the answer, for at most so long, and answer again; "
        "with --dry-run, print the plan. The same command goes on.",
        parse=partial(parse_duration, option="--measure"),
        common=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """What becomes of an advice.

    write: change the lock file. dry_run: show what would change, and change nothing.
    constraints: write the recommended versions there, with their evidence as comments.
    run: let the lock's own tool apply the constraints, where only that may write the lock.
    """

    TITLE: ClassVar[str] = "Changing the lock"

    write: bool = option(False, help="Change the lock file, and nothing else in it.", common=True)
    dry_run: bool = option(
        False, help="Print what --write would change, or what --measure would do."
    )
    constraints: Path | None = option(
        None, metavar="FILE", help="Write the versions there, with their evidence."
    )
    run: bool = option(False, help="With --write: run the tool that alone may write this lock.")

    @property
    def anything(self) -> bool:
        """Return whether anything is to be done with the lock."""
        return self.write or self.dry_run or self.constraints is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalRunOptions:
    """How one indicator is measured in an interpreter as it is.

    python: an interpreter, a virtualenv's folder, or a name on PATH; "" means our own.
    repeats: fresh processes for each combination of parameters.
    gpus: as in ``Limits``; "all" leaves to the user's variables which ones are seen.
    trace: a folder for profiler traces, or None.
    seed: of the order of processes.
    """

    TITLE: ClassVar[str] = "Options"

    python: str = option("", metavar="PATH", help="Interpreter or virtualenv. [default: our own]")
    samples: int = option(DEFAULT_SAMPLES, minimum=1, help="Timings that are kept of a process.")
    repeats: int = option(
        1,
        minimum=1,
        help="Fresh processes of each combination, in random order: shows how far they are "
        "apart. To compare versions of packages, use stackgen explore.",
    )
    gpus: str = option(
        "all",
        metavar="IDS",
        parse=lambda text: "" if text == "none" else parse_gpus(text),
        show=str,
        help="all, none, or numbers like 0,1.",
    )
    trace: Path | None = option(
        None, metavar="DIR", help="Keep a profiler trace of each combination."
    )
    seed: int = option(0, help="Seed of the order of measurements.")
