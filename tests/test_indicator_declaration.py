"""An indicator is read without being run, and refuses wrong values in a sentence."""

import dataclasses
import hashlib
import os
import re
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackgen.campaign.indicators import known_indicators, load_indicators
from stackgen.errors import UsageError
from stackgen.indicators.declaration import Script, bind, find, parse_indicator, parse_table
from stackgen.model.inspections import Indicator
from stackgen.report.listings import indicator_text
from stackgen.storage.paths import shipped_folder

PIS = load_indicators(shipped_folder("pis"))


def parsed(source: str, harness: str = "", *, own: bool = False) -> Indicator:
    return parse_indicator(Script(text=source, path="mine.py", harness=harness, own=own), "mine")


def small(parameter: str = "{}") -> str:
    return f"{{'summary': 's', 'component': 'numpy', 'parameters': {{'size': {parameter}}}}}"


def test_shipped_indicators_cover_every_framework_and_the_control() -> None:
    frameworks = {
        f"{c}/{n}" for c in ("tensorflow", "torch", "numpy") for n in ("import", "matmul")
    }
    assert {indicator.name for indicator in PIS} >= frameworks | {"python/pure"}
    assert all(i.component == i.name.split("/")[0] for i in PIS)


def test_the_identities_of_shipped_indicators_are_those_that_were_recorded() -> None:
    """A golden file: another id makes all that was measured of this indicator incomparable."""
    golden = Path(__file__).parent / "golden" / "indicator_ids.txt"
    found = "".join(f"{i.name} {bind(i, {}).id}\n" for i in PIS)
    if os.environ.get("STACKGEN_GOLDEN") == "write":
        golden.write_text(found)
    assert found == golden.read_text()


def test_a_script_is_not_run_when_it_is_read() -> None:
    source = "raise SystemExit\nINDICATOR = {'summary': 's', 'component': 'c'}"
    assert parsed(source).component == "c"


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("x = 1", "no INDICATOR"),
        ("INDICATOR = make()", "must be a literal"),
        ("INDICATOR = [1]", "must be a dictionary"),
        ("INDICATOR = {'summary': 's'}", "needs a text for 'component'"),
        ("INDICATOR = {'summary': 's', 'component': 'c', 'speed': 1}", "unknown keys: speed"),
        ("INDICATOR = {'summary': 's', 'component': 'c', 'timeout_s': 0}", "positive number"),
        ("def broken(:", "invalid syntax"),
        (f"INDICATOR = {small('{}')}", "needs a type"),
        (f"INDICATOR = {small(repr({'type': 'int', 'default': 'x'}))}", "whole number"),
        (
            f"INDICATOR = {small(repr({'type': 'int', 'default': 3, 'allowed': [1, 2]}))}",
            "not among its allowed values",
        ),
        (
            f"INDICATOR = {small(repr({'type': 'int', 'default': 1}))}".replace("size", "loops"),
            "cannot have that name",
        ),
    ],
)
def test_a_file_that_is_no_indicator_is_refused_with_the_reason(
    source: str, complaint: str
) -> None:
    with pytest.raises(UsageError, match=re.escape(complaint)):
        parsed(source)


COMMON = 'COMMON = {"dtype": {"type": "str", "allowed": ["a", "b"]}, "batch": {"type": "int"}}'


@pytest.mark.parametrize(
    ("declared", "complaint"),
    [
        ("'common': {'dtype': 'c'}", "default of parameter 'dtype', c, is not among"),
        ("'common': {'batch': 'many'}", "parameter 'batch' takes a whole number, not 'many'"),
        ("'common': {'size': 1}", "no common parameter 'size'; there are batch, dtype"),
        ("'common': ['dtype']", "common must be a dictionary"),
        (
            "'common': {'batch': 1}, 'parameters': {'batch': {'type': 'int', 'default': 1}}",
            "the parameter 'batch' is declared both as common and as its own",
        ),
        ("'better': 'faster'", "better must be lower or higher"),
        ("'one_shot': 1", "one_shot must be True or False"),
        ("'latency': 'yes'", "latency must be True or False"),
        ("'tolerance': -1", "tolerance must be a ratio"),
        ("'tolerance': 1e999", "tolerance must be a ratio"),
        ("'tolerance': True", "tolerance must be a number"),
    ],
)
def test_a_declaration_that_cannot_be_meant_so_is_refused_naming_the_file(
    declared: str, complaint: str
) -> None:
    source = f"INDICATOR = {{'summary': 's', 'component': 'c', {declared}}}"
    with pytest.raises(UsageError, match=re.escape(complaint)) as refused:
        parsed(source, COMMON)
    assert "mine.py is not an indicator" in str(refused.value)


def test_common_parameters_have_the_harnesss_values_and_the_indicators_default() -> None:
    source = "INDICATOR = {'summary': 's', 'component': 'c', 'common': {'dtype': 'b'}}"
    mine = parsed(source, COMMON)
    assert [(each.name, each.default) for each in mine.parameters] == [
        ("dtype", "b"),
        ("threads", "auto"),
    ]
    assert mine.parameters[0].allowed == ("a", "b")


@pytest.mark.parametrize("declared", [{"default": 0}, {"default": 2, "allowed": [0, 2]}])
def test_zero_is_taken_by_parameters_that_name_it(declared: dict[str, object]) -> None:
    source = f"INDICATOR = {small(repr({'type': 'int', **declared}))}"
    mine = parsed(source)
    assert dict(bind(mine, {"size": "00"}).arguments)["size"] == "0"
    with pytest.raises(UsageError, match="from zero on, not '-1'"):
        bind(mine, {"size": "-1"})


def test_the_frameworks_shared_file_belongs_to_the_indicator(tmp_path: Path) -> None:
    def digest(shared: str) -> str:
        (tmp_path / "framework_mine.py").write_text("from framework_more import b")
        (tmp_path / "framework_more.py").write_text(shared)
        return load_indicators(tmp_path)[0].sha256

    (tmp_path / "harness.py").write_text(COMMON)
    (tmp_path / "c").mkdir()
    own = "INDICATOR = {'summary': 's', 'component': 'c', 'common': {'dtype': 'b'}}"
    script = tmp_path / "c" / "mine.py"
    script.write_text(f"import framework_mine as framework\n{own}")
    assert digest("b = 1") != digest("b = 2")
    script.write_text(f"import framework_elsewhere\n{own}")
    assert digest("b = 1") == digest("b = 2")


def test_an_indicator_is_identified_by_revisions_and_arguments_not_by_its_source() -> None:
    def call_id(source: str, harness: str = "", *, own: bool = False) -> str:
        return bind(parsed(source, harness, own=own), {}).id

    source = "INDICATOR = {'summary': 's', 'component': 'c'}"
    raised = "INDICATOR = {'summary': 's', 'component': 'c', 'revision': 2}"
    edited = f"# an edit\n{source}"
    assert call_id(source) == call_id(edited) == call_id(source, "PROTOCOL_REVISION = 1")
    assert call_id(source) != call_id(raised)
    assert call_id(source) != call_id(source, "PROTOCOL_REVISION = 2")
    assert call_id(source, own=True) != call_id(edited, own=True)


@pytest.mark.parametrize("revision", ["0", "-1", "1.5", "True", "'2'", "None"])
def test_a_revision_is_a_whole_number_from_1(revision: str) -> None:
    source = f"INDICATOR = {{'summary': 's', 'component': 'c', 'revision': {revision}}}"
    with pytest.raises(UsageError) as caught:
        parsed(source)
    assert "revision must be a whole number from 1" in caught.value.why


def test_a_users_own_file_is_identified_by_its_content(tmp_path: Path) -> None:
    (tmp_path / "harness.py").write_text("PROTOCOL_REVISION = 3")
    (tmp_path / "c").mkdir()
    for path in (tmp_path / "c" / "shipped.py", tmp_path / "mine.py"):
        path.write_text("INDICATOR = {'summary': 's', 'component': 'c'}")
    shipped, mine = load_indicators(tmp_path, [tmp_path / "mine.py"])
    assert (shipped.identity, mine.name) == (("c/shipped", 1, 3, ""), "mine")
    assert mine.own_sha256 == hashlib.sha256((tmp_path / "mine.py").read_bytes()).hexdigest()


ROW = "{'one': {'summary': 's', 'component': 'c', 'setup': 'f'}}"


def test_a_table_declares_several_indicators_and_its_family_what_they_share() -> None:
    source = """
raise SystemExit
FAMILY = {"component": "c", "common": {"dtype": "a"}, "revision": 2, "setup": "f"}
INDICATORS = {
    "one": {"summary": "s", "common": {"batch": 8}, "work": "gates * batch",
            "constants": {"gates": 3}},
    "two": {"summary": "t", "revision": 3, "common": {"dtype": "b"}, "work": "itemsize"},
}
def f(here): pass
"""
    one, two = parse_table(Script(text=source, path="p", harness=COMMON), "g")
    assert (one.name, one.operation, one.revision) == ("g/one", "one", 2)
    assert [(each.name, each.default) for each in one.parameters[:2]] == [
        ("dtype", "a"),
        ("batch", "8"),
    ]
    assert (two.name, two.revision, two.parameters[0].default) == ("g/two", 3, "b")


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        (f"INDICATORS = {ROW}", "is set up by 'f', and there is no such function"),
        ("INDICATORS = {}", "must be a dictionary of indicators by name"),
        ("INDICATORS = make()", "must be a literal"),
        ("INDICATORS = {'a b': {}}", "needs a name of letters"),
        ("INDICATORS = {'a': []}", "INDICATORS['a'] must be a dictionary"),
        ("INDICATORS = {'a': {'speed': 1}}", "INDICATORS['a'] has unknown keys: speed"),
        ("FAMILY = {'speed': 1}\nINDICATORS = {'a': {}}", "FAMILY has unknown keys: speed"),
        (
            ROW.replace("'f'", "'f', 'work': '2 * size'"),
            "and 'size' is neither",
        ),
        (ROW.replace("'f'", "'f', 'work': 'open(1)'"), "work may only calculate, not: open(1)"),
        (ROW.replace("'f'", "'f', 'work': 'itemsize'"), "and 'itemsize' is neither"),
        (ROW.replace("'f'", "'f', 'work': '2 *'"), "invalid syntax"),
    ],
)
def test_a_table_that_is_none_is_refused_with_the_reason(source: str, complaint: str) -> None:
    if source.startswith("{"):
        source = f"def f(): pass\nINDICATORS = {source}"
    with pytest.raises(UsageError, match=re.escape(complaint)):
        parse_table(Script(text=source, path="mine.py", harness=""), "g")


def package(folder: Path, *, name: str = "signal", module: str = "signals.speed") -> None:
    """Install a package that registers a module of indicators, and cannot be imported."""
    (folder / "signals").mkdir()
    (folder / "signals" / "__init__.py").write_text("raise SystemExit('imported')")
    (folder / "signals" / "speed.py").write_text(f"import x\ndef f(): pass\nINDICATORS = {ROW}")
    info = folder / "signals-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: signals\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[stackgen.indicators]\n{name} = {module}\n")


def test_a_package_registers_indicators_and_is_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    found = find(known_indicators(), "signal/one")
    source = tmp_path / "signals" / "speed.py"
    assert (found.path, found.operation) == (str(source), "one")
    assert found.own_sha256 == hashlib.sha256(source.read_bytes()).hexdigest()
    assert "signals" not in sys.modules


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"name": "numpy", "module": "signals.speed"}, ""),
        ({"module": "signals.gone"}, "signal = signals.gone of stackgen.indicators has no source"),
        ({"module": "gone.speed"}, "signal = gone.speed of stackgen.indicators has no source"),
    ],
)
def test_a_package_that_registers_nothing_to_read_is_named(
    given: dict[str, str], complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package(tmp_path, **given)
    monkeypatch.syspath_prepend(tmp_path)
    if not complaint:
        assert find(known_indicators(), "numpy/one").own_sha256
        return
    with pytest.raises(UsageError, match=re.escape(complaint)):
        known_indicators()


def test_a_registered_name_that_exists_already_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package(tmp_path, name="numpy")
    source = tmp_path / "signals" / "speed.py"
    source.write_text(source.read_text().replace("'one'", "'matmul'"))
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UsageError, match="two indicators are called numpy/matmul"):
        known_indicators()


def test_a_file_that_is_given_by_its_path_declares_one_indicator(tmp_path: Path) -> None:
    several = tmp_path / "several.py"
    several.write_text(f"def f(): pass\nINDICATORS = {ROW}")
    with pytest.raises(UsageError, match=r"several\.py declares several indicators"):
        load_indicators(shipped_folder("pis"), [several])


def test_the_digest_covers_script_and_harness() -> None:
    source = f"INDICATOR = {small(repr({'type': 'int', 'default': 3}))}"
    digests = {
        parsed(text, harness).sha256
        for text, harness in ((source, "a"), (source, "b"), (source + "\n", "a"))
    }
    assert len(digests) == 3


def test_defaults_fill_what_is_not_given() -> None:
    call = bind(find(PIS, "numpy/matmul"), {"size": "64"})
    assert call.arguments == (("dtype", "float32"), ("size", "64"), ("threads", "auto"))


@given(st.integers(1, 10**6))
def test_one_number_written_twice_is_one_call(number: int) -> None:
    indicator = find(PIS, "numpy/matmul")
    assert bind(indicator, {"size": f"0{number}"}).id == bind(indicator, {"size": f"{number}"}).id


@pytest.mark.parametrize(
    ("given_values", "complaint"),
    [
        ({"dtype": "int8"}, "it takes float32, float64"),
        ({"size": "big"}, "a whole number, not 'big'"),
        ({"size": "-1"}, "above zero"),
        ({"threads": "0"}, "above zero"),
        ({"sized": "1"}, "it takes dtype, size, threads"),
    ],
)
def test_a_wrong_parameter_is_refused_with_what_would_do(
    given_values: dict[str, str], complaint: str
) -> None:
    with pytest.raises(UsageError, match=re.escape(complaint)):
        bind(find(PIS, "numpy/matmul"), given_values)


def test_a_short_name_means_the_indicator_of_the_component() -> None:
    assert find(PIS, "matmul", "torch").name == "torch/matmul"
    assert find(PIS, "pure", "torch").name == "python/pure"
    assert find(PIS, "numpy/matmul", "torch").name == "numpy/matmul"


@pytest.mark.parametrize("wanted", ["matmul", "matmull"])
def test_a_name_that_fits_no_single_indicator_lists_those_there_are(wanted: str) -> None:
    with pytest.raises(UsageError, match=r"numpy/matmul, .*torch/matmul"):
        find(PIS, wanted)


def test_only_what_is_called_alike_is_listed() -> None:
    with pytest.raises(UsageError) as refused:
        find(PIS, "torch/matmull")
    assert refused.value.why.startswith("the closest names are ")
    assert "torch/matmul" in str(refused.value)
    assert "numpy/sort" not in str(refused.value)
    with pytest.raises(UsageError, match=r"see what there is: stackgen pis"):
        find(PIS, "zzz")


def test_a_users_own_file_is_an_indicator_named_after_it(tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(f"INDICATOR = {small(repr({'type': 'int', 'default': 3}))}")
    found = find(load_indicators(shipped_folder("pis"), [mine]), "mine")
    assert dataclasses.replace(found, sha256="").path == str(mine)


def test_examples_of_a_users_own_file_name_it_by_its_path(tmp_path: Path) -> None:
    mine = tmp_path / "my own.py"
    mine.write_text(f"INDICATOR = {small(repr({'type': 'int', 'default': 3}))}")
    (found,) = (e for e in load_indicators(shipped_folder("pis"), [mine]) if e.path == str(mine))
    reported = indicator_text(found)
    assert f"stackgen pi run '{mine}' --" in reported
    assert f"--pi '{mine}'" in reported
    assert f"python {mine}" not in reported
    assert "python " in indicator_text(find(PIS, "numpy/matmul"))


def test_a_file_that_is_no_python_is_reported_with_its_line(tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("x = 1\ny = (\n")
    with pytest.raises(UsageError, match=r"\(line 2\)") as refused:
        load_indicators(shipped_folder("pis"), [broken])
    assert "unknown" not in str(refused.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"gone\.py"):
        load_indicators(shipped_folder("pis"), [tmp_path / "gone.py"])


def test_a_call_is_called_by_what_is_not_as_usual() -> None:
    matmul = find(PIS, "torch/matmul")
    assert bind(matmul, {"threads": "2"}).label == "torch/matmul size=512 threads=2"
    other = bind(matmul, {"threads": "2", "dtype": "float64", "device": "cpu"})
    assert other.label == "torch/matmul device=cpu dtype=float64 size=512 threads=2"
