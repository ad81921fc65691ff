"""What the engine and the store hold, and what was done about it."""

import shlex
from collections.abc import Sequence

from stackgen.model.reports.images import (
    Exported,
    ImageBuilt,
    ImageDetails,
    ImageLayer,
    ImagesReport,
    ImageState,
    ItemKind,
    Pruned,
    StoreCheck,
    StoreItem,
    StorePruned,
)
from stackgen.report.tables import columns, counted

_NOTABLE = (
    *("tensorflow", "tensorflow-cpu", "intel-tensorflow", "torch", "jax", "numpy"),
    *("scipy", "pandas", "scikit-learn"),
)
_FEW, _WIDE = 3, 100


def images_text(report: ImagesReport) -> str:
    """Return the bases that can be named, and what the engine holds."""
    lines = ["Bases (stackgen explore --base NAME):"]
    lines += columns([(each.name, each.state, each.summary) for each in report.bases])
    if report.no_engine:
        why = f"no container engine answers ({report.no_engine})"
        lines += ["", f"Images of stacks are not known: {why}."]
    else:
        lines += ["", "Images of stacks:" if report.images else "No images of stacks."]
    return "\n".join([*lines, *_image_rows(report.images)])


def image_list_text(images: Sequence[ImageState]) -> str:
    """Return one line an image, the latest used first."""
    if not images:
        return "No images of stacks. To build one: stackgen images build LOCK"
    head = ("IMAGE", "BASE", "PACKAGES", "SIZE", "OWN", "LAST USED")
    rows = [
        (
            *(_name(each), each.base or "?", _packages(each)),
            *(size_text(each.size), _size_or(each.own_bytes), _minute(each.used_at)),
        )
        for each in images
    ]
    own = "OWN is what goes when the image is removed: no other stack has these layers."
    return "\n".join([*columns([head, *rows], indent=""), own])


def image_text(found: ImageDetails) -> str:
    """Return the labels, the lock and the layers of an image."""
    image = found.image
    rows = [
        ("Image", image.image_id),
        ("Stack", image.stack_id),
        ("Tags", ", ".join(image.tags) or "none"),
        ("Base", image.base or "not stated"),
        ("Size", f"{size_text(image.size)}, of which its own: {_size_or(image.own_bytes)}"),
        ("Last used", _minute(image.used_at)),
    ]
    lines = [*columns(rows, indent=""), "", "Labels:", *columns(_short(found.labels))]
    lines += ["", f"Lock ({counted(len(found.lock), 'package')}):"]
    lines += [f"  {p.name}=={p.version} --hash=sha256:{p.sha256}" for p in found.lock]
    return "\n".join([*lines, "", "Layers, bottom first:", *columns(_layer_rows(found.layers))])


def built_text(built: ImageBuilt) -> str:
    """Return what was built, and what it cost."""
    image = built.image
    name = built.tag or _name(image)
    lines = [
        f"{name}: {counted(built.packages, 'package')} on {image.base or 'its base'}",
        f"  image  {image.image_id}",
        f"  tags   {', '.join(image.tags)}",
    ]
    new = f", {_size_or(built.new_bytes)}" if built.layers_new else ""
    layers = f"{built.layers_new} new{new}; {built.layers_shared} the engine had"
    lines += [
        f"  size   {size_text(image.size)}",
        "  layers all there: the engine had this image" if built.existed else f"  layers {layers}",
        f"  time   {built.seconds:.1f} s",
    ]
    return "\n".join(lines)


def exported_text(exported: Exported) -> str:
    """Return what was written, and what reads it."""
    size = size_text(exported.size)
    if exported.image_id:
        read = f"To read it: skopeo inspect {shlex.quote(f'oci:{exported.folder}')}"
        return f"Wrote the image {exported.image_id[7:19]} to {exported.folder} ({size}).\n{read}"
    count = counted(exported.packages, "package")
    return (
        f"Wrote a Dockerfile for {count} to {exported.folder} ({size}).\n"
        f"To build it: docker build -t NAME {shlex.quote(exported.folder)}"
    )


def notable(packages: str) -> str:
    """Return the packages that distinguish stacks, and how many there are besides."""
    pins = [pin.replace("==", " ") for pin in packages.split()]
    if len(pins) <= _FEW:
        return ", ".join(pins)
    chosen = [pin for pin in pins if pin.split()[0] in _NOTABLE] or pins[:1]
    return f"{', '.join(chosen)} and {len(pins) - len(chosen)} more"


def pruned_text(pruned: Pruned) -> str:
    """Return what went and what stayed; in a dry run, each thing that would go."""
    lines: list[str] = []
    if pruned.store is not None:
        lines += _store_lines(pruned.store, dry_run=pruned.dry_run)
        if pruned.no_engine:
            lines.append(f"Images were not looked at: no engine answers ({pruned.no_engine}).")
    if pruned.store is None or pruned.images:
        lines.append(f"{_verb(pruned.dry_run)} {counted(len(pruned.images), 'image')}.")
        lines += _image_rows(pruned.images)
    if pruned.images_in_use:
        used = counted(len(pruned.images_in_use), "image")
        lines += [f"{used} stayed: in use, or with a name of your own."]
        lines += _image_rows(pruned.images_in_use)
    return "\n".join(lines)


def check_text(found: StoreCheck) -> str:
    """Return what is whole, what is not, and what to do about it."""
    whole = f"{counted(found.wheels, 'wheel')} and {counted(found.layers, 'layer')}"
    more = f"; {counted(found.virtualenvs, 'virtualenv')}" if found.virtualenvs else ""
    lines = [f"Whole: {whole} ({size_text(found.size)}){more}."]
    if found.unfinished:
        count = counted(len(found.unfinished), "unfinished download")
        lines.append(f"{count} ({_total(found.unfinished)}): the next run goes on there.")
    for each in found.faults:
        lines.append(f"{'removed, ' * each.removed}{each.kind.value}: {each.name}: {each.why}")
        lines.append(f"  {each.path}")
    if any(not each.removed for each in found.faults):
        lines.append("To remove these: stackgen images fsck --repair")
    return "\n".join(lines)


def size_text(size: int) -> str:
    """Return bytes with a unit."""
    if 0 < size < 10**5:
        return f"{size / 1e3:.1f} kB"
    if size < 10**9:
        return f"{size / 1e6:.1f} MB"
    return f"{size / 1e9:.2f} GB"


def _store_lines(store: StorePruned, *, dry_run: bool) -> list[str]:
    counts = [
        counted(len(found), kind.value)
        for kind in ItemKind
        if (found := [item for item in store.dropped if item.kind is kind])
    ]
    what = f"{', '.join(counts)} ({_total(store.dropped)})" if counts else "nothing"
    stay = "would stay" if dry_run else "stay"
    lines = [f"{_verb(dry_run)} {what}; {size_text(store.remaining_bytes)} {stay}."]
    if dry_run:
        rows = [(item.kind.value, size_text(item.size), item.name) for item in store.dropped]
        lines += columns(rows)
    if store.in_use:
        used = f"{len(store.in_use)} of these ({_total(store.in_use)})"
        lines.append(f"{used} would have gone, but other processes are using them.")
    return lines


def _verb(dry_run: bool) -> str:
    return "Would remove" if dry_run else "Removed"


def _total(items: Sequence[StoreItem]) -> str:
    return size_text(sum(item.size for item in items))


def _name(image: ImageState) -> str:
    """Return the name that a user gave an image, else the one of stackgen."""
    own = [tag for tag in image.tags if not tag.rpartition("/")[2].startswith("stackgen:")]
    return (own or [*image.tags, image.image_id[7:19]])[0]


def _packages(image: ImageState) -> str:
    return notable(image.packages) or "no packages"


def _size_or(size: int | None) -> str:
    return "not known" if size is None else size_text(size)


def _minute(moment: str) -> str:
    """Return a moment to the minute."""
    return moment[:16].replace("T", " ") or "not known"


def _short(labels: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return labels; long ones are cut (--json has all of them)."""
    return [
        (name, text if len(text) <= _WIDE else f"{text[: _WIDE - 3]}...") for name, text in labels
    ]


def _layer_rows(layers: Sequence[ImageLayer]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for number, each in enumerate(layers, 1):
        what = "base" if each.of_base else ", ".join(each.wheels) or "virtualenv"
        others = f"shared with {counted(each.others, 'image')}" if each.others else "its own"
        rows.append((str(number), each.diff_id[7:19], _size_or(each.size), others, what))
    return rows


def _image_rows(images: Sequence[ImageState]) -> list[str]:
    rows = [
        (each.image_id[7:19], size_text(each.size), _minute(each.used_at), _packages(each))
        for each in images
    ]
    return columns(rows)
