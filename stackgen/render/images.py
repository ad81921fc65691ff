"""What the engine and the store hold, and what was done about it."""

from collections.abc import Sequence

from stackgen.render.tables import columns
from stackgen.values import (
    ImagesReport,
    ImageState,
    ItemKind,
    Pruned,
    StoreCheck,
    StoreItem,
    StorePruned,
)


def images_text(report: ImagesReport) -> str:
    """Return the bases that can be named, and what the engine holds."""
    lines = ["Bases (stackgen explore --base NAME):"]
    lines += columns([(each.name, each.state, each.summary) for each in report.bases])
    lines += ["", "Images of stacks:" if report.images else "No images of stacks."]
    return "\n".join([*lines, *_image_rows(report.images)])


def pruned_text(pruned: Pruned) -> str:
    """Return what went and what stayed; in a dry run, each thing that would go."""
    lines: list[str] = []
    if pruned.store is not None:
        lines += _store_lines(pruned.store, dry_run=pruned.dry_run)
    if pruned.store is None or pruned.images:
        lines.append(f"{_verb(pruned.dry_run)} {_counted(len(pruned.images), 'image')}.")
        lines += _image_rows(pruned.images)
    if pruned.images_in_use:
        used = _counted(len(pruned.images_in_use), "image")
        lines += [f"{used} stayed: the engine does not remove them."]
        lines += _image_rows(pruned.images_in_use)
    return "\n".join(lines)


def check_text(found: StoreCheck) -> str:
    """Return what is whole, what is not, and what to do about it."""
    whole = f"{_counted(found.wheels, 'wheel')} and {_counted(found.layers, 'layer')}"
    lines = [f"Whole: {whole} ({size_text(found.size)})."]
    if found.unfinished:
        count = _counted(len(found.unfinished), "unfinished download")
        lines.append(f"{count} ({_total(found.unfinished)}): the next run goes on there.")
    for each in found.faults:
        lines.append(f"{'removed, ' * each.removed}{each.kind.value}: {each.name}: {each.why}")
        lines.append(f"  {each.path}")
    if any(not each.removed for each in found.faults):
        lines.append("To remove these: stackgen images fsck --repair")
    return "\n".join(lines)


def size_text(size: int) -> str:
    """Return bytes as people say them."""
    if size < 10**9:
        return f"{size / 1e6:.1f} MB"
    return f"{size / 1e9:.2f} GB"


def _store_lines(store: StorePruned, *, dry_run: bool) -> list[str]:
    counts = [
        _counted(len(found), kind.value)
        for kind in ItemKind
        if (found := [item for item in store.dropped if item.kind is kind])
    ]
    what = f"{', '.join(counts)} ({_total(store.dropped)})" if counts else "nothing"
    stay = "would stay" if dry_run else "stay"
    lines = [f"{_verb(dry_run)} {what}; {size_text(store.kept_bytes)} of wheels and layers {stay}."]
    if dry_run:
        rows = [(item.kind.value, size_text(item.size), item.name) for item in store.dropped]
        lines += columns(rows)
    if store.in_use:
        used = f"{len(store.in_use)} of these ({_total(store.in_use)})"
        lines.append(f"{used} would have gone, but other processes are using them.")
    return lines


def _verb(dry_run: bool) -> str:
    return "Would remove" if dry_run else "Removed"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


def _total(items: Sequence[StoreItem]) -> str:
    return size_text(sum(item.size for item in items))


def _image_rows(images: Sequence[ImageState]) -> list[str]:
    rows = [
        (each.image_id[7:19], f"{each.size / 1e9:.2f} GB", each.used_at, each.packages)
        for each in images
    ]
    return columns(rows)
