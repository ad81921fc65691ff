"""The bases that can be named, and what each of them is."""

from collections.abc import Iterator

from stackgen.values import BaseContent, BaseEntry, BasesReport, Readiness


def bases_text(report: BasesReport) -> str:
    """Return each base with what it is, or what is in its way."""
    lines = [line for entry in report.bases for line in _lines(entry)]
    if any(entry.state is Readiness.POSSIBLE for entry in report.bases):
        lines.append("To make what can be made: stackgen images bases --make [NAME]")
    if any(entry.state is Readiness.READY for entry in report.bases):
        lines.append("To measure on one: stackgen explore REQUIREMENT --base NAME")
    return "\n".join(lines).rstrip("\n")


def _lines(entry: BaseEntry) -> Iterator[str]:
    yield f"{entry.name}: {entry.summary}"
    if entry.content is not None:
        yield from _content_lines(entry.content)
    else:
        yield from _why_lines(entry)
        yield f"  fix: {entry.fix}" if entry.fix else f"  by {', or '.join(entry.ways)}"
    if entry.packages:
        yield f"  with the Debian packages {', '.join(entry.packages)}"
    yield ""


def _why_lines(entry: BaseEntry) -> Iterator[str]:
    reasons = [line.strip() for line in entry.why.splitlines()]
    if len(reasons) < 2:
        yield f"  {': '.join([entry.state.value, *reasons])}"
        return
    yield f"  {entry.state.value}:"
    yield from (f"    {reason}" for reason in reasons)


def _content_lines(content: BaseContent) -> Iterator[str]:
    size = f"{content.size / 1e6:.0f} MB"
    system = f"{content.distribution}, {content.libc}, {content.machine}"
    yield f"  ready: {content.python}, {system}; {size}, by {content.origin}"
    yield f"  takes {content.tags} kinds of wheels, {content.first_tag} first"
    blas = ", ".join(f"{name} {version}" for name, version in content.blas)
    yield f"  BLAS of the system: {blas or 'none; wheels bring their own'}"
