"""`images prune --keep`: our images in the engine count as what the engine holds of them."""

from pathlib import Path

import pytest

from stackgen.images.build import ImageBuilder
from stackgen.images.engine import Engine
from stackgen.images.image_store import ImageStore
from stackgen.images.layer_store import LayerStore
from stackgen.images.maintenance import prune
from stackgen.model.reports.images import StoreItem
from stackgen.model.stacks import Base, Environment
from tests.containers.wheels import make_wheel, stack_of

pytestmark = pytest.mark.docker


class Shop:
    """Builds stacks of one common package, and one or more of their own."""

    def __init__(self, builder: ImageBuilder, base: Base, folder: Path) -> None:
        self.builder, self.base, self.folder = builder, base, folder
        self.ended()

    def ended(self) -> None:
        """Let go of all that was used, as the end of a process does."""
        self.builder.store = LayerStore(self.folder / "layers")

    def build(self, *names: str) -> Environment:
        text = "x" * 300_000
        pairs = [make_wheel(self.folder, name, {f"{name}.txt": text}) for name in names]
        stack = stack_of(*(artifact for artifact, _ in pairs), base=self.base)
        files = {artifact.sha256: path for artifact, path in pairs}
        return self.builder.build(stack, self.base, files, frozenset(names[1:]))


@pytest.fixture
def shop(builder: ImageBuilder, base: Base, tmp_path: Path) -> Shop:
    return Shop(builder, base, tmp_path)


def shelf(engine: Engine, shop: Shop) -> ImageStore:
    """Return the images as another process sees them."""
    return ImageStore(engine=engine, known=LayerStore(shop.folder / "layers"))


def sizes(items: list[StoreItem]) -> list[int]:
    return [item.size for item in sorted(items, key=lambda item: item.used_at)]


def test_a_layer_counts_once_and_the_base_not_at_all(engine: Engine, shop: Shop) -> None:
    shop.build("common", "one")
    shop.build("common", "two")
    first, second = sizes(list(shelf(engine, shop).items()))
    assert 300_000 < first < 400_000  # its own wheel; the common one counts for the younger
    assert 600_000 < second < 800_000


def test_the_least_recently_used_goes_and_what_is_in_use_stays(engine: Engine, shop: Shop) -> None:
    one, two = shop.build("common", "one"), shop.build("common", "two")
    retained = prune([shelf(engine, shop)], keep_bytes=0)
    assert ({item.path for item in retained.in_use}, retained.dropped) == (
        {one.location, two.location},
        (),
    )
    shop.ended()
    again = shop.build("common", "two")
    assert again.location == two.location
    found = prune([shelf(engine, shop)], keep_bytes=0)
    assert [item.path for item in found.dropped] == [one.location]
    assert engine.image(one.location) is None
    assert engine.image(two.location) is not None


def test_what_an_older_image_in_use_holds_is_not_counted_as_won(engine: Engine, shop: Shop) -> None:
    one = shop.build("common", "one")
    shop.ended()
    container = engine.api.create_container(one.location, ["true"])["Id"]
    try:
        two = shop.build("common", "two")
        shop.ended()
        found = prune([shelf(engine, shop)], keep_bytes=0)
        (left,) = shelf(engine, shop).items()
    finally:
        engine.api.remove_container(container, force=True)
    assert [item.path for item in found.dropped] == [two.location]
    assert found.remaining_bytes == left.size


def test_an_image_of_a_container_stays(engine: Engine, shop: Shop) -> None:
    one = shop.build("common", "one")
    shop.ended()
    container = engine.api.create_container(one.location, ["true"])["Id"]
    try:
        found = prune([shelf(engine, shop)], keep_bytes=0)
        assert [item.path for item in found.in_use] == [one.location]
    finally:
        engine.api.remove_container(container, force=True)
    found = prune([shelf(engine, shop)], keep_bytes=0)
    assert [item.path for item in found.dropped] == [one.location]


def test_what_a_user_named_and_what_others_built_are_not_ours(
    engine: Engine, shop: Shop, tmp_path: Path
) -> None:
    one = shop.build("common", "one")
    shop.ended()
    engine.api.tag(one.location, "stackgen-test-named", "mine")
    try:
        assert list(shelf(engine, shop).items()) == []
    finally:
        engine.api.remove_image("stackgen-test-named:mine")
    assert len(list(shelf(engine, shop).items())) == 1
    assert list(ImageStore(engine=engine, known=LayerStore(tmp_path / "another")).items()) == []


def test_of_those_that_are_to_go_by_number_what_is_used_or_named_stays(
    engine: Engine, shop: Shop
) -> None:
    one = shop.build("common", "one").location
    assert not shelf(engine, shop).remove(one)  # the shop has it in hand
    shop.ended()
    engine.api.tag(one, "stackgen-test-named", "mine")
    try:
        assert not shelf(engine, shop).remove(one)
    finally:
        engine.api.remove_image("stackgen-test-named:mine")
    assert shelf(engine, shop).remove(one, dry_run=True)
    assert engine.image(one) is not None
    assert shelf(engine, shop).remove(one)
    assert engine.image(one) is None
