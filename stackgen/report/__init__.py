"""Reports and progress for a terminal, and reports for machines."""

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
    "nightly_text",
    "open_progress",
    "plan_text",
    "pruned_text",
    "report_text",
    "resolution_text",
    "stack_text",
    "verification_text",
    "view_text",
]
