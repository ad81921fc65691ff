"""Reports and progress for a terminal, and reports for machines."""

from stackgen.render.advice import advice_text
from stackgen.render.bases import bases_text
from stackgen.render.explore import plan_text, report_text
from stackgen.render.here import here_text
from stackgen.render.images import (
    built_text,
    check_text,
    exported_text,
    image_list_text,
    image_text,
    images_text,
    pruned_text,
)
from stackgen.render.indicators import indicator_text, indicators_text
from stackgen.render.listings import failures_text, nightly_text
from stackgen.render.machine import as_json
from stackgen.render.resolve import count_text, resolution_text, stack_text
from stackgen.render.tables import checks_text, columns
from stackgen.render.terminal import open_progress
from stackgen.render.verify import verification_text

__all__ = [
    "advice_text",
    "as_json",
    "bases_text",
    "built_text",
    "check_text",
    "checks_text",
    "columns",
    "count_text",
    "exported_text",
    "failures_text",
    "here_text",
    "image_list_text",
    "image_text",
    "images_text",
    "indicator_text",
    "indicators_text",
    "nightly_text",
    "open_progress",
    "plan_text",
    "pruned_text",
    "report_text",
    "resolution_text",
    "stack_text",
    "verification_text",
]
