"""Which indicators a campaign runs."""

from dataclasses import replace

import psutil
import pytest

from stackgen.errors import UsageError
from stackgen.pipeline.measures import CONTROL, indicator_calls, limits
from stackgen.pipeline.options import ExploreOptions
from stackgen.resolve import Request

OPTIONS = ExploreOptions(asked=Request(requirements=()), indicators=(CONTROL,))


def test_the_control_is_not_what_a_campaign_compares() -> None:
    with pytest.raises(UsageError, match="control of every exploration"):
        indicator_calls(OPTIONS, (), frozenset())


def test_other_work_of_the_controls_kind_can_be_compared() -> None:
    options = replace(OPTIONS, parameters=(("rounds", "9"),))
    (call,), control = indicator_calls(options, (), frozenset())
    assert call.indicator == control.indicator
    assert call.id != control.id


def test_what_is_measured_may_not_take_the_memory_that_everybody_else_needs() -> None:
    memory, most = psutil.virtual_memory().total, limits(0).memory_bytes
    assert most is not None
    assert memory / 2 < most < memory
