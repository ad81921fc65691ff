"""Which indicators a campaign runs."""

from pathlib import Path

import psutil
import pytest

from stackgen.campaign.indicators import CONTROL, indicator_calls, limits
from stackgen.errors import UsageError
from stackgen.model.inspections import Indicator, IndicatorCall
from stackgen.model.stacks import PROGRAM
from tests.campaign_requests import campaign_request, changed

REQUEST = campaign_request(indicators=(CONTROL,))


def test_the_control_is_not_what_a_campaign_compares() -> None:
    with pytest.raises(UsageError, match="control of every exploration"):
        indicator_calls(REQUEST, (), frozenset())


def test_other_work_of_the_controls_kind_can_be_compared() -> None:
    request = changed(REQUEST, parameters=(("rounds", "9"),))
    (call,), control = indicator_calls(request, (), frozenset())
    assert call.indicator == control.indicator
    assert call.id != control.id


def test_an_inspection_may_not_take_the_memory_that_others_need() -> None:
    memory, most = psutil.virtual_memory().total, limits(0).memory_bytes
    assert most is not None
    assert memory / 2 < most < memory


def test_a_command_is_measured_alone_or_before_the_indicators_that_are_named() -> None:
    runner = Indicator(name=PROGRAM, component=PROGRAM, summary="", sha256="0", path="p")
    reported = (("command", "python train.py"), ("project", "d"))
    program = IndicatorCall(indicator=runner, arguments=reported)
    request = campaign_request(threads=2, program=program)
    (alone,), _ = indicator_calls(request, ("torch",), frozenset({"torch"}))
    assert alone.label == "python train.py (threads=2)"
    both = changed(request, indicators=("matmul",))
    calls, _ = indicator_calls(both, ("torch",), frozenset({"torch"}))
    assert [call.indicator.name for call in calls] == [PROGRAM, "torch/matmul"]
    (without_framework,), _ = indicator_calls(request, ("speedy",), frozenset({"speedy"}))
    assert without_framework.id == alone.id


def test_a_file_of_ones_own_is_meant_though_an_indicator_of_ours_is_called_alike(
    tmp_path: Path,
) -> None:
    own, other = tmp_path / "matmul.py", tmp_path / "other" / "matmul.py"
    other.parent.mkdir()
    for path in (own, other):
        path.write_text('INDICATOR = {"summary": "mine", "component": "torch"}\n')
    request = campaign_request(indicators=(str(own),))
    (call,), _ = indicator_calls(request, ("torch",), frozenset({"torch"}))
    assert call.indicator.summary == "mine"
    both = changed(request, indicators=(str(own), str(other)))
    with pytest.raises(UsageError, match="several files are called"):
        indicator_calls(both, ("torch",), frozenset({"torch"}))
