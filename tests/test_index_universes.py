"""Universes that come from the cache: the same as worked out, and never an outdated one."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackgen.campaign.candidates import pinned, read_pins
from stackgen.errors import ResolutionError
from stackgen.index import IndexConfig, PackageIndex
from stackgen.index.closure import decode, encode, read_universe, resolve, universe_key
from stackgen.index.config import location
from stackgen.model.choices import Prereleases
from stackgen.model.packages import Target
from stackgen.model.progress import NullProgress
from stackgen.resolve.candidates import Policy
from stackgen.resolve.closure import Universe
from stackgen.resolve.requirements import Requirements, parse_requirements
from tests.spaces import TARGET, Index, universe
from tests.test_space import indexes
from tests.tiny_index import TinyIndex, make_wheel, serving

REQUEST = parse_requirements("frame")
EXPIRED_S = 3600.0


class Site:
    """An index with two packages, its cache, and the clock of who reads it."""

    def __init__(self, server: TinyIndex, folder: Path) -> None:
        self.server, self.folder, self.now = server, folder, 1e9
        self.links: tuple[str, ...] = ()
        self.add("frame", "1.0", "num")
        self.add("num", "1.0")

    def add(self, name: str, version: str, *requires: str, attributes: str = "") -> None:
        content = make_wheel(name, version, requires=requires)
        self.server.add(f"{name}-{version}-py3-none-any.whl", content, attributes=attributes)

    @contextmanager
    def opened(self, *, offline: bool = False) -> Iterator[PackageIndex]:
        config = IndexConfig(
            indexes=(location(self.server.simple),),
            find_links=tuple(map(location, self.links)),
            offline=offline,
            read_timeout_s=5.0,
        )
        with PackageIndex(config, self.folder, clock=lambda: self.now) as index:
            yield index

    def read(
        self, request: Requirements = REQUEST, target: Target = TARGET, *, offline: bool = False
    ) -> Universe:
        with self.opened(offline=offline) as index:
            return read_universe(index, request, target, progress=NullProgress())

    def nums(self) -> list[str]:
        return [each.version for each in self.read().releases.get("num", ())]

    def change(self, statement: str) -> None:
        """Change the cache itself."""
        with closing(sqlite3.connect(self.folder / "index.db")) as connection, connection:
            connection.execute(statement)

    def is_recalled(self) -> bool:
        """Return whether a universe is read from the cache, without what it is worked out from."""
        with self.opened() as index:
            key = universe_key(REQUEST, TARGET, all_prereleases=False)
            return index.recall(key) is not None


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with serving() as server:
        yield Site(server, tmp_path / "cache")


@pytest.mark.parametrize("offline", [False, True])
def test_the_same_request_needs_nothing_but_unchanged_pages(site: Site, offline: bool) -> None:
    found = site.read()
    site.change("DELETE FROM metadata")
    site.server.requested.clear()
    assert site.read(offline=offline) == found
    assert not site.server.requested


def released(site: Site) -> None:
    site.add("num", "2.0")


def yanked(site: Site) -> None:
    page = site.server.files["/simple/num/"]
    site.server.files["/simple/num/"] = page.replace(b'" >', b'" data-yanked="broken" >')


def removed(site: Site) -> None:
    del site.server.files["/simple/num/"]


@pytest.mark.parametrize(
    ("change", "nums"), [(released, ["2.0", "1.0"]), (yanked, []), (removed, [])]
)
def test_a_page_that_changed_makes_another_universe(
    site: Site, change: Callable[[Site], None], nums: list[str]
) -> None:
    assert site.nums() == ["1.0"]
    change(site)
    assert site.nums() == ["1.0"]  # the page is taken from the cache for ten minutes
    site.now += EXPIRED_S
    assert site.nums() == nums
    assert site.nums() == nums


def test_a_page_that_another_request_read_anew_counts(site: Site) -> None:
    site.read()
    released(site)
    site.now += EXPIRED_S
    with site.opened() as index:
        index.candidates_many(["frame", "num"])
    assert site.nums() == ["2.0", "1.0"]


def test_pages_that_are_too_old_are_requested_again(site: Site) -> None:
    site.read()
    assert site.is_recalled()
    site.now += EXPIRED_S
    assert not site.is_recalled()


def test_a_file_in_a_folder_of_links_makes_another_universe(site: Site, tmp_path: Path) -> None:
    (tmp_path / "links").mkdir()
    site.links = (str(tmp_path / "links"),)
    assert site.nums() == ["1.0"]
    (tmp_path / "links/num-3.0-py3-none-any.whl").write_bytes(make_wheel("num", "3.0"))
    assert site.nums() == ["3.0", "1.0"]


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE universes SET body = zeroblob(100)",
        "UPDATE universes SET names = 'frame'",
        "UPDATE universes SET fingerprint = '0'",
        "DROP TABLE universes",
        "DELETE FROM digests",
    ],
)
def test_a_damaged_entry_is_made_again(site: Site, damage: str) -> None:
    found = site.read()
    site.change(damage)
    assert not site.is_recalled()
    assert site.read() == found
    assert site.is_recalled()


def test_what_could_not_be_read_is_tried_again(site: Site) -> None:
    site.add("num", "2.0")
    wheel = "/files/num-2.0-py3-none-any.whl"
    whole, site.server.files[wheel] = site.server.files[wheel], b"no wheel"
    assert site.nums() == ["1.0"]
    site.server.files[wheel] = whole
    assert site.nums() == ["2.0", "1.0"]


def test_half_a_character_on_a_page_does_no_harm(site: Site) -> None:
    file: dict[str, object] = {
        "filename": "num-1.0-py3-none-any.whl",
        "url": "../../files/num-1.0-py3-none-any.whl",
        "hashes": {"sha256": "ab" * 32},
        "yanked": "half \ud800",
    }
    site.server.add_json("num", [file])
    for _ in range(2):
        (left_out,) = site.read().excluded["num"]
        assert left_out.reason == "yanked: half \ud800"


def test_malformed_names_are_counted_beside_a_recalled_universe(site: Site) -> None:
    site.server.add("num-1.0.whl", b"x")
    for _ in range(2):
        with site.opened() as index:
            read_universe(index, REQUEST, TARGET, progress=NullProgress())
            assert index.skipped == {"frame": 0, "num": 1}


@pytest.mark.parametrize(
    "other",
    [
        parse_requirements("frame>=1"),
        parse_requirements("frame|num"),
        replace(REQUEST, excluded=("num",)),
        replace(REQUEST, locked=(("num", "1.0"),)),
        replace(REQUEST, policy=Policy(prereleases=Prereleases.ALLOW)),
        replace(REQUEST, policy=Policy(newest_upload="2024-01-01")),
        replace(REQUEST, policy=Policy(hashes=(("num", frozenset({"ab"})),))),
    ],
)
def test_another_request_is_another_question(other: Requirements) -> None:
    own = universe_key(REQUEST, TARGET, all_prereleases=False)
    assert universe_key(other, TARGET, all_prereleases=False) not in (own, "")


def test_another_target_is_another_question() -> None:
    targets = (TARGET, replace(TARGET, python="3.11.3"), replace(TARGET, tags=TARGET.tags[1:]))
    keys = {
        universe_key(REQUEST, each, all_prereleases=early)
        for each in targets
        for early in (False, True)
    }
    assert len(keys) == 2 * len(targets)


def test_what_depends_on_more_than_pages_is_not_cached(tmp_path: Path) -> None:
    built = replace(REQUEST, policy=Policy(allow_build=frozenset({"num"})))
    direct = parse_requirements(f"frame @ {(tmp_path / 'frame-1.0-py3-none-any.whl').as_uri()}")
    for each in (built, direct):
        assert not universe_key(each, TARGET, all_prereleases=False)


@given(indexes(), st.sampled_from((("a",), ("a[x]", "b"), ("a|b", "c"))))
def test_a_universe_is_decoded_as_it_was_encoded(index: Index, roots: tuple[str, ...]) -> None:
    found = universe(index, parse_requirements(*roots))
    assert decode(encode(found)) == found


@pytest.mark.parametrize("text", ["frame==2.0", "frame===2.0", "new==1.0"])
def test_an_exact_version_that_appeared_since_the_page_was_cached_is_found(
    site: Site, text: str
) -> None:
    request = parse_requirements(text)
    for known in ("frame==1.0", "new"):
        with site.opened() as index, suppress(ResolutionError):
            resolve(index, parse_requirements(known), TARGET)
    site.now += 60
    site.add("frame", "2.0", "num")
    site.add("new", "1.0")
    requested = len(site.server.requested)
    with site.opened() as index:
        assert resolve(index, request, TARGET).count == 1
    pages = [path for _, path, _ in site.server.requested[requested:] if path.endswith("/")]
    assert pages == [f"/simple/{request.names[0]}/"]


def test_a_lock_of_releases_that_appeared_since_their_pages_were_cached_is_found(
    site: Site, tmp_path: Path
) -> None:
    with site.opened() as index:
        resolve(index, parse_requirements("frame"), TARGET)
    site.now += 60
    site.add("frame", "2.0", "num")
    (lock := tmp_path / "requirements.txt").write_text("frame==2.0\nnum==1.0\n")
    requested = len(site.server.requested)
    with site.opened() as index:
        assert pinned(index, read_pins(lock), TARGET).versions == {"frame": "2.0", "num": "1.0"}
    pages = [path for _, path, _ in site.server.requested[requested:] if path.endswith("/")]
    assert pages == ["/simple/frame/"]


def test_a_page_is_requested_anew_only_for_an_exact_version_that_it_lacks(site: Site) -> None:
    def pages(text: str, *, offline: bool = False) -> int:
        before = len(site.server.requested)
        with site.opened(offline=offline) as index, suppress(ResolutionError):
            resolve(index, parse_requirements(text), TARGET)
        return len(site.server.requested) - before

    pages("frame")
    site.now += 60
    assert pages("frame==1.0") == pages("frame>=2") == pages("frame==2.*") == 0
    assert pages("frame==2.0", offline=True) == 0
    assert pages("frame==2.0") == 1
