"""What work costs, what more CPUs bring, and prices that users give."""

import math
import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackgen.campaign.indicators import limits, metered, usable_cpus
from stackgen.campaign.options import CostOptions
from stackgen.campaign.request import CampaignRequest
from stackgen.errors import UsageError
from stackgen.measure import rank
from stackgen.measure.cost import AtCount, baseline_times, costs, scaled
from stackgen.model.evidence import Ranked
from stackgen.model.inspections import IndicatorCall, Inspection, Observation, Role
from stackgen.model.options import parse_cpu_counts
from stackgen.model.reports.campaigns import Cost, CpuScaling, Prices
from stackgen.model.stacks import Environment
from tests.campaign_requests import campaign_request, changed
from tests.samples import call, environment, inspection

NEW, OLD, ODD = environment("2.4.0"), environment("1.26.4"), environment("1.21.6")
LABELS = {each.stack.id: f"numpy {each.location}" for each in (NEW, OLD, ODD)}
MATMUL = call()
REQUEST = campaign_request()
FOUR = [0, 1, 2, 3]


def on(count: int) -> IndicatorCall:
    return replace(MATMUL, arguments=(("threads", str(count)),))


def seen(
    where: Environment, what: IndicatorCall, block: int, observation: Observation
) -> Inspection:
    role = Role.BASELINE if where is NEW else Role.CANDIDATE
    made = inspection(where, what, block, 1.0, role=role)
    return replace(made, observation=observation)


def campaign(
    seconds: dict[tuple[Environment, IndicatorCall], float],
    *,
    blocks: int = 16,
    noise: float = 0.002,
    checksums: dict[Environment, float] | None = None,
    **reported: str,
) -> list[Inspection]:
    """Return inspections whose blocks drift by as much as 50 %."""
    dice = random.Random(5)
    return [
        seen(
            where,
            what,
            block,
            Observation(
                values_s=(s * (1 + block / 32) * (1 + dice.gauss(0, noise)),),
                loops=1,
                checksum=(checksums or {}).get(where),
                circumstances=tuple(reported.items()),
            ),
        )
        for block in range(1, blocks + 1)
        for (where, what), s in seconds.items()
    ]


def ranked(inspections: list[Inspection], calls: list[IndicatorCall]) -> tuple[Ranked, ...]:
    return rank(inspections, labels=LABELS, baseline=NEW.stack.id, calls=calls)


def costs_of(inspections: list[Inspection], price: float = 0.36) -> tuple[Cost, ...]:
    ranking = ranked(inspections, [MATMUL])
    return costs(inspections, ranking=ranking, calls=[MATMUL], per_hour={MATMUL.id: price})


def test_a_cost_worked_out_by_hand() -> None:
    # 32 samples in 0.1 s at 0.36 an hour: 1e-5 an operation, 3.2 million samples for 1.
    (cost,) = costs_of(campaign({(NEW, MATMUL): 0.1}, blocks=1, noise=0, items="32")[:1])
    drift = 1 + 1 / 32
    assert cost.items == 32
    assert cost.seconds == pytest.approx(0.1 * drift)
    assert cost.per_million == pytest.approx(1e-5 * drift / 32 * 1e6)
    assert cost.per_unit == pytest.approx(3.2e6 / drift)


def test_the_baseline_s_time_is_the_middle_of_its_blocks_and_figures_have_none() -> None:
    seconds = {(NEW, MATMUL): 0.1, (OLD, MATMUL): 0.05}
    ((call, reported),) = baseline_times(campaign(seconds, blocks=3, noise=0), [MATMUL])
    assert call == MATMUL.id
    assert reported == pytest.approx(0.1 * (1 + 2 / 32))
    assert baseline_times(campaign(seconds, figure="higher"), [MATMUL]) == ()
    assert baseline_times([], [MATMUL]) == ()


@pytest.mark.parametrize("items", ["", "0", "-1", "many", "1e3", "9" * 30])
def test_what_is_no_number_of_samples_counts_operations(items: str) -> None:
    (cost,) = costs_of(campaign({(NEW, MATMUL): 0.1}, items=items))
    assert cost.items is None
    assert cost.per_unit == pytest.approx(1e6 / cost.per_million)


def test_the_cheapest_comes_first_and_agrees_with_the_ranking() -> None:
    rows = costs_of(campaign({(NEW, MATMUL): 0.1, (OLD, MATMUL): 0.05, (ODD, MATMUL): 0.2}))
    assert [row.stack_id for row in rows] == [OLD.stack.id, NEW.stack.id, ODD.stack.id]
    assert rows[1].per_million / rows[0].per_million == pytest.approx(2, rel=0.01)


def test_what_computes_something_else_has_no_price() -> None:
    times = {(NEW, MATMUL): 0.1, (OLD, MATMUL): 0.05}
    rows = costs_of(campaign(times, checksums={NEW: 1.0, OLD: 2.0}))
    assert [row.stack_id for row in rows] == [NEW.stack.id]


def test_a_figure_that_is_no_time_has_no_cost() -> None:
    times = {(NEW, MATMUL): 0.1, (OLD, MATMUL): 0.05}
    assert costs_of(campaign(times, figure="higher")) == ()


@given(st.floats(1e-6, 1e6), st.floats(0.001, 1000))
def test_costs_grow_with_the_price_and_with_time(price: float, factor: float) -> None:
    times = {(NEW, MATMUL): 0.1, (OLD, MATMUL): 0.2}
    one = costs_of(campaign(times, blocks=6), price)
    dearer = costs_of(campaign(times, blocks=6), price * factor)
    slower = costs_of(campaign({k: v * factor for k, v in times.items()}, blocks=6), price)
    for a, b, c in zip(one, dearer, slower, strict=True):
        assert b.per_million == pytest.approx(a.per_million * factor)
        assert c.per_million == pytest.approx(a.per_million * factor)
        assert a.per_unit * a.per_million == pytest.approx(1e6)


def scaled_of(inspections: list[Inspection], prices: tuple[float, ...]) -> tuple[CpuScaling, ...]:
    counts = [
        AtCount(call=on(count), indicator="matmul", cpus=count, price=price)
        for count, price in zip((1, 2, 4), prices, strict=True)
    ]
    ranking = ranked(inspections, [each.call for each in counts])
    return scaled(inspections, ranking=ranking, counts=counts)


SCALING = {
    (where, on(count)): seconds
    for where, times in ((NEW, (0.4, 0.2, 0.2)), (OLD, (0.4, 0.4, 0.4)))
    for count, seconds in zip((1, 2, 4), times, strict=True)
}


def test_times_and_costs_are_ratios_to_the_baseline_on_the_fewest_cpus() -> None:
    rows = scaled_of(campaign(SCALING), (1, 2, 4))
    found = {(row.stack_id, row.cpus): row for row in rows}
    assert len(rows) == 6
    first = found[NEW.stack.id, 1]
    assert (first.time, first.low, first.high, first.cost) == (1, 1, 1, 1)
    two, four = found[NEW.stack.id, 2], found[NEW.stack.id, 4]
    assert two.low < 0.5 < two.high
    assert two.cost == pytest.approx(1.0, rel=0.01)
    assert four.cost == pytest.approx(2.0, rel=0.01)
    assert found[OLD.stack.id, 4].cost == pytest.approx(4.0, rel=0.01)


def test_prices_that_are_given_take_the_place_of_proportion() -> None:
    rows = scaled_of(campaign(SCALING), (0.1, 0.15, 0.2))
    two = next(row for row in rows if (row.stack_id, row.cpus) == (NEW.stack.id, 2))
    assert two.cost == pytest.approx(0.75, rel=0.01)


def test_too_few_blocks_give_no_interval_and_figures_no_cost() -> None:
    rows = scaled_of(campaign(SCALING, blocks=2), (1, 2, 4))
    assert {(row.low, row.high) for row in rows} == {(1, 1), (0, math.inf)}
    assert {row.cost for row in scaled_of(campaign(SCALING, figure="lower"), (1, 2, 4))} == {None}


def test_each_number_of_cpus_is_a_call_of_its_own_with_cpus_of_its_own() -> None:
    request = changed(REQUEST, cpus=(1, 2, 4), price_per_hour=0.4)
    found = metered(request, [MATMUL], FOUR)
    assert len({each.id for each in found.calls}) == 3
    assert [found.limits[each.id].cpus for each in found.calls] == [(3,), (2, 3), (0, 1, 2, 3)]
    assert [found.limits[each.id].threads for each in found.calls] == [1, 2, 4]
    assert [found.per_hour[each.id] for each in found.calls] == pytest.approx([0.1, 0.2, 0.4])


def test_without_numbers_of_cpus_nothing_changes_and_the_whole_machine_is_paid() -> None:
    assert metered(REQUEST, [MATMUL], FOUR).calls == (MATMUL,)
    found = metered(changed(REQUEST, price_per_hour=0.4), [MATMUL], FOUR)
    assert (found.calls, found.limits) == ((MATMUL,), {})
    assert found.per_hour == {MATMUL.id: 0.4}


def test_prices_are_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "prices.toml"
    file.write_text('currency = "EUR"\n[per_hour]\n1 = 0.1\n2 = 0.15\n4 = 1\n')
    found = metered(changed(REQUEST, cpus=(1, 2), prices=file), [MATMUL], FOUR)
    assert list(found.per_hour.values()) == [0.1, 0.15]
    assert found.currency == "EUR"
    whole = metered(changed(REQUEST, prices=file), [MATMUL], FOUR)
    assert list(whole.per_hour.values()) == [1.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[per_hour]\n1 = 0.1\n", "none for 2 CPUs"),
        ("per_hour = 1", r"no table \[per_hour\]"),
        ("[per_hour]\n", r"no table \[per_hour\]"),
        ("[per_hour]\nmany = 1", "many is no number of CPUs"),
        ("[per_hour]\n2 = 0", "0 is no price"),
        ("[per_hour]\n2 = true", "True is no price"),
        ("[per_hour]\n2 = inf", "inf is no price"),
        ("[per_hour]\n2 = 1\n[price]\n", "price, which means nothing"),
        ("currency = 3\n[per_hour]\n2 = 1\n", "currency = 3"),
        ("not TOML", "cannot read prices"),
        (None, "No such file"),
    ],
)
def test_prices_that_cannot_be_used_are_refused(
    tmp_path: Path, text: str | None, message: str
) -> None:
    file = tmp_path / "prices.toml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(
        UsageError, match=message if message != "currency = 3" else "currency is a text"
    ):
        metered(changed(REQUEST, cpus=(2,), prices=file), [MATMUL], FOUR)


def test_more_cpus_than_there_are_and_threads_beside_them_are_refused() -> None:
    with pytest.raises(UsageError, match=r"(?s)8 CPUs.*may use 4.*--cpus 1,2,4"):
        metered(changed(REQUEST, cpus=(1, 8)), [MATMUL], FOUR)
    for request in (
        changed(REQUEST, cpus=(1,), threads=2),
        changed(REQUEST, cpus=(1,), parameters=(("threads", "2"),)),
    ):
        with pytest.raises(UsageError, match="sets the number of threads"):
            metered(request, [MATMUL], FOUR)


def test_numbers_of_cpus_are_read_in_order_each_once() -> None:
    assert parse_cpu_counts("") == ()
    assert parse_cpu_counts("4, 1,2,1") == (1, 2, 4)
    for text in ("0", "1,,2", "two", "-1", "1.5", "²"):
        with pytest.raises(UsageError, match="numbers of CPUs"):
            parse_cpu_counts(text)


@pytest.mark.parametrize("price", [0.0, -1.0, math.inf, math.nan])
def test_a_price_above_zero_is_wanted(price: float) -> None:
    with pytest.raises(UsageError, match="price"):
        CostOptions(price_per_hour=price)
    with pytest.raises(UsageError, match="two kinds"):
        CostOptions(price_per_hour=0.1, prices=Path("prices.toml"))


@given(st.floats(0.01, 100), st.integers(1, 64), st.integers(1, 64))
def test_the_price_of_a_part_is_in_proportion(whole: float, machine: int, part: int) -> None:
    prices = Prices(machine_cpus=machine, whole=whole)
    assert prices.per_hour(machine) == pytest.approx(whole)
    assert prices.per_hour(part) == pytest.approx(whole * part / machine)


def test_usable_cpus_are_those_that_stacks_are_measured_on() -> None:
    assert set(limits(0).cpus) <= set(usable_cpus())


def test_campaigns_on_other_numbers_of_cpus_are_others_and_prices_change_none() -> None:
    from tests.samples import FACTS

    def identity(request: CampaignRequest) -> str:
        return request.identity("virtualenv", FACTS, where="here")

    assert identity(changed(REQUEST, cpus=(1, 2))) != identity(REQUEST)
    assert identity(changed(REQUEST, price_per_hour=1.0)) == identity(REQUEST)
    assert identity(changed(REQUEST, prices=Path("x"))) == identity(REQUEST)
