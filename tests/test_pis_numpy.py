"""NumPy's indicators: what they count, and that every version computes the same.

Each is run by the harness as ever, many of them in one process, at tiny sizes and with one
operation a sample, since it is results and not times that are looked at.
"""

import functools
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from uv import find_uv_bin

from stackgen.campaign.indicators import load_indicators
from stackgen.images.targets import find_interpreters, run_probe
from stackgen.model.inspections import Indicator
from stackgen.storage.paths import shipped_folder

PIS = shipped_folder("pis")
INDICATORS = {each.name: each for each in load_indicators(PIS) if each.component == "numpy"}
# Runs each indicator with its options as if it had been called so; only the first finds
# threadpoolctl.
DRIVER = """
import json, runpy, sys, traceback
for script, name, options in json.loads(sys.argv[1]):
    module = runpy.run_path(script)
    harness = sys.modules["harness"]
    harness.WARM_UP_S = 0.0
    sys.argv = [script, name, "--samples", "1"] + options
    try:
        harness.main_table(module)
    except BaseException:
        print(json.dumps({"stackgen": 1, "outcome": "crashed", "reason": traceback.format_exc()}))
    sys.modules["threadpoolctl"] = None
"""
Result = dict[str, Any]
# A test of each indicator by its own options, and FLOP or bytes of one operation, by hand.
WORK: dict[tuple[str, str], float | None] = {
    ("matmul", "size=3"): 9 * (3 + 3),
    ("einsum", "kind=product size=3 batch=2"): 2 * 9 * (3 + 3),
    ("einsum", "kind=rows size=3 batch=2"): 2 * 3 * (3 + 3),
    ("svd", "size=5"): None,
    ("qr", "size=5"): None,
    ("cholesky", "size=6"): 216 / 3,
    ("solve", "size=6"): 2 * 216 / 3,
    ("eigh", "size=5"): None,
    ("fft", "size=8"): 5 * 8 * 3,
    ("fft", "size=8 dtype=float32"): 5 * 8 * 3,
    ("sort", "size=50 kind=quicksort"): None,
    ("sort", "size=50 kind=stable"): None,
    ("sort", "size=50 kind=heapsort"): None,
    ("unique", "size=50 distinct=7"): None,
    ("ufunc", "kind=add size=10"): (10 + 10 + 10) * 8,
    ("ufunc", "kind=multiply size=10 dtype=float32"): (10 + 10 + 10) * 4,
    ("ufunc", "kind=divide size=10 dtype=float16"): (10 + 10 + 10) * 2,
    ("ufunc", "kind=maximum size=10"): (10 + 10 + 10) * 8,
    ("ufunc", "kind=sqrt size=10"): (10 + 10) * 8,
    ("ufunc", "kind=exp size=10"): (10 + 10) * 8,
    ("ufunc", "kind=log size=10 dtype=float32"): (10 + 10) * 4,
    ("ufunc", "kind=tanh size=10"): (10 + 10) * 8,
    ("reduction", "kind=sum size=4"): (16 + 4) * 8,
    ("reduction", "kind=mean size=4 dtype=float32"): (16 + 4) * 4,
    ("reduction", "kind=max size=4 dtype=float16"): (16 + 4) * 2,
    # Places of 8 bytes are read, and as many numbers are read and written.
    ("take", "kind=index size=10"): 10 * 8 + (10 + 10) * 8,
    ("broadcast", "size=4"): (4 + 4 + 16) * 8,
    ("random", "kind=uniform size=100"): None,
    ("random", "kind=normal size=100"): None,
    ("random", "kind=integers size=100"): None,
    ("random", "kind=uniform generator=new size=100 dtype=float32"): None,
    ("random", "kind=normal generator=new size=100"): None,
    ("random", "kind=integers generator=new size=100"): None,
    ("small_arrays", "size=5"): None,
}
CALLS = [*WORK, ("take", "kind=mask size=10")]
IMPOSSIBLE = {
    ("svd", "size=5 dtype=float16"): "float16 is unsupported",
    ("qr", "size=5 dtype=float16"): "float16 is unsupported",
    ("cholesky", "size=512 dtype=float16"): "float16 is unsupported",
    ("solve", "size=5 dtype=float16"): "float16 is unsupported",
    ("eigh", "size=5 dtype=float16"): "float16 is unsupported",
    ("fft", "size=8 dtype=float16"): "no complex numbers of float16",
    ("random", "size=8 dtype=float32"): "RandomState draws float64 alone",
    ("random", "size=8 generator=new dtype=float16"): "float16",
    **{(name.split("/")[1], "dtype=bfloat16"): "NumPy has no bfloat16"
       for name in INDICATORS if name != "numpy/import"},
}  # fmt: skip


def computed(python: Sequence[str], calls: list[tuple[str, str]]) -> dict[tuple[str, str], Result]:
    """Return what each call told, all of them run by one process of an interpreter's command."""
    requested = [
        (
            INDICATORS[f"numpy/{name}"].path,
            name,
            ["--loops", "1", *(f"--{option}" for option in options.split())],
        )
        for name, options in calls
    ]
    done = subprocess.run(
        [*python, "-s", "-B", "-c", DRIVER, json.dumps(requested)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": ""},
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"stackgen"')]
    return dict(zip(calls, map(json.loads, lines), strict=True))


@pytest.fixture(scope="module")
def local() -> dict[tuple[str, str], Result]:
    """Return what the NumPy beside us told."""
    return computed([sys.executable], [*CALLS, *IMPOSSIBLE])


def test_every_indicator_and_every_allowed_value_is_tried_here() -> None:
    tried = {(name, word) for name, options in CALLS for word in options.split()}
    assert {f"numpy/{name}" for name, _ in tried} == INDICATORS.keys() - {"numpy/import"}
    own = {
        (name.split("/")[1], f"{parameter.name}={value}")
        for name, indicator in INDICATORS.items()
        for parameter in indicator.parameters
        for value in parameter.allowed
        if parameter.name != "dtype" and value != parameter.default
    }
    assert own - tried == set()


@pytest.mark.parametrize("call", CALLS, ids=" ".join)
def test_it_runs_and_counts_its_work_as_by_hand(
    local: Mapping[tuple[str, str], Result], call: tuple[str, str]
) -> None:
    reported = local[call]
    assert (reported["outcome"], reported["reason"]) == ("ok", "")
    if call in WORK:
        assert reported["work"] == pytest.approx(WORK[call])
    if "generator=new" in call[1]:
        assert reported["checksum"] is None
    else:
        assert reported["checksum"] > 0


@pytest.mark.parametrize("call", IMPOSSIBLE, ids=" ".join)
def test_what_numpy_lacks_is_unsupported_with_the_reason(
    local: Mapping[tuple[str, str], Result], call: tuple[str, str]
) -> None:
    assert local[call]["outcome"] == "unsupported"
    assert IMPOSSIBLE[call] in local[call]["reason"]


def hashed(place: int, seed: int) -> int:
    """Return the whole number below 2**32 that every version must make of a place."""
    mixed = (place * 2654435761 + 40503 * seed) % 2**32
    mixed = (mixed ^ mixed >> 16) * 73244475 % 2**32
    return mixed ^ mixed >> 16


def numbers(count: int, seed: int) -> list[float]:
    return [hashed(place, seed) / 2**32 - 0.5 for place in range(count)]


def checksum(values: list[float]) -> float:
    weighted = [
        (abs(value) + value / 2) * (0.5 + hashed(place, 7) / 2**32)
        for place, value in enumerate(values)
    ]
    return sum(weighted) / len(values)


def test_a_product_of_matrices_is_what_plain_python_multiplies(
    local: Mapping[tuple[str, str], Result],
) -> None:
    reported = local["matmul", "size=3"]
    a, b = numbers(9, 1), numbers(9, 2)
    product = [
        sum(a[3 * i + k] * b[3 * k + j] for k in range(3)) for i in range(3) for j in range(3)
    ]
    assert reported["checksum"] == pytest.approx(checksum(product), rel=1e-5)


def test_a_mask_reads_itself_and_moves_what_it_finds(
    local: Mapping[tuple[str, str], Result],
) -> None:
    reported = local["take", "kind=mask size=10"]
    mask = [hashed(place, 2) % 10 < 5 for place in range(10)]
    assert 0 < sum(mask) < 10
    assert reported["work"] == 10 * 1 + (sum(mask) + sum(mask)) * 8
    found = [value for value, retained in zip(numbers(10, 1), mask, strict=True) if retained]
    assert reported["checksum"] == pytest.approx(checksum(found))


def test_what_sorting_must_give_is_what_python_sorts(
    local: Mapping[tuple[str, str], Result],
) -> None:
    expected = pytest.approx(checksum(sorted(numbers(50, 1))))
    kinds = ("quicksort", "stable", "heapsort")
    assert [local["sort", f"size=50 kind={kind}"]["checksum"] for kind in kinds] == [expected] * 3


@pytest.fixture
def framework(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what the indicators share, as a module."""
    for name in ("harness", "framework_numpy"):
        spec = importlib.util.spec_from_file_location(name, PIS / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
    return sys.modules["framework_numpy"]


def test_a_checksum_sees_one_number_its_sign_and_its_place(framework: Any) -> None:
    shared = framework.start({}, {"dtype": "float64"})
    right = shared.numbers((300, 300))  # more than is summed at once
    truth = shared.checksum(right)
    wrong = []
    for factor, more in ((-1, 0), (1.01, 0), (1, 0.01)):
        one = right.copy()
        one[250, 7] = one[250, 7] * factor + more
        wrong.append(one)
    swapped = right.copy()
    swapped[[3, 200]] = swapped[[200, 3]]
    for each in (*wrong, swapped, right.T, right[::-1]):
        assert abs(shared.checksum(each) / truth - 1) > 1e-9
    assert shared.checksum(right.copy(order="F")) == truth


def test_inputs_are_without_order_and_take_no_memory_beside_them(framework: Any) -> None:
    import tracemalloc

    shared = framework.start({}, {"dtype": "float32"})
    tracemalloc.start()
    made = shared.numbers(2_000_000, seed=3)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < made.nbytes + 6_000_000
    assert abs(float(made.mean())) < 0.001
    rises = (made[1:] > made[:-1]).astype("float64")
    assert abs(rises.mean() - 0.5) < 0.002
    # Of numbers without order, one in three follows two others downwards or upwards.
    assert abs(float((rises[1:] == rises[:-1]).mean()) - 1 / 3) < 0.002


VERSIONS = {"1.16.6": "3.7", "1.21.6": "3.9", "1.26.4": "3.11", "2.0.2": "3.11", "": "3.13"}


@functools.cache
def bases() -> Mapping[str, str]:
    """Return an interpreter of each minor version that is here."""
    found = reversed(find_interpreters())
    return {run_probe(path).version.rpartition(".")[0]: path for path in found}


@pytest.fixture(params=VERSIONS, ids=lambda version: version or "newest")
def interpreter(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """Return an interpreter with a version of NumPy."""
    version = str(request.param)
    base = bases().get(VERSIONS[version])
    if base is None:
        pytest.skip(f"no Python {VERSIONS[version]} here for NumPy {version or 'newest'}")
    uv, folder = find_uv_bin(), tmp_path / "numpy"
    subprocess.run([uv, "--quiet", "venv", "--python", base, folder], check=True)
    wanted = f"numpy=={version}" if version else "numpy"
    python = str(folder / "bin" / "python")
    install = [uv, "--quiet", "pip", "install", "--python", python, "--only-binary", ":all:"]
    subprocess.run([*install, wanted, "threadpoolctl"], check=True)
    return version, python


@pytest.mark.network
def test_every_version_computes_what_ours_computes(
    local: Mapping[tuple[str, str], Result], interpreter: tuple[str, str]
) -> None:
    version, python = interpreter
    found = computed([python], [*CALLS, *IMPOSSIBLE])
    for call, reported in found.items():
        if version == "1.16.6" and "generator=new" in call[1]:
            assert reported["outcome"] == "unsupported"
            assert reported["reason"] == "Generator came with NumPy 1.17"
            continue
        assert reported["outcome"] == local[call]["outcome"], (call, reported["reason"])
        assert version in reported["component_version"]
        if reported["outcome"] == "ok":
            tolerance = reported["circumstances"]["checksum_tolerance"]
            ours = local[call]["checksum"]
            same = None if ours is None else pytest.approx(ours, rel=tolerance, abs=0)
            assert (reported["work"], reported["checksum"]) == (local[call]["work"], same), call
    # The first asked threadpoolctl, which counts as nothing that it had loaded; the others us.
    first, *others = (reported for reported in found.values() if reported["outcome"] == "ok")
    assert [each["name"] for each in first["loaded"]] == ["numpy"]
    assert first["circumstances"]["blas"].startswith("openblas ")
    assert {each["circumstances"]["blas"] for each in others} == {first["circumstances"]["blas"]}


def test_the_import_of_numpy_is_timed_once() -> None:
    assert isinstance(INDICATORS["numpy/import"], Indicator)
    assert INDICATORS["numpy/import"].one_shot
