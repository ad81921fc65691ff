"""Bisection admits exactly what packaging admits, version by version."""

from hypothesis import example, given, settings
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from stackgen.resolve.dependencies import Versions

numbers = st.lists(st.integers(0, 2), min_size=1, max_size=3).map(
    lambda parts: ".".join(map(str, parts))
)
versions = st.builds(
    "".join,
    st.tuples(
        st.sampled_from(["", "", "", "1!"]),
        numbers,
        st.sampled_from(["", "", "", "a1", "rc2"]),
        st.sampled_from(["", "", "", ".post1"]),
        st.sampled_from(["", "", "", ".dev3"]),
    ),
)
locals_ = st.sampled_from(["", "", "+cpu", "+cu12"])
clauses = st.one_of(
    st.builds("{}{}".format, st.sampled_from([">=", "<=", "<", ">", "!=", "=="]), versions),
    st.builds("{}{}{}".format, st.sampled_from(["==", "!=", "==="]), versions, locals_),
    st.builds("{}{}.*".format, st.sampled_from(["==", "!="]), numbers),
    st.builds("~={}.{}".format, numbers, st.integers(0, 2)),
)


@given(
    st.lists(st.builds("{}{}".format, versions, locals_), max_size=12),
    st.lists(clauses, max_size=3).map(",".join),
)
@settings(max_examples=10 * settings().max_examples)
@example(["1.0.post1", "1.0", "1.0rc1", "1.0.dev1"], ">1.0.dev1")
@example(["1.0.post1", "1.0", "1.0rc1", "0.9"], "<1.0.post1")
@example(["1.1.dev0", "1.0.9", "1.0.dev0", "1.0a1.dev3"], "==1.0.*")
def test_masks_hold_what_packaging_admits(texts: list[str], specifier: str) -> None:
    ordered = sorted({str(Version(text)) for text in texts}, key=Version, reverse=True)
    wanted = SpecifierSet(specifier, prereleases=True)
    admitted = [each for each in ordered if wanted.contains(each)]
    mask = Versions(ordered).mask(specifier)
    assert [each for place, each in enumerate(ordered) if mask >> place & 1] == admitted
