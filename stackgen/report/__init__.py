"""Reports and progress for a terminal, and reports for machines."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stackgen.report.explore import plan_text, report_text
    from stackgen.report.images import (
        built_text,
        check_text,
        exported_text,
        image_list_text,
        image_text,
        images_text,
        pruned_text,
    )
    from stackgen.report.indicators import local_text
    from stackgen.report.listings import (
        bases_text,
        failures_text,
        indicator_text,
        indicators_text,
        verification_text,
    )
    from stackgen.report.resolve import count_text, resolution_text, stack_text
    from stackgen.report.tables import as_json, checks_text, columns, view_text
    from stackgen.report.terminal import open_progress

# A module is loaded when something of it is used: a command needs few of them.
_HOMES = {
    "explore": ("plan_text", "report_text"),
    "images": (
        "built_text",
        "check_text",
        "exported_text",
        "image_list_text",
        "image_text",
        "images_text",
        "pruned_text",
    ),
    "indicators": ("local_text",),
    "listings": (
        "bases_text",
        "failures_text",
        "indicator_text",
        "indicators_text",
        "verification_text",
    ),
    "resolve": ("count_text", "resolution_text", "stack_text"),
    "tables": ("as_json", "checks_text", "columns", "view_text"),
    "terminal": ("open_progress",),
}

__all__ = [
    "as_json",
    "bases_text",
    "built_text",
    "check_text",
    "checks_text",
    "columns",
    "count_text",
    "exported_text",
    "failures_text",
    "image_list_text",
    "image_text",
    "images_text",
    "indicator_text",
    "indicators_text",
    "local_text",
    "open_progress",
    "plan_text",
    "pruned_text",
    "report_text",
    "resolution_text",
    "stack_text",
    "verification_text",
    "view_text",
]


def __getattr__(name: str) -> object:
    """Return what a module of this package exports."""
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
