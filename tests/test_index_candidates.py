"""Which file of a package a target takes, and why it takes none of the others."""

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from stackgen.index.pages import Page, decode, encode
from stackgen.model.choices import Prereleases
from stackgen.model.files import Files
from stackgen.model.packages import Artifact
from stackgen.resolve.candidates import Policy, Selector, VersionCandidate, moment
from tests.spaces import TARGET, artifact


def select(
    *files: Artifact, user: tuple[str, ...] = (), **policy: object
) -> list[VersionCandidate]:
    return list(Selector(TARGET, Policy(**policy)).select(files, user))  # type: ignore[arg-type]


def reason(*files: Artifact, **policy: object) -> str:
    """Return why the only version of these files is left out."""
    (only,) = select(*files, user=(), **policy)
    assert isinstance(only.found, str)
    return only.found


def barred(*files: Artifact, user: tuple[str, ...] = (), **policy: object) -> str:
    """Return why the newest version needs an exact pin."""
    newest = select(*files, user=user, **policy)[0]
    assert isinstance(newest.found, Artifact)
    return newest.barred


def sdist(version: str = "1.0", **fields: str | None) -> Artifact:
    wheel = artifact("a", version, "sdist", **fields)
    return replace(wheel, filename=f"a-{version}.tar.gz")


def test_the_wheel_with_the_best_tag_is_selected() -> None:
    tags = (
        "py3-none-any",
        "cp311-cp311-manylinux_2_36_x86_64",
        "cp311-cp311-manylinux_2_17_x86_64",
    )
    files = [artifact("a", "1.0", tag) for tag in tags]
    for given_files in permutations(files):
        assert select(*given_files)[0].found == files[1]


@pytest.mark.parametrize(
    ("requires", "expected"),
    [
        (">=3.12", "requires Python >=3.12, this is 3.11.2"),
        ("<3.11", "requires Python <3.11, this is 3.11.2"),
        (">=3.8,<3.11.2", "requires Python >=3.8,<3.11.2, this is 3.11.2"),
    ],
)
def test_both_bounds_of_requires_python_count(requires: str, expected: str) -> None:
    assert reason(artifact("a", "1.0", requires_python=requires)) == expected


def test_only_sdists_of_a_release_with_wheels_for_others_say_how_to_admit_them() -> None:
    windows = replace(TARGET, tags=("cp312-cp312-win_amd64",), python="3.12.0")
    files = (sdist(), artifact("a", "1.0", "cp311-cp311-manylinux_2_17_x86_64"))
    (only,) = Selector(windows, Policy()).select(files, ())
    assert only.found == (
        "no wheel for Python 3.12 on win_amd64, only a source distribution "
        "(--allow-build a admits it)"
    )


def test_a_requires_python_of_an_old_form_is_read_as_it_was_meant() -> None:
    (only,) = select(artifact("a", "1.0", requires_python=">=3.6.*"))
    assert isinstance(only.found, Artifact)


def test_a_version_is_yanked_where_all_its_fitting_files_are() -> None:
    tag = "cp311-cp311-manylinux_2_17_x86_64"
    bad, good = artifact("a", "1.0", tag, yanked="broken"), artifact("a", "1.0")
    for files in permutations((bad, good)):
        (only,) = select(*files)
        assert (only.found, only.barred) == (good, "")
    assert barred(bad) == "yanked: broken"
    assert barred(replace(bad, yanked="")) == "yanked: no reason given"
    other = artifact("a", "1.0", "cp39-cp39-win_amd64")
    assert barred(bad, other) == "yanked: broken"


@pytest.mark.parametrize("policy", list(Prereleases))
def test_the_policy_decides_what_a_prerelease_is(policy: Prereleases) -> None:
    files = (artifact("a", "2.0rc1"), artifact("a", "1.0"))
    newest = select(*files, prereleases=policy)[0]
    named = select(*files, prereleases=policy, user=(">=2.0.dev0",))[0]
    assert newest.is_fallback == (policy.prefers_final and policy is not Prereleases.EXPLICIT)
    assert named.is_fallback == policy.prefers_final
    assert isinstance(named.found, str) == (policy is Prereleases.DISALLOW)


def test_what_bars_a_yanked_prerelease_is_its_yank() -> None:
    files = (artifact("a", "2.0rc1", yanked="bad"), artifact("a", "1.0"))
    for policy in Prereleases:
        assert barred(*files, prereleases=policy) == "yanked: bad"


def test_a_prerelease_that_does_not_fit_says_what_does_not() -> None:
    first, _ = select(artifact("a", "2.0rc1", "cp39-cp39-win_amd64"), artifact("a", "1.0"))
    assert (first.found, first.barred) == ("no wheel for Python 3.11 on manylinux_2_36_x86_64", "")


@pytest.mark.parametrize(
    ("uploaded", "cutoff", "admitted"),
    [
        ("2024-01-02T00:00:00Z", "2024-01-02T00:00:00+00:00", True),
        ("2024-01-02T00:00:00.000001Z", "2024-01-02T00:00:00Z", False),
        ("2024-01-02T00:00:00.123456789Z", "2024-01-02T00:00:00.123456Z", True),
        ("2024-01-02T01:30:00+02:00", "2024-01-01T23:30:00Z", True),
        ("2024-01-01T23:30:00-02:00", "2024-01-02T01:00:00Z", False),
        ("2024-01-02T23:59:59Z", "2024-01-02", True),
        ("2024-01-03T00:00:00Z", "2024-01-02", False),
    ],
)
def test_the_cutoff_compares_moments(uploaded: str, cutoff: str, admitted: bool) -> None:
    (only,) = select(artifact("a", "1.0", uploaded=uploaded), newest_upload=cutoff)
    assert only.found == f"uploaded after {cutoff}" or admitted
    assert isinstance(only.found, Artifact) == admitted


def test_a_file_without_an_upload_time_is_left_out_by_a_cutoff() -> None:
    wheel = artifact("a", "1.0")
    assert "does not say when" in reason(wheel, newest_upload="2024-01-01")
    assert "does not say when" in reason(
        replace(wheel, uploaded="yesterday"), newest_upload="2024-01-01"
    )


def test_a_cutoff_that_is_no_date_is_refused() -> None:
    for text in ("soon", "2024-13-01", "2024"):
        with pytest.raises(ValueError, match="not a date"):
            Policy(newest_upload=text)


offsets = st.timedeltas(timedelta(hours=-23), timedelta(hours=23)).map(
    lambda each: timezone(timedelta(minutes=each // timedelta(minutes=1)))
)


@given(st.datetimes(datetime(1990, 1, 1), timezones=offsets))  # noqa: DTZ001
def test_every_moment_reads_back(when: datetime) -> None:
    assert moment(str(when)) == moment(when.isoformat()) == when


def test_an_older_file_of_the_version_stands_in_for_one_uploaded_too_late() -> None:
    tag = "cp311-cp311-manylinux_2_17_x86_64"
    late = artifact("a", "1.0", tag, uploaded="2024-06-01T00:00:00Z")
    early = artifact("a", "1.0", uploaded="2024-01-01T00:00:00Z")
    assert select(late, early, newest_upload="2024-02-01")[0].found == early


def test_only_sdists_say_how_to_admit_them() -> None:
    assert "--allow-build a" in reason(sdist())
    for names in ({"a"}, {":all:"}):
        assert select(sdist(), allow_build=frozenset(names))[0].found == sdist()
    assert "only a source" in reason(sdist(), allow_build=frozenset({"b"}))


def test_an_sdist_stands_in_only_where_no_wheel_fits() -> None:
    allowed = frozenset({"a"})
    wheel, unrelated = artifact("a", "1.0"), artifact("a", "1.0", "cp39-cp39-win_amd64")
    assert select(sdist(), wheel, allow_build=allowed)[0].found == wheel
    assert select(sdist(), unrelated, allow_build=allowed)[0].found == sdist()
    assert "no wheel for" in reason(sdist(), unrelated)
    old = sdist(requires_python="<3")
    assert "requires Python <3" in reason(old, allow_build=allowed)


def test_a_file_without_a_hash_cannot_be_locked() -> None:
    bare = replace(artifact("a", "1.0"), sha256="")
    assert reason(bare) == "its index states no SHA-256 of it"


def test_the_files_of_a_lock_are_the_only_ones() -> None:
    tag = "cp311-cp311-manylinux_2_17_x86_64"
    files = (artifact("a", "1.0", tag), artifact("a", "1.0"))
    locked = (("a", frozenset({files[1].sha256})),)
    assert select(*files, hashes=locked)[0].found == files[1]
    assert "lock file admits other files" in reason(files[0], hashes=locked)
    assert isinstance(select(artifact("b", "1.0"), hashes=locked)[0].found, Artifact)


def test_of_wheels_with_the_same_tag_the_highest_build_number_is_taken() -> None:
    plain = artifact("a", "1.0")
    builds = [replace(plain, filename=f"a-1.0-{n}-py3-none-any.whl") for n in ("9", "10", "2x")]
    for files in permutations((plain, *builds)):
        assert select(*files)[0].found == builds[1]


def test_several_tags_in_one_name_are_all_read() -> None:
    wheel = artifact("a", "1.0", "cp310.cp311-cp310.cp311-linux_x86_64.manylinux_2_17_x86_64")
    assert select(wheel)[0].found == wheel


def test_a_file_named_by_its_address_is_hidden_by_no_policy() -> None:
    direct = replace(artifact("a", "2.0rc1"), index="direct")
    (only,) = select(direct, user=("@ https://h.test/a.whl",), newest_upload="2020-01-01")
    assert (only.found, only.barred) == (direct, "")


def test_versions_are_ordered_as_pep_440_says() -> None:
    order = ["1!0.1", "2.0", "2.0rc1", "2.0b2.post1", "2.0b2", "2.0a1", "2.0.dev1"]
    order += ["1.0.post1", "1.0+2", "1.0+b.2", "1.0+b.1", "1.0", "0.9.post0.dev1", "0.9"]
    assert order == sorted(order, key=Version, reverse=True)
    found = select(*(artifact("a", version) for version in sorted(order)))
    assert [each.label for each in found] == order


tags = st.sampled_from(
    ["py3-none-any", "cp311-cp311-manylinux_2_17_x86_64", "cp39-cp39-win_amd64", "sdist"]
)
optional = st.sampled_from([None, "", "<3", ">=3.8"])
files = st.builds(
    lambda version, tag, requires, yanked: (
        sdist(version, requires_python=requires)
        if tag == "sdist"
        else artifact("a", version, tag, requires_python=requires or None, yanked=yanked)
    ),
    st.sampled_from(["1.0", "2.0", "2.0rc1", "1.0+x"]),
    tags,
    optional,
    optional,
)


@given(st.lists(files, unique_by=lambda each: each.filename))
def test_a_page_from_the_cache_is_chosen_from_as_any_other(found: list[Artifact]) -> None:
    page = Page(files=Files.of(found), announced=[""] * len(found), listed=0)
    stored = decode(encode(page), index="here").files
    assert select(*found) == list(Selector(TARGET, Policy()).select(stored, ()))
