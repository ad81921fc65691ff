"""Commands that measure: explore, compare, bisect, noise."""

import os
import sys
from typing import Annotated

import typer

from stackgen.campaign.options import (
    BaselineOptions,
    BudgetOptions,
    ComparisonOptions,
    CostOptions,
    GoalOptions,
    IndexOptions,
    IndicatorOptions,
    ProcessorOptions,
    ProgramOptions,
    RequirementOptions,
    ScalingOptions,
    SearchOptions,
    SourceOptions,
    TargetOptions,
    VariationOptions,
)
from stackgen.cli.commands import Without
from stackgen.cli.options import (
    AsJson,
    DryRun,
    KnowledgeBase,
    LockOut,
    print_report,
    refuse_no_requirement,
    refuse_redirected_requirement,
    user_paths,
)
from stackgen.report.terminal import open_progress


def explore(
    requirements: RequirementOptions,
    sources: SourceOptions,
    variation: VariationOptions,
    baseline: BaselineOptions,
    indicators: IndicatorOptions,
    program: ProgramOptions,
    budget: BudgetOptions,
    search: SearchOptions,
    comparison: ComparisonOptions,
    goals: GoalOptions,
    target: TargetOptions,
    processors: ProcessorOptions,
    scaling: ScalingOptions,
    cost: CostOptions,
    index: IndexOptions,
    lock_out: LockOut = None,
    kb: KnowledgeBase = None,
    dry_run: DryRun = False,
    json: AsJson = False,
) -> None:
    """Measure which stack runs fastest on this machine.

    Stacks are complete sets of versions that satisfy REQUIREMENT...; some are built and measured
    against each other within the budget. Without --pi, matmul is measured; where NumPy alone
    is explored, sort and ufunc are, too. The same command resumes an earlier run. Exit code 3 means
    that there is no answer yet, 6 that equal stacks were shown to differ.
    """
    refuse_no_requirement(requirements, baseline.around, command="explore")
    from stackgen.campaign.program import read_program
    from stackgen.campaign.request import CampaignRequest
    from stackgen.campaign.user_input import read_measurement, read_stacks, read_user_input
    from stackgen.commands.explore import explore as run
    from stackgen.model.reports.campaigns import ExploreReport
    from stackgen.report.explore import explore_text

    paths = user_paths(kb=kb)
    given = read_user_input(requirements, sources, index, os.environ, around=baseline.around)
    call = read_program(program, budget.budget_s, paths, os.environ, dry_run=dry_run)
    request = CampaignRequest(
        kind="explore",
        stacks=read_stacks(given, variation=variation, baseline=baseline),
        measurement=read_measurement(indicators, comparison, call, goals),
        processors=processors,
        scaling=scaling,
        cost=cost,
        budget=budget,
        search=search,
        target=target,
        index=given.index,
        lock_out=lock_out,
        dry_run=dry_run,
    )
    with open_progress(sys.stderr) as progress:
        found = run(request, paths, os.environ, progress)
    print_report(found, explore_text, json=json)
    if isinstance(found, ExploreReport):
        raise typer.Exit(found.run.exit_code)


def compare(
    a: Annotated[
        str,
        typer.Argument(
            metavar="A",
            help='What B is compared with: a lock file, versions ("numpy==1.26.4 scipy==1.12.0"; '
            "what else they need is chosen, newest first), or the beginning of a stack's id.",
            show_default=False,
        ),
    ],
    b: Annotated[
        str,
        typer.Argument(metavar="B", help="What is compared with A.", show_default=False),
    ],
    indicators: IndicatorOptions,
    program: ProgramOptions,
    budget: BudgetOptions = BudgetOptions(budget_s=900.0),
    comparison: ComparisonOptions = ComparisonOptions(),
    target: TargetOptions = TargetOptions(),
    sources: SourceOptions = SourceOptions(),
    processors: ProcessorOptions = ProcessorOptions(),
    cost: CostOptions = CostOptions(),
    index: IndexOptions = IndexOptions(),
    kb: KnowledgeBase = None,
    dry_run: DryRun = False,
    json: AsJson = False,
) -> None:
    """Measure whether stack B is faster than stack A, and by how much.

    Both are measured in every block until the answer is certain or the budget is spent. The same
    command resumes an earlier run. Exit code 3 means that there is no answer yet.
    """
    refuse_redirected_requirement()
    from stackgen.campaign.program import read_program
    from stackgen.campaign.request import CampaignRequest
    from stackgen.campaign.user_input import read_measurement, read_stacks, read_user_input
    from stackgen.commands.compare import compare as run
    from stackgen.model.reports.campaigns import ExplorePlan
    from stackgen.report.compare import compare_plan_text, compare_text

    paths = user_paths(kb=kb)
    given = read_user_input(RequirementOptions(), sources, index, os.environ)
    call = read_program(program, budget.budget_s, paths, os.environ, dry_run=dry_run)
    request = CampaignRequest(
        kind="compare",
        stacks=read_stacks(given),
        measurement=read_measurement(indicators, comparison, call),
        processors=processors,
        cost=cost,
        budget=budget,
        target=target,
        index=given.index,
        dry_run=dry_run,
    )
    with open_progress(sys.stderr) as progress:
        found = run(a, b, request, paths, os.environ, progress)
    if isinstance(found, ExplorePlan):
        print_report(found, compare_plan_text, json=json)
        return
    print_report(found, compare_text, json=json)
    raise typer.Exit(found.run.exit_code)


Good = Annotated[
    str,
    typer.Argument(
        metavar="GOOD",
        help='The stack that is fast, or runs: a lock file, versions ("numpy==1.26.4 '
        "scipy==1.12.0\"), or the beginning of a stack's id.",
        show_default=False,
    ),
]
Bad = Annotated[
    str,
    typer.Argument(metavar="BAD", help="The stack that is slower, or fails.", show_default=False),
]


def bisect(
    good: Good,
    bad: Bad,
    indicators: IndicatorOptions,
    program: ProgramOptions,
    budget: BudgetOptions = BudgetOptions(budget_s=1800.0),
    comparison: ComparisonOptions = ComparisonOptions(),
    target: TargetOptions = TargetOptions(),
    sources: SourceOptions = SourceOptions(),
    processors: ProcessorOptions = ProcessorOptions(),
    index: IndexOptions = IndexOptions(),
    releases: Annotated[
        bool, typer.Option("--releases", help="Find the first bad release of the culprit, too.")
    ] = False,
    kb: KnowledgeBase = None,
    dry_run: DryRun = False,
    json: AsJson = False,
) -> None:
    """Find which package makes one of two stacks slower, or fail.

    Stacks that take some packages from GOOD and some from BAD are measured until one package, or a
    pair, is responsible with a posterior of .95. The same command resumes an earlier run. Exit code
    3 means that there is no answer yet.
    """
    refuse_redirected_requirement()
    from stackgen.campaign.program import read_program
    from stackgen.campaign.request import CampaignRequest
    from stackgen.campaign.user_input import read_measurement, read_stacks, read_user_input
    from stackgen.commands.bisect import bisect as run
    from stackgen.model.reports.bisect import BisectPlan
    from stackgen.report.bisect import bisect_plan_text, bisect_text

    paths = user_paths(kb=kb)
    given = read_user_input(RequirementOptions(), sources, index, os.environ)
    call = read_program(
        program, budget_s=budget.budget_s, paths=paths, environ=os.environ, dry_run=dry_run
    )
    request = CampaignRequest(
        kind="bisect",
        stacks=read_stacks(given),
        measurement=read_measurement(indicators, comparison, call),
        processors=processors,
        budget=budget,
        target=target,
        index=given.index,
        dry_run=dry_run,
    )
    with open_progress(sys.stderr) as progress:
        found = run(good, bad, request, paths, os.environ, progress, releases=releases)
    if isinstance(found, BisectPlan):
        print_report(found, bisect_plan_text, json=json)
        return
    print_report(found, bisect_text, json=json)
    raise typer.Exit(found.exit_code)


def noise(
    indicators: IndicatorOptions,
    requirements: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="REQUIREMENT...",
            help="One stack of these is measured [default: numpy].",
        ),
    ] = None,
    budget: BudgetOptions = BudgetOptions(budget_s=300.0),
    target: TargetOptions = TargetOptions(),
    processors: ProcessorOptions = ProcessorOptions(),
    index: Annotated[IndexOptions, Without(("compared",))] = IndexOptions(),
    kb: KnowledgeBase = None,
    dry_run: DryRun = False,
    json: AsJson = False,
) -> None:
    """Report how small a difference this machine can show, and how long that takes.

    One stack is measured against itself, for ten minutes at most: all differences are noise.
    Without --pi, NumPy's matmul, sort and ufunc are measured, or the framework's matmul;
    python/pure always is. The same command resumes an earlier run. Exit code 3 means that there is
    no answer yet, 6 that equal runs differ.
    """
    refuse_redirected_requirement()
    from stackgen.campaign.request import CampaignRequest, StackRequest
    from stackgen.campaign.user_input import read_measurement
    from stackgen.commands.noise import noise as run
    from stackgen.model.reports.campaigns import ExplorePlan
    from stackgen.report.noise import noise_plan_text, noise_text
    from stackgen.resolve.requirements import parse_requirements

    request = CampaignRequest(
        kind="noise",
        stacks=StackRequest(requirements=parse_requirements(*(requirements or ("numpy",)))),
        measurement=read_measurement(indicators),
        processors=processors,
        budget=budget,
        target=target,
        index=index,
        dry_run=dry_run,
    )
    with open_progress(sys.stderr) as progress:
        found = run(request, user_paths(kb=kb), os.environ, progress)
    if isinstance(found, ExplorePlan):
        print_report(found, noise_plan_text, json=json)
        return
    print_report(found, noise_text, json=json)
    raise typer.Exit(found.exit_code)
