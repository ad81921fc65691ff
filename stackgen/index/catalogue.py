"""What all indexes of a configuration have of a package, in one sequence of files."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from stackgen.index import local
from stackgen.index.cache import IndexCache
from stackgen.index.config import IndexConfig, IndexLocation
from stackgen.index.listings import Listings
from stackgen.index.pages import Page
from stackgen.values import Artifact
from stackgen.values.files import Files


class Catalogue:
    """Joins pages: of the first index that has a package, of compared indexes, of find-links.

    skipped: by package, how many of its files have a name or version that nobody can read.
    notes: what went wrong without stopping anything, in words.
    """

    def __init__(self, config: IndexConfig, cache: IndexCache, listings: Listings) -> None:
        self.skipped: dict[str, int] = {}
        self.notes: list[str] = []
        self._config = config
        self._cache = cache
        self._listings = listings
        self._pages: dict[str, list[Page]] = {}
        self._links: dict[str, list[Artifact]] | None = None
        self._of_links: dict[str, str] = {}
        self._words: dict[str, Mapping[str, str]] = {}

    def read(self, names: Sequence[str], report: Callable[[], None]) -> dict[str, Files | None]:
        """Return the files of packages by normalised name; None where no index has them.

        Raises:
            IndexUnavailableError: an index cannot be asked.
        """
        pages = self._first_pages(names, report)
        for place in self._config.compared:
            of_place = self._listings.read(place, names)
            for name, page in of_place.items():
                if page is not None:
                    pages.setdefault(name, []).append(page)
        self._pages |= pages
        links = self._find_links() if names else {}
        return {
            name: self._joined(name, pages.get(name, []), links.get(name, [])) for name in names
        }

    def announced(self, artifact: Artifact) -> str:
        """Return what a page said of the metadata file beside an artifact; "" for nothing.

        Threads of the pool ask this; most runs never do, so it is not sorted out before.
        """
        if artifact.name not in self._words:
            self._words[artifact.name] = {
                url: word
                for page in self._pages.get(artifact.name, ())
                if any(page.announced)
                for url, word in zip(page.files.column("url"), page.announced, strict=True)
            }
        return self._words[artifact.name].get(artifact.url) or self._of_links.get(artifact.url, "")

    def _first_pages(
        self, names: Sequence[str], report: Callable[[], None]
    ) -> dict[str, list[Page]]:
        """Return each package's page from the first index that has it.

        An index that is compared with the others is not one of them, wherever it stands.
        """
        found: dict[str, list[Page]] = {}
        places = [each for each in self._config.indexes if each not in self._config.compared]
        for place in places:
            left = [name for name in names if name not in found]
            if left:
                settled = partial(_settled, report, place == places[-1])
                pages = self._listings.read(place, left, settled)
                found |= {name: [page] for name, page in pages.items() if page is not None}
        if not places:
            for _ in names:
                report()
        return found

    def _find_links(self) -> dict[str, list[Artifact]]:
        """Return what the find-links locations hold, by package; read once."""
        if self._links is None:
            self._links = {}
            for place in self._config.find_links:
                self._add_links(place, self._links)
        return self._links

    def _add_links(self, place: IndexLocation, links: dict[str, list[Artifact]]) -> None:
        path = local.path_of(place.url)
        if path is not None and not path.exists():
            self.notes.append(f"find-links names {path}, which does not exist")
            return
        page = self._listings.read(place, [""])[""]
        if page is None:
            self.notes.append(f"find-links names {place.name}, which lists nothing")
            return
        for artifact, word in zip(page.files, page.announced, strict=True):
            links.setdefault(artifact.name, []).append(artifact)
            self._of_links[artifact.url] = word

    def _joined(self, name: str, pages: Sequence[Page], links: Sequence[Artifact]) -> Files | None:
        """Join indexes' files and those of find-links; of the same file, the index's counts."""
        if not pages and not links:
            return None
        self.skipped[name] = sum(page.skipped for page in pages)
        parts = [page.files for page in pages]
        if links:
            known = {(each.filename, each.sha256) for part in parts for each in part}
            hashed = [local.hashed(each, self._cache) for each in links]
            fresh = {(each.filename, each.sha256): each for each in hashed}
            parts.append(Files.of([each for key, each in fresh.items() if key not in known]))
        return Files.joined(parts)


def _settled(report: Callable[[], None], is_last: bool, is_found: bool) -> None:
    """Report a package that needs no further index."""
    if is_found or is_last:
        report()
