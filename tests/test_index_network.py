"""The configured index, as it is today."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from packaging.requirements import Requirement

from stackgen.index import PackageIndex, load_config
from stackgen.index.transport import Multiplexer
from stackgen.model.packages import Artifact

pytestmark = pytest.mark.network


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PackageIndex]:
    cache: Path = tmp_path_factory.mktemp("cache")
    with PackageIndex(load_config(environ=os.environ), cache) as each:
        yield each


@pytest.fixture(scope="module")
def tensorflow(index: PackageIndex) -> Artifact:
    fit = "tensorflow-2.12.0-cp311-cp311-manylinux"
    files = [x for x in index.candidates("tensorflow") if x.filename.startswith(fit)]
    return next(x for x in files if "x86_64" in x.filename)


def test_tensorflow_is_there_with_hash_and_python(tensorflow: Artifact) -> None:
    assert tensorflow.version == "2.12.0"
    assert len(tensorflow.sha256) == 64
    assert tensorflow.requires_python == ">=3.8"


def test_tensorflow_says_which_numpy_it_takes(index: PackageIndex, tensorflow: Artifact) -> None:
    lines = map(Requirement, index.metadata(tensorflow).requires_dist)
    numpy = next(each for each in lines if each.name == "numpy")
    assert "1.23.5" in numpy.specifier
    assert "1.24.0" not in numpy.specifier


def test_the_size_of_a_wheel_is_known_before_it_is_downloaded(
    index: PackageIndex, tensorflow: Artifact
) -> None:
    (size,) = index.sizes([tensorflow]).values()
    assert (size or 0) > 500e6


def test_a_package_that_does_not_exist_is_unknown(index: PackageIndex) -> None:
    assert index.candidates_many(["stackgen-no-such-package-0"]) == {
        "stackgen-no-such-package-0": None
    }


def test_http_2_brings_what_an_ordinary_connection_brings(tensorflow: Artifact) -> None:
    config = load_config(environ=os.environ)
    many, headers = Multiplexer(config), {"Range": "bytes=-5000", "Accept-Encoding": "identity"}
    reply = many.get(tensorflow.url, headers)
    many.close()
    if reply is None:
        pytest.skip("the index does not speak HTTP/2")
    trusted = config.ca_bundle or True
    plain = requests.get(tensorflow.url, headers=headers, verify=trusted, timeout=60)
    assert (reply.status, reply.body) == (plain.status_code, plain.content)
    assert len(reply.body) == 5000
