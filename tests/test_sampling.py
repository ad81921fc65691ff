"""Which stacks are drawn where there are too many, held against all of them."""

from collections import Counter
from collections.abc import Sequence
from itertools import combinations

import pytest
from hypothesis import given

from stackgen.errors import UsageError
from stackgen.resolve import choose
from stackgen.resolve.choose import contemporary, pairwise_cover, stratified
from stackgen.resolve.space import Slice, Space
from tests.spaces import Index, artifact, chance_of_counts, closure, space
from tests.test_space import indexes

SKEWED: Index = {
    "a": {"3.0": ["b", "c"], "2.0": ["b<2", "c"], "1.0": ["b==1.0", "c==1.0"]},
    "b": {"3.0": [], "2.0": [], "1.5": [], "1.0": []},
    "c": {"3.0": [], "2.0": [], "1.0": []},
}
CIRCLE: Index = {
    "a": {"2.0": ["b"], "1.0": ["b[x]"]},
    "b": {"2.0": ["a"], "1.0": ["a", "c; extra == 'x'"]},
    "c": {"2.0": [], "1.0": []},
}
Row = tuple[str, ...]


def row(choice: Slice) -> Row:
    versions = dict(choice.versions)
    return tuple(versions.get(name, "") for name in choice.varied)


def is_even(drawn: Counter[str] | Counter[Row], *, kinds: int) -> bool:
    """Return whether so many kinds were drawn, and each about equally often."""
    return len(drawn) == kinds and chance_of_counts(drawn.values()) > 0.001


@pytest.mark.parametrize(("index", "roots"), [(SKEWED, ["a"]), (CIRCLE, ["a"]), (SKEWED, ["b|c"])])
def test_samples_are_uniform_over_all_stacks(index: Index, roots: list[str]) -> None:
    found = space(index, *roots)
    drawn = Counter(str(each.id) for each in found.sample(seed=7, n=150 * found.count))
    assert is_even(drawn, kinds=found.count)


def test_samples_of_a_part_are_uniform_over_that_part() -> None:
    part = space(SKEWED, "a").within({"b": ("1.0", "1.5")}, present=("c",))
    drawn = Counter(str(each.id) for each in part.sample(seed=3, n=200 * part.count))
    assert is_even(drawn, kinds=part.count)


def test_equal_seeds_draw_equal_stacks() -> None:
    found = space(SKEWED, "a")
    slices = found.slices(["a", "b"])
    assert [*found.sample(5, 20)] == [*found.sample(5, 20)] != [*found.sample(6, 20)]
    once, again = (list(stratified(found, slices, seed=5, n=9)) for _ in range(2))
    assert once == again


def test_stratified_samples_take_each_version_of_the_first_package_equally_often() -> None:
    found = space(SKEWED, "a")
    slices = found.slices(["a", "b"])
    firsts = Counter(
        row(choice)[0]
        for seed in range(600)
        for choice, _ in stratified(found, slices, seed=seed, n=1)
    )
    assert is_even(firsts, kinds=3)


def test_stratified_samples_take_each_version_that_the_first_package_leaves_equally_often() -> None:
    found = space(SKEWED, "a")
    slices = found.slices(["a", "b"])
    drawn = Counter(
        row(choice)
        for seed in range(1200)
        for choice, _ in stratified(found, slices, seed=seed, n=1)
        if row(choice)[0] == "3.0"
    )
    assert is_even(drawn, kinds=4)


def test_stratified_samples_repeat_no_choice_before_all_had_their_turn() -> None:
    found = space(SKEWED, "a")
    slices = found.slices(["a", "b"])
    drawn = [row(choice) for choice, _ in stratified(found, slices, seed=1, n=2 * len(slices))]
    assert set(drawn[: len(slices)]) == set(drawn[len(slices) :]) == set(map(row, slices))


def test_stratified_samples_hold_the_newest_completion_or_a_uniform_one() -> None:
    found = space(SKEWED, "a")
    (choice,) = (each for each in found.slices(["a", "b"]) if row(each) == ("3.0", "2.0"))
    assert {lock for _, lock in stratified(found, [choice], seed=1, n=50)} == {
        found.complete(choice)
    }
    drawn = Counter(
        lock.versions["c"]
        for _, lock in stratified(found, [choice], seed=1, n=600, newest=False)
        if (lock.versions["a"], lock.versions["b"]) == ("3.0", "2.0")
    )
    assert is_even(drawn, kinds=3)
    assert sum(drawn.values()) == 600


def test_nothing_is_drawn_from_nothing() -> None:
    found = space({"a": {"1.0": ["b>1"]}, "b": {"1.0": []}}, "a")
    assert found.slices(["a", "b"]) == ()
    assert list(stratified(found, (), seed=1, n=5)) == []
    assert pairwise_cover(()) == ()


Pair = tuple[tuple[int, str], ...]


def pairs(rows: Sequence[Row]) -> set[Pair]:
    return {pair for each in rows for pair in combinations(enumerate(each), 2)}


@given(indexes())
def test_a_cover_holds_every_feasible_pair_and_no_other(index: Index) -> None:
    found = space(index, "a", "b")
    slices = found.slices(["a", "b", "c", "d"])
    cover = pairwise_cover(slices)
    listed = [each.versions for each in found.stacks()]
    varied = slices[0].varied if slices else ()
    feasible = pairs([tuple(each.get(name, "") for name in varied) for each in listed])
    assert pairs([row(each) for each in cover]) == feasible
    assert set(cover) <= set(slices)
    assert len(set(cover)) == len(cover)


def test_a_cover_is_much_smaller_than_all_choices() -> None:
    free = {f"p{n}": {f"{v}.0": list[str]() for v in range(4)} for n in range(4)}
    slices = space({"top": {"1.0": list(free)}} | free, "top").slices(list(free))
    assert len(slices) == 4**4
    assert 16 <= len(pairwise_cover(slices)) <= 32


def test_a_cover_of_one_package_holds_each_of_its_versions() -> None:
    cover = pairwise_cover(space(SKEWED, "a").slices(["a"]))
    assert [row(each) for each in cover] == [("3.0",), ("2.0",), ("1.0",)]


def test_a_cover_of_too_many_choices_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "MOST_COVERED", 3)
    with pytest.raises(UsageError, match="too many choices"):
        pairwise_cover(space(SKEWED, "a").slices(["a", "b"]))


@pytest.mark.parametrize(
    ("uploaded", "helper"),
    [
        ("2020-01-01T00:00:00Z", "1.0"),
        ("2020-01-01T01:00:00.1234567+01:00", "1.0"),
        ("2020-01-01", "1.0"),
        ("yesterday", None),
        ("9999-12-31T23:59:59Z", "2.0"),
        (None, None),
    ],
)
def test_contemporaries_are_chosen_by_upload_times_as_indexes_write_them(
    uploaded: str | None, helper: str | None
) -> None:
    pages = {
        "main": (artifact("main", "1.0", uploaded=uploaded),),
        "helper": (
            artifact("helper", "2.0", uploaded="2024-01-01T00:00:00Z"),
            artifact("helper", "1.0", uploaded="2020-06-01 10:00"),
        ),
    }
    built = Space(closure({"main": {"1.0": ["helper"]}}, "main", pages=pages).universe())
    (choice,) = built.slices(["main"])
    lock = contemporary(built, choice)
    assert (lock.versions["helper"] if lock else None) == helper
