"""Layers are ordered and named so that equal stacks are equal bytes and similar ones share."""

import hashlib
import json
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackgen.errors import BuildError
from stackgen.images.layers import (
    EngineImage,
    OwnLayer,
    chain_ids,
    image_config,
    layer_order,
    layer_plan,
    load_manifest,
)
from stackgen.model.packages import Artifact
from tests.containers.wheels import a_base, stack_of

BASE = EngineImage(id="sha256:b", diff_ids=("sha256:1",), architecture="amd64", env=(("A", "1"),))
OWN = OwnLayer(diff_id="sha256:2")


def wheel(name: str, *, size: int = 1, version: str = "1") -> Artifact:
    sha256 = hashlib.sha256(f"{name} {version}".encode()).hexdigest()
    return Artifact(
        name=name, version=version, filename=f"{name}-{version}-py3-none-any.whl",
        sha256=sha256, url="", index="", size=size,
    )  # fmt: skip


names = st.lists(st.text("abcdef", min_size=1, max_size=4), unique=True, max_size=12)
sizes = st.lists(st.integers(0, 9000), min_size=12, max_size=12)
wheels = st.builds(
    lambda found, bytes_: tuple(
        wheel(name, size=n) for name, n in zip(found, bytes_, strict=False)
    ),
    names,
    sizes,
)


@given(wheels, st.randoms())
def test_order_does_not_depend_on_the_order_of_the_lock(
    found: tuple[Artifact, ...], random: Random
) -> None:
    shuffled = random.sample(found, len(found))
    assert layer_order(shuffled) == layer_order(found)


@given(wheels, st.sets(st.sampled_from(["numpy", "tensorflow", "torch"]), min_size=1))
def test_stacks_share_every_layer_below_the_varied_ones(
    found: tuple[Artifact, ...], varied: set[str]
) -> None:
    one = layer_order(
        [*found, *(wheel(name, version="1", size=5) for name in varied)], varied=varied
    )
    two = layer_order(
        [*found, *(wheel(name, version="2", size=9) for name in varied)], varied=varied
    )
    assert one[: len(found)] == two[: len(found)]


def test_the_large_varied_wheel_lies_below_the_small_one() -> None:
    large, small = wheel("tensorflow", size=2**28), wheel("numpy", size=2**24)
    assert layer_order([small, large], varied={"numpy", "tensorflow"}) == (large, small)


@given(wheels, st.integers(1, 12), st.sets(st.text("abcdef", min_size=1, max_size=1)))
def test_no_plan_has_more_layers_than_there_is_room_or_loses_a_wheel(
    found: tuple[Artifact, ...], space: int, varied: set[str]
) -> None:
    ordered = layer_order(found, varied=varied)
    plan = layer_plan(ordered, max_layers=space, varied=varied)
    assert len(plan) <= space
    assert sorted(a.name for group in plan for a in group) == sorted(a.name for a in found)


def test_only_the_smallest_common_wheels_share_a_layer() -> None:
    small, tiny, large, varied = wheel("s", size=2), wheel("t"), wheel("l", size=99), wheel("v")
    ordered = layer_order([small, tiny, large, varied], varied={"v"})
    assert layer_plan(ordered, max_layers=3, varied={"v"}) == ((small, tiny), (large,), (varied,))


def test_a_base_without_space_is_refused() -> None:
    with pytest.raises(BuildError, match="too many layers"):
        layer_plan([wheel("a")], max_layers=0)


def test_a_chain_is_named_as_the_image_specification_says() -> None:
    two = hashlib.sha256(b"sha256:1 sha256:2").hexdigest()
    three = hashlib.sha256(f"sha256:{two} sha256:3".encode()).hexdigest()
    assert chain_ids(["sha256:1", "sha256:2", "sha256:3"]) == (
        "sha256:1",
        f"sha256:{two}",
        f"sha256:{three}",
    )


@given(wheels)
def test_equal_stacks_have_equal_configurations(found: tuple[Artifact, ...]) -> None:
    configs = {
        image_config(stack_of(*some, base=a_base()), BASE, [OWN], base_name="b", version="1")
        for some in (found, found[::-1])
    }
    assert len(configs) == 1


def test_a_configuration_keeps_the_environment_of_base_and_stack_and_finds_the_stack_first() -> (
    None
):
    stack = stack_of(wheel("a"), base=a_base(), TF_ENABLE_ONEDNN_OPTS="0")
    document = json.loads(image_config(stack, BASE, [OWN], base_name="b", version="1"))
    env = dict(variable.split("=", 1) for variable in document["config"]["Env"])
    assert (env["A"], env["TF_ENABLE_ONEDNN_OPTS"]) == ("1", "0")
    assert env["PATH"].startswith("/opt/stack/bin:")
    assert document["rootfs"]["diff_ids"] == ["sha256:1", "sha256:2"]
    assert len(document["history"]) == 2
    assert document["config"]["Labels"]["stackgen.stack"] == stack.id


def test_a_manifest_names_its_configuration_by_content() -> None:
    (entry,) = json.loads(load_manifest(b"{}", tag="t:1", members=["a/layer.tar"]))
    assert entry["Config"] == f"{hashlib.sha256(b'{}').hexdigest()}.json"
    assert entry["RepoTags"] == ["t:1"]
