"""An advice: as text, as Markdown for a pull request, and down to its raw samples."""

from collections.abc import Iterator, Sequence

from stackgen.measure import WORTH_DECIDING
from stackgen.model.choices import AdviceType
from stackgen.model.evidence import (
    Advice,
    Answer,
    Change,
    Effect,
    Nearest,
    NextComparison,
    Origin,
    Proposal,
    Provenance,
    Scope,
    Verdict,
)
from stackgen.model.reports.locks import AdviceReport, AdvisedStack, EffectEvidence
from stackgen.report.explore import interval, verdict
from stackgen.report.goals import megabytes, seconds_text, within
from stackgen.report.tables import columns, duration

_MOST_SHOWN, _IN_TABLE = 4, 2
_TWICE = 2.0  # from this ratio on, it is stated in place of percents
_LITTLE_KNOWN = 1.25  # blocks of one campaign say far more: the spread between campaigns is unknown

TableRows = list[tuple[str, ...]]


def advice_text(report: AdviceReport) -> str:
    """Return the answer, what was measured, what else is known, and caveats."""
    advice = report.advice
    lines = [f"{report.lockfile.path}{f' -> {report.new}' if report.new else ''}"]
    lines += [f"Current: {_pins(advice.pins)}"] if advice.pins else []
    lines += _answer(report)
    if advice.changes:
        lines += [*columns(_changes(advice.changes, report)), ""]
    lines += _nearest(advice.nearest)
    if advice.effects:
        lines += [*columns(_measured(advice)), *_particulars(advice), ""]
    if len(report.stacks) > 1:
        lines += [*columns(_stacks(report)), *_stack_notes(report), ""]
    for proposal in advice.proposals:
        lines += _proposal(proposal)
    for following in advice.next[:1]:
        lines += _next(following)
    lines += _explanation(report.explanation)
    lines += [f"Note: {caveat}" for caveat in advice.caveats]
    lines += [f"Evidence: {report.knowledge_base}"]
    lines += [
        f"Merged from {_origin(origin)}: {count} of {report.inspections} inspections"
        for origin, count in report.merged
    ]
    lines += _commands(report)
    return "\n".join(lines)


def advice_markdown(report: AdviceReport) -> str:
    """Return an advice for a pull request: answer, tables, and notes folded away."""
    advice = report.advice
    name = report.lockfile.path.rpartition("/")[2]
    sentence = " ".join(_answer(report))
    lines = [f"### stackgen: `{name}`", "", sentence, ""]
    if advice.changes:
        lines += [*_markdown_table(_changes(advice.changes, report)), ""]
    if advice.effects:
        lines += [*_markdown_table(_measured(advice)), ""]
    if len(report.stacks) > 1:
        lines += [*_markdown_table(_stacks(report)), ""]
    particulars = _particulars(advice) if advice.effects else ()
    notes = [*_nearest(advice.nearest), *particulars, *_stack_notes(report)]
    for proposal in advice.proposals:
        notes += _proposal(proposal)
    notes += [f"Note: {caveat}" for caveat in advice.caveats]
    notes += _commands(report)
    folded = [f"- {note.strip()}" for note in notes]
    lines += ["<details><summary>What it rests on</summary>", "", *folded, "", "</details>"]
    return "\n".join(lines)


def _answer(report: AdviceReport) -> list[str]:
    """Return the answer in a sentence, with what it speaks of."""
    advice = report.advice
    if report.new:
        return [_update(report)]
    if report.kind is AdviceType.LATEST:
        return [_latest(advice)]
    if advice.answer is Answer.UNKNOWN:
        return [f"Unknown: {advice.why}."]
    if advice.answer is Answer.ELSEWHERE:
        lines = ["Measured elsewhere: nothing is recommended without a run on this machine."]
        against = f"What else is against it: {advice.refused}"
        return [*lines, *([against] if advice.refused else [])]
    if advice.answer in (Answer.OLDER, Answer.MAJOR, Answer.REFUSED):
        if not advice.refused:
            return [
                "Nothing that was measured beside this lock can be recommended (see the notes)."
            ]
        but = {Answer.OLDER: "but older", Answer.MAJOR: "but a major update"}
        return [
            f"Measured to be faster, {but.get(advice.answer, 'but not recommended')}: "
            f"{advice.refused}"
        ]
    if advice.answer in (Answer.NO_DIFFERENCE, Answer.UNDECIDED):
        if report.kind is not AdviceType.PERFORMANCE:
            what = _BETTER[report.kind]
            return [f"Nothing that {what} than this lock is shown not to be slower."]
        lines = [_mixed(report) or _nothing_faster(advice)]
        against = f"What may be faster is not recommended: {advice.refused}"
        return [*lines, *([against] if advice.refused else [])]
    return [_recommended(report)]


def _nothing_faster(advice: Advice) -> str:
    """Return that nothing is shown to be faster, and how much faster anything may still be."""
    if advice.answer is Answer.UNDECIDED and advice.possible is not None:
        if advice.possible > _LITTLE_KNOWN:
            return (
                "Not decided: too few campaigns to tell. Nothing is shown to be faster than this "
                f"lock, and that something is {_faster_by(advice.possible)} is not excluded."
            )
        return (
            "Not decided: nothing is shown to be faster than this lock, but what was measured does "
            f"not exclude that something is {_faster_by(advice.possible)}."
        )
    if advice.refused:
        return "Nothing that may be recommended is shown to be faster than this lock."
    if advice.possible is None or advice.possible <= 1:
        where = " on at least one operation" if len(advice.effects) > 1 else ""
        return f"Nothing is faster than this lock: all that was measured is slower{where}."
    return (
        "No measurable difference: nothing that was measured beside this lock is more than "
        f"{_faster_by(advice.possible)}."
    )


def _faster_by(ratio: float) -> str:
    return f"{100 * (ratio - 1):.2g} % faster" if ratio < _TWICE else f"{ratio:.2g} times as fast"


def _mixed(report: AdviceReport) -> str:
    """Return what the best other stack is faster and slower on; "" where it is not both."""
    found: dict[Verdict, list[str]] = {}
    for effect, each in zip(report.advice.effects, report.advice.provenance, strict=True):
        found.setdefault(effect.verdict, []).append(each.indicator.partition(" ")[0])
    faster, slower = (", ".join(found.get(e, ())) for e in (Verdict.FASTER, Verdict.SLOWER))
    if not (faster and slower):
        return ""
    return (
        f"Nothing is recommended: the best other stack is faster on {faster}, but slower on "
        f"{slower}. Your own program decides: stackgen explore --from {report.lockfile.path} "
        '--pi-command "COMMAND"'
    )


_BETTER = {
    AdviceType.STABLE: "is newer",
    AdviceType.SIZE: "is smaller",
    AdviceType.SECURITY: "has fewer known vulnerabilities",
}


def _recommended(report: AdviceReport) -> str:
    """Return what is recommended, and on how much the recommendation rests."""
    advice = report.advice
    faster = advice.answer is Answer.FASTER
    kinds = {
        AdviceType.STABLE: "the newest that is shown not to be slower, and never failed",
        AdviceType.SIZE: "the smallest that is shown not to be slower",
        AdviceType.SECURITY: "the fewest known vulnerabilities, and shown not to be slower",
    }
    what = kinds.get(report.kind, "faster")
    if faster and report.kind is not AdviceType.PERFORMANCE:
        what += "; it is faster, too"
    if advice.scope is Scope.OVERALL:
        return f"Recommended: {what}, on {len(advice.families)} families of operations."
    if advice.scope is Scope.PROGRAM:
        return f"Recommended for your program: {what}."
    return f"Recommended on these operations only ({_operations(advice)}): {what}."


def _operations(advice: Advice) -> str:
    """Return the families of operations that an answer rests on: of "faster", those that are."""
    faster = advice.answer is Answer.FASTER
    found = [
        each.family
        for effect, each in zip(advice.effects, advice.provenance, strict=True)
        if not faster or effect.verdict is Verdict.FASTER
    ]
    return ", ".join(dict.fromkeys(filter(None, found))) or "start-up"


def _latest(advice: Advice) -> str:
    if advice.lock is None:
        return "Nothing newer fits the rest of this lock."
    if advice.answer is Answer.UNKNOWN:
        return f"The newest versions that fit; their speed is unknown: {advice.why}."
    return f"The newest versions that fit. Beside this lock: {_speed(advice)}"


def _update(report: AdviceReport) -> str:
    advice = report.advice
    if advice.answer is Answer.UNKNOWN:
        return f"Unknown: {advice.why}."
    return f"The update: {_speed(advice)}"


def _speed(advice: Advice) -> str:
    words = {
        Answer.FASTER: "faster",
        Answer.SLOWER: "slower",
        Answer.NO_DIFFERENCE: "no measurable difference",
        Answer.UNDECIDED: "not decided",
        Answer.ELSEWHERE: "measured elsewhere",
        Answer.REFUSED: "it failed at times, or computes something else (see the notes)",
    }
    only = ""
    if advice.scope is Scope.OPERATIONS and advice.effects:
        only = f", on these operations only ({_operations(advice)})"
    return f"{words.get(advice.answer, advice.answer.value)}{only}."


def _changes(changes: Sequence[Change], report: AdviceReport) -> TableRows:
    rows: TableRows = [("package", "current", "new" if report.new else "recommended")]
    return rows + [(c.name, c.current or "-", c.recommended or "-") for c in changes]


def _measured(advice: Advice) -> TableRows:
    """Return a row per indicator, and one of all together."""
    rows: TableRows = [
        ("indicator", "speed", "interval", "verdict", "blocks", "machines", "measured")
    ]
    names = _short_names(advice.provenance)
    for name, effect, found in zip(names, advice.effects, advice.provenance, strict=True):
        rows.append((name, *_effect_cells(effect, found)))
    if advice.overall is not None:
        of = advice.overall
        rows.append(
            ("overall (geometric mean)", f"{of.ratio:.2f}", interval(of), _verdict(of), "", "", "")
        )
    return rows


def _short_names(found: Sequence[Provenance]) -> list[str]:
    """Return the indicators without their parameters, where the names alone tell them apart."""
    names = [each.indicator.partition(" ")[0] for each in found]
    return [
        name if names.count(name) == 1 else each.indicator
        for name, each in zip(names, found, strict=True)
    ]


def _effect_cells(effect: Effect, found: Provenance) -> tuple[str, ...]:
    days = dict.fromkeys((found.first[:10], found.last[:10]))
    return (
        f"{effect.ratio:.2f}",
        interval(effect),
        _verdict(effect, figure=found.is_figure),
        str(effect.blocks),
        str(found.machines),
        " to ".join(days),
    )


def _verdict(effect: Effect, *, figure: bool = False) -> str:
    most = 1 + WORTH_DECIDING
    if effect.verdict is Verdict.INCONCLUSIVE and not 1 / most <= effect.low <= effect.high <= most:
        return "not decided"
    return verdict(effect, figure=figure).partition(" (")[0]


def _particulars(advice: Advice) -> Iterator[str]:
    """Yield on what it was measured, and how the comparison leads from one to the other."""
    yield "  speed above 1 = faster; all intervals hold together"
    for place in dict.fromkeys((e.machine, e.python) for e in advice.provenance):
        yield f"  measured on {place[0]}, Python {place[1]}"
    compared = dict.fromkeys(each.compared for each in advice.provenance)
    if [*compared] != [advice.changes]:
        yield from (f"  compared {_versions(each)}" for each in compared)
    for name, each in zip(_short_names(advice.provenance), advice.provenance, strict=True):
        for step in each.path[1:-1]:
            yield f"  {name}: by way of {step}"


def _stacks(report: AdviceReport) -> TableRows:
    """Return a row for the lock's own stack, what the answer is about, and the runner-up."""
    heads = ("", "stack", "speed", "import", "ratio", "peak memory", "ratio", "installed")
    rows = [_stack_cells(report, place, each) for place, each in enumerate(report.stacks)]
    shown = [at for at in range(len(heads)) if at == 1 or any(row[at] for row in rows)]
    return [tuple(row[at] for at in shown) for row in (heads, *rows)]


def _stack_cells(report: AdviceReport, place: int, each: AdvisedStack) -> tuple[str, ...]:
    needs = each.needs
    first = "new lock" if report.new else "recommended" if report.advice.lock else "best other"
    names = ["your lock", first, "runner-up"]
    name = names[place] if place < len(names) else "other"
    if each.against and not report.new:
        name = f"{'best other' if place == 1 else 'other'} ({each.against})"
    speed = "1.00"
    if each.ratio is not None and each.low is not None and each.high is not None:
        speed = f"{each.ratio:.2f} ({each.low:.3f} to {each.high:.3f})"
    return (
        "*" if report.conflicting and needs.on_front else "",
        f"{name}{f': {_versions(each.changes, most=_IN_TABLE)}' if each.changes else ''}",
        speed,
        seconds_text(needs.import_s),
        within(needs.import_effect),
        megabytes(needs.peak_bytes),
        within(needs.memory_effect),
        megabytes(needs.size.installed_bytes),
    )


def _stack_notes(report: AdviceReport) -> Iterator[str]:
    if len(report.stacks) > 1 and report.conflicting:
        yield "  * = on the Pareto front: no other one is better in speed, import, memory and size"


def _proposal(proposal: Proposal) -> list[str]:
    """Return what is worth measuring, and how; a prediction recommends nothing."""
    expected = f"{proposal.ratio:.2f} times as fast ({proposal.low:.3f} to {proposal.high:.3f})"
    return [
        f"Worth measuring, never measured: {_versions(proposal.changes)}",
        f"  expected on {proposal.indicator}: {expected}",
        f"  to measure it: {proposal.command}",
    ]


def _next(following: NextComparison) -> Iterator[str]:
    changes = _versions(following.changes, most=_IN_TABLE)
    lead = "Would decide it" if following.error is not None else "To be measured first"
    yield f"{lead}: {changes}: {following.why}"
    if following.error is not None and following.expected_error is not None:
        yield (
            f"  standard error now {100 * following.error:.2g} %, after one more campaign about "
            f"{100 * following.expected_error:.2g} %"
        )


def _nearest(nearest: Sequence[Nearest]) -> Iterator[str]:
    """Yield what is known beside the measured stack nearest to a lock, and which others are near.

    Effects of the others compare stacks that are further from the lock (they are part of --json).
    """
    if not nearest:
        return
    first, others = nearest[0], nearest[1:]
    without = f" (without {' and '.join(first.without)})" if first.without else ""
    yield f"Nearest measured: {_pins(first.versions)}{without}"
    if first.effects:
        found = first.provenance[0]
        yield (
            f"  {_versions(found.compared)}: {first.effects[0].blocks} blocks, {found.last[:10]}, "
            f"Python {found.python}, {found.machine}"
        )
    groups: dict[str, list[str]] = {}
    names = _short_names(first.provenance)
    for name, effect, found in zip(names, first.effects, first.provenance, strict=True):
        what = f"{name} {effect.ratio:.2f} {interval(effect)}"
        groups.setdefault(_verdict(effect, figure=found.is_figure), []).append(what)
    yield from (f"    {words}: {', '.join(shown)}" for words, shown in groups.items())
    if others:
        yield f"  next to it: {'; '.join(_pins(each.versions) for each in others)}"


def _commands(report: AdviceReport) -> Iterator[str]:
    if report.measure_command:
        yield f"To measure what would decide it{_cost(report)}: {report.measure_command}"
    elif report.advice.lock is None and report.explore_command and not report.new:
        yield f"To measure more: {report.explore_command}"


def _cost(report: AdviceReport) -> str:
    if report.measure_download_bytes is None or report.measure_disk_bytes is None:
        return ""
    return (
        f" (about {report.measure_download_bytes / 1e9:.1f} GB to download, "
        f"{report.measure_disk_bytes / 1e9:.1f} GB on disk)"
    )


def _explanation(found: Sequence[EffectEvidence]) -> Iterator[str]:
    """Yield what each effect rests on: campaigns, machines, blocks, samples and wheels."""
    for each in found:
        effect = each.effect
        yield f"Because of {each.indicator}: {effect.ratio:.3f} {interval(effect)}"
        for campaign in each.campaigns:
            machine = dict(campaign.machine).get("cpu_name", "unknown")
            yield (
                f"  campaign {campaign.campaign_id[:12]} ({campaign.kind}, seed {campaign.seed}, "
                f"stackgen {campaign.stackgen_version}): {100 * campaign.share:.0f} %, "
                f"{campaign.stacks} stacks on {machine}"
            )
            yield from (f"    on {base}" for base in campaign.bases)
            for block in campaign.blocks:
                current, candidate = (
                    ", ".join(f"{duration(min(s))} of {len(s)}" for s in own)
                    for own in (block.current_s, block.candidate_s)
                )
                yield (
                    f"    block {block.block}, {block.started_at}: fastest sample {current} -> "
                    f"{candidate}"
                )
        for side, name, digest in each.wheels:
            yield f"  {'lock' if side == 'current' else 'other'}: {name} sha256:{digest}"


def _origin(origin: Origin) -> str:
    return f"{origin.label or 'this file'} (origin {origin.id[:12]}, {origin.first_seen[:10]})"


def _pins(versions: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions)


def _versions(compared: Sequence[Change], *, most: int = _MOST_SHOWN) -> str:
    shown = [f"{c.name} {c.current or 'none'} -> {c.recommended or 'none'}" for c in compared]
    more = f" and {len(shown) - most} more" if len(shown) > most else ""
    return f"{', '.join(shown[:most])}{more}"


def _markdown_table(rows: TableRows) -> Iterator[str]:
    for place, row in enumerate(rows):
        yield f"| {' | '.join(cell.replace('|', '/') for cell in row)} |"
        if place == 0:
            yield f"|{'---|' * len(row)}"
