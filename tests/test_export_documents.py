"""The documents of what is exported: equal inputs give equal bytes, and no host is named."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackgen.images.exports import dockerfile, index_options
from stackgen.images.layers import (
    Blob,
    EngineImage,
    OwnLayer,
    blob_of,
    image_config,
    image_index,
    image_manifest,
    read_config,
)
from stackgen.report.images import notable
from tests.containers.wheels import a_base, artifact_of, make_wheel, stack_of

ANSWERS = {
    "image": "python@sha256:0",
    "interpreter": "/usr/local/bin/python3",
    "base": "bookworm-py311",
    "python": "3.11",
    "packages": 2,
    "lock": "Pipfile.lock",
    "version": "1.0",
    "wheels": False,
    "index": True,
}


def written(**changes: object) -> str:
    return dockerfile(**{**ANSWERS, **changes})  # type: ignore[arg-type]


def options(text: str) -> list[str]:
    line = text[text.index("-m pip install") : text.index("-r /context")]
    return [each for each in line.split() if each.startswith("--")]


def test_a_dockerfile_is_the_same_text_each_time_and_names_no_host() -> None:
    assert written() == written()
    assert "://" not in written()
    assert {"--require-hashes", "--no-deps", "--only-binary=:all:"} <= set(options(written()))


def test_wheels_beside_it_are_found_and_an_index_is_requested_only_where_it_is_needed() -> None:
    assert not {"--no-index", "--find-links=/context/wheels"} & set(options(written()))
    both = options(written(wheels=True))
    assert ("--find-links=/context/wheels" in both, "--no-index" in both) == (True, False)
    assert "--no-index" in options(written(wheels=True, index=False))


def test_the_last_stage_takes_nothing_of_the_first_but_the_stack() -> None:
    _, last = written().split("\nFROM ${BASE}\n")
    assert [line for line in last.splitlines() if line.startswith("COPY")] == [
        "COPY --from=build /opt/stack /opt/stack"
    ]
    assert "ARG" not in last


def test_a_lock_cannot_smuggle_an_instruction_into_the_dockerfile() -> None:
    text = written(lock="Pipfile.lock\nRUN echo boo")
    assert not any(line.startswith("RUN echo") for line in text.splitlines())


@pytest.mark.parametrize(
    ("urls", "pages", "default", "expected"),
    [
        ((), (), True, ""),
        (("https://a/simple",), (), True, "--extra-index-url https://a/simple\n"),
        (("https://a/simple",), (), False, "--index-url https://a/simple\n"),
        (
            ("https://a/simple", "https://b/simple"),
            (),
            False,
            "--index-url https://a/simple\n--extra-index-url https://b/simple\n",
        ),
        (("http://a:8/x",), (), False, "--index-url http://a:8/x\n--trusted-host a:8\n"),
        ((), ("https://a/wheels",), True, "--find-links https://a/wheels\n"),
    ],
)
def test_other_indexes_than_the_default_one_are_named(
    urls: tuple[str, ...], pages: tuple[str, ...], default: bool, expected: str
) -> None:
    assert index_options(urls=urls, pages=pages, default=default) == expected


@given(st.lists(st.tuples(st.binary(max_size=4), st.booleans()), max_size=5))
def test_a_layout_names_its_blobs_by_content_and_in_order(
    contents: "list[tuple[bytes, bool]]",
) -> None:
    content = json.dumps(
        {
            "architecture": "arm64", "os": "linux", "variant": "v8",
            "config": {"Labels": {"org.opencontainers.image.title": "t", "stackgen.stack": "s"}},
            "rootfs": {"diff_ids": [f"sha256:{at}" for at in range(len(contents))]},
        }
    ).encode()  # fmt: skip
    config, blob = read_config(content), blob_of(content)
    blobs = [Blob(digest=blob_of(c).digest, size=len(c), zipped=z) for c, z in contents]
    manifest = image_manifest(config, blob, blobs)
    document = json.loads(manifest)
    assert [each["digest"] for each in document["layers"]] == [each.digest for each in blobs]
    kinds = [each["mediaType"].endswith("+gzip") for each in document["layers"]]
    assert kinds == [each.zipped for each in blobs]
    assert document["annotations"] == {"org.opencontainers.image.title": "t"}
    (entry,) = json.loads(image_index(config, manifest, name="n"))["manifests"]
    assert (entry["digest"], entry["size"]) == (blob_of(manifest).digest, len(manifest))
    assert entry["platform"] == {"architecture": "arm64", "os": "linux", "variant": "v8"}


@pytest.mark.parametrize("content", [b"{", b"[]", b"{}", b'{"rootfs": 7, "config": {}}'])
def test_what_is_no_configuration_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"lacks|Expecting|expecting"):
        read_config(content)


def test_a_configuration_says_what_is_installed_where_and_who_runs_it(tmp_path: Path) -> None:
    artifact = artifact_of(make_wheel(tmp_path, "one")[1])
    base = EngineImage(
        id="sha256:b", digests=("mine@sha256:d",), diff_ids=("sha256:1",),
        architecture="amd64", user="1000:1000",
    )  # fmt: skip
    own = [OwnLayer(diff_id="sha256:2"), OwnLayer(diff_id="sha256:3", wheels=(artifact.filename,))]
    stack = stack_of(artifact, base=a_base())
    document = json.loads(image_config(stack, base, own, base_name="mine", version="1"))
    labels = document["config"]["Labels"]
    assert json.loads(labels["stackgen.layers"]) == [[], [artifact.filename]]
    assert json.loads(labels["stackgen.packages"]) == [
        ["one", "1.0", artifact.filename, artifact.sha256]
    ]
    assert labels["org.opencontainers.image.base.digest"] == "sha256:d"
    assert labels["stackgen.base"] == "sha256:b"
    assert document["config"]["User"] == "1000:1000"
    assert [each["created_by"] for each in document["history"]] == [
        "base mine", "stackgen 1: virtualenv", f"stackgen 1: {artifact.filename}",
    ]  # fmt: skip


def test_a_list_names_the_packages_that_distinguish_stacks() -> None:
    assert notable("one==1 two==2") == "one 1, two 2"
    many = "absl-py==2 keras==3 numpy==1.26.4 tensorflow==2.15.0 wrapt==1"
    assert notable(many) == "numpy 1.26.4, tensorflow 2.15.0 and 3 more"
    assert notable("a==1 b==2 c==3 d==4") == "a 1 and 3 more"
