"""Which layers images share, what removal would free, and what names an image."""

import json
from collections.abc import Mapping

import pytest

from stackgen.commands.images import find_image
from stackgen.errors import UsageError
from stackgen.images.image_store import EngineImages, locked_wheels
from stackgen.images.layers import EngineImage
from stackgen.report.images import image_list_text


def image(
    stack: str, layers: Mapping[str, tuple[str, ...]], *, tags: tuple[str, ...] = (), **labels: str
) -> EngineImage:
    """Return an image on a base of one layer."""
    return EngineImage(
        id=f"sha256:{stack[::-1] * 16}"[:71],
        tags=tags,
        diff_ids=("base", *layers),
        labels={
            "stackgen.stack": stack * 16,
            "stackgen.layers": json.dumps(list(layers.values())),
            "org.opencontainers.image.base.name": "mine",
            **labels,
        },
        architecture="amd64",
        size=1000,
        tagged_at="2026-01-02T03:04:05Z",
    )


ONE = image("abcd", {"venv": (), "six": ("six.whl",), "np1": ("np1.whl",)}, tags=("mine:1",))
TWO = image("abce", {"venv": (), "six": ("six.whl",), "np2": ("np2.whl",)}, tags=("at/mine:2",))
OLD = image("ffff", {}, tags=("old:latest",), **{"stackgen.layers": "no JSON"})
STORED = EngineImages(
    images=(ONE, TWO, OLD),
    sizes={ONE.id: (900, 1, 10, 50), TWO.id: (900, 1, 10, 70), OLD.id: (900,)},
)


def test_a_layer_is_shared_where_all_below_it_is_equal_too() -> None:
    assert [each.others for each in STORED.layers(ONE)] == [2, 1, 1, 0]
    assert [each.of_base for each in STORED.layers(ONE)] == [True, False, False, False]
    upside_down = image("eeee", {"six": ("six.whl",), "venv": ()})
    alone = EngineImages(images=(ONE, upside_down), sizes={})
    assert [each.others for each in alone.layers(upside_down)] == [1, 0, 0]


def test_removal_frees_what_no_other_stack_has_and_never_the_base() -> None:
    assert [each.own_bytes for each in STORED.states()] == [50, 70, None]
    left = EngineImages(images=(ONE,), sizes=STORED.sizes)
    assert left.state(ONE).own_bytes == 61


def test_sizes_that_the_engine_does_not_report_are_not_known() -> None:
    silent = EngineImages(images=(ONE,), sizes={})
    assert silent.state(ONE).own_bytes is None
    assert {each.size for each in silent.layers(ONE)} == {None}
    assert "not known" in image_list_text(silent.states())


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("mine:1", ONE), ("mine:2", TWO), ("at/mine:2", TWO), ("old", OLD), ("old:latest", OLD),
        ("abcda", ONE), (ONE.id, ONE), (TWO.id[7:20], TWO),
    ],
)  # fmt: skip
def test_an_image_is_found_by_tag_and_by_the_beginning_of_an_id(
    name: str, found: EngineImage
) -> None:
    assert find_image(STORED, name) is found


@pytest.mark.parametrize("name", ["", "abc", "nobody", "ine:1", "mine"])
def test_what_names_no_image_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="no image of a stack"):
        find_image(STORED, name)


def test_what_names_several_images_is_refused_with_their_names() -> None:
    twins = EngineImages(images=(ONE, image("abcdabcx", {"venv": ()})), sizes={})
    with pytest.raises(UsageError, match="names 2 images") as refused:
        find_image(twins, "abcdabc")
    assert "abcdabcdabcdabcd" in refused.value.why


@pytest.mark.parametrize("label", ["", "no JSON", "7", "[1]", '[["too", "short"]]'])
def test_an_unreadable_lock_is_no_lock(label: str) -> None:
    assert locked_wheels(image("aaaa", {}, tags=(), **{"stackgen.packages": label})) == ()
