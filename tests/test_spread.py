"""The default choice of an exploration: spread widely, within a download budget, from a table."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from stackgen.campaign.indicators import known_indicators
from stackgen.campaign.options import SearchOptions
from stackgen.campaign.request import CampaignRequest, MeasurementRequest
from stackgen.campaign.spread import (
    left_out,
    read_defaults,
    releases_of,
    spread,
    with_defaults,
    within_download,
    without_larger,
)
from stackgen.model.choices import Order, Strategy
from stackgen.resolve.choose import newest_first
from stackgen.resolve.requirements import parse_requirements
from stackgen.resolve.space import Slice
from tests.campaign_requests import campaign_request, changed

SETTINGS = ((("ONEDNN", "0"),),)
RELEASES = ("2.21.0", "2.20.0", "2.19.1", "2.18.1", "2.17.1")


def choice(release: str, numpy: str) -> Slice:
    return Slice(
        versions=(("tensorflow", release), ("numpy", numpy)),
        completions=1,
        varied=("tensorflow", "numpy"),
    )


CHOICES = newest_first(
    [
        *(choice(release, numpy) for release in RELEASES for numpy in ("2.4.6", "1.26.4")),
        *(choice(release, numpy) for release in RELEASES[2:4] for numpy in ("1.25.2", "1.24.4")),
    ]
)


def words(picks: Sequence[tuple[Slice, tuple[tuple[str, str], ...]]]) -> list[str]:
    return [" ".join(v for _, v in (*each.versions, *settings)) for each, settings in picks]


def explored(*requirements: str) -> CampaignRequest:
    return campaign_request(requirements=parse_requirements(*requirements))


def test_a_spread_has_the_ends_the_settings_and_the_majors_of_numpy_before_all_else() -> None:
    assert words(spread(CHOICES, SETTINGS, releases=None)) == [
        "2.21.0 2.4.6",
        "2.17.1 2.4.6",
        "2.21.0 2.4.6 0",
        "2.21.0 1.26.4",
        "2.19.1 2.4.6",
        "2.20.0 2.4.6",
        "2.18.1 2.4.6",
    ]


def test_a_spread_is_over_the_newest_releases_alone() -> None:
    assert words(spread(CHOICES, (), releases=2)) == [
        "2.21.0 2.4.6",
        "2.20.0 2.4.6",
        "2.21.0 1.26.4",
    ]


def wheels(each: Slice) -> Mapping[str, int] | None:
    release, numpy = (version for _, version in each.versions)
    if release == "2.18.1":
        return None
    return {f"tensorflow {release}": 250 if release < "2.21" else 900, f"numpy {numpy}": 20}


def taken(most: int | None, *, wanted: int = 9, releases: int | None = None) -> list[str]:
    choices = without_larger(CHOICES, wheels, most, releases=releases)
    picks = spread(choices, SETTINGS, releases=releases)
    return words(within_download(picks, wheels, most, wanted=wanted))


def test_what_is_over_the_budget_is_left_out_and_what_is_shared_counts_once() -> None:
    assert taken(1190) == ["2.21.0 2.4.6", "2.17.1 2.4.6", "2.21.0 2.4.6 0", "2.21.0 1.26.4"]
    assert len(taken(None)) == len(spread(CHOICES, SETTINGS, releases=None)) - 1
    assert len(taken(None, wanted=2)) == 4


def test_the_newest_release_that_is_within_the_budget_is_the_baseline() -> None:
    assert taken(300) == ["2.20.0 2.4.6", "2.20.0 2.4.6 0", "2.20.0 1.26.4"]


def test_where_every_release_is_too_large_what_is_added_to_the_newest_counts() -> None:
    assert taken(200, releases=3) == ["2.21.0 2.4.6", "2.21.0 2.4.6 0", "2.21.0 1.26.4"]
    assert taken(1) == ["2.21.0 2.4.6", "2.21.0 2.4.6 0"]


@pytest.mark.parametrize(
    ("most", "wanted", "missing"),
    [
        (None, 4, []),
        (1190, 2, []),  # as many as are wanted fit
        (1190, 9, ["2.20.0", "2.19.1", "2.18.1"]),
        (300, 2, ["2.21.0", "2.19.1", "2.18.1", "2.17.1"]),  # the newest is too large
        (200, 2, ["2.20.0", "2.19.1", "2.18.1", "2.17.1"]),  # all are: the newest takes part alone
    ],
)
def test_releases_that_the_budget_leaves_out_are_named(
    most: int | None, wanted: int, missing: list[str]
) -> None:
    choices = without_larger(CHOICES, wheels, most, releases=None)
    picks = within_download(spread(choices, (), releases=None), wheels, most, wanted=wanted)
    found = left_out(releases_of(CHOICES), picks, wheels, most, wanted=wanted)
    assert list(found) == missing


def test_a_framework_alone_gets_the_default_choice() -> None:
    (table,) = (each for each in read_defaults() if "tensorflow-cpu" in each.packages)
    found = with_defaults(explored("tensorflow-cpu>=2.16"))
    assert found.stacks.settings == table.settings == (("TF_ENABLE_ONEDNN_OPTS", ("0",)),)
    assert found.search.order is Order.SPREAD
    assert found.search.strategy is Strategy.EXHAUSTIVE
    assert found.search.wanted == table.stacks
    assert found.search.download_bytes == table.download_bytes == 1_500_000_000


def test_a_download_budget_of_the_user_stands_in_for_that_of_the_table() -> None:
    given = changed(explored("torch"), search=SearchOptions(download_bytes=7))
    assert with_defaults(given).search.download_bytes == 7


@pytest.mark.parametrize(
    "request_",
    [
        explored("requests"),
        explored("tensorflow", "torch"),
        changed(explored("tensorflow"), search=SearchOptions(stacks=3)),
        changed(explored("tensorflow"), search=SearchOptions(strategy=Strategy.NEWEST)),
        changed(explored("tensorflow"), search=SearchOptions(order=Order.NEWEST)),
        changed(explored("tensorflow"), settings=(("A", ("1", "2")),)),
        changed(explored("tensorflow"), vary=("protobuf",)),
        changed(explored("tensorflow"), lock=Path("poetry.lock")),
        replace(explored("tensorflow"), kind="nightly"),
    ],
)
def test_whatever_else_says_which_stacks_take_part_is_left_as_it_is(
    request_: CampaignRequest,
) -> None:
    assert with_defaults(request_) is request_


def test_numpy_alone_is_measured_by_several_families_unless_the_command_says_what() -> None:
    several = ("numpy/matmul", "numpy/sort", "numpy/ufunc")
    numpy = explored("numpy>=1.26")
    assert with_defaults(numpy).measurement.indicators == several
    more = changed(numpy, search=SearchOptions(stacks=8))
    assert with_defaults(more) == more.with_indicators(*several)
    assert with_defaults(changed(numpy, lock=Path("uv.lock"))).measurement.indicators == ()
    assert with_defaults(explored("tensorflow")).measurement.indicators == ()
    given = explored("numpy").with_indicators("fft")
    assert with_defaults(given).measurement.indicators == ("fft",)
    sized = MeasurementRequest(parameters=(("size", "64"),))
    assert not with_defaults(replace(explored("numpy"), measurement=sized)).measurement.indicators


def test_every_row_of_the_table_can_be_explored() -> None:
    known = {each.name for each in known_indicators()}
    for each in read_defaults():
        assert known.issuperset(each.indicators)
        assert each.packages
        assert each.stacks >= 3
        assert each.releases >= 2
        assert all(values for _, values in each.settings)
