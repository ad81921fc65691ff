"""Check a built documentation site: every link leads somewhere, nothing comes from elsewhere.

``python -m tools.site site`` prints what is wrong and exits with 1; ``make docs`` ends with it.
"""

import argparse
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_ASSETS = {"img": "src", "script": "src", "link": "href", "source": "src", "iframe": "src"}
_NO_ASSETS = {"canonical", "alternate", "prev", "next", "edit"}
_STYLE_URL = re.compile(r"""(?:url\(|@import\s+)["']?(?!data:|#)([^"')]+)""")


@dataclass
class Page(HTMLParser):
    """The ids, links and assets of one page."""

    ids: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    assets: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what an element refers to."""
        found = {name: value or "" for name, value in attrs}
        if "id" in found:
            self.ids.add(found["id"])
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        elif tag in _ASSETS and found.get("rel", "") not in _NO_ASSETS:
            self.assets += [found[_ASSETS[tag]]] if found.get(_ASSETS[tag]) else []


def problems(site: Path) -> Iterator[str]:
    """Yield each link without a target, and each asset that another host would serve."""
    pages = {path.resolve(): _read(path) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        name = path.relative_to(site.resolve())
        if name.name == "404.html":  # its addresses begin at the root of a server
            continue
        for asset in page.assets:
            if _is_elsewhere(asset):
                yield f"{name}: comes from elsewhere: {asset}"
        for link in (*page.links, *page.assets):
            if not _is_elsewhere(link) and not _leads_somewhere(link, path, pages):
                yield f"{name}: leads nowhere: {link}"
    for path in sorted(site.rglob("*.css")):
        for url in _STYLE_URL.findall(path.read_text("utf-8")):
            if _is_elsewhere(url):
                yield f"{path.relative_to(site)}: comes from elsewhere: {url}"


def _read(path: Path) -> Page:
    page = Page()
    page.feed(path.read_text("utf-8"))
    return page


def _is_elsewhere(url: str) -> bool:
    return bool(urlsplit(url).netloc)


def _leads_somewhere(link: str, path: Path, pages: dict[Path, Page]) -> bool:
    parts = urlsplit(link)
    if parts.scheme:  # mailto, data
        return True
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    target = target / "index.html" if target.is_dir() else target
    if not target.is_file():
        return False
    fragment = unquote(parts.fragment)
    inside = target in pages and fragment and not fragment.startswith("__")
    return not inside or fragment in pages[target].ids


def main() -> None:
    """Check the site of the first argument."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("site", type=Path)
    found = list(problems(parser.parse_args().site))
    for problem in found:
        print(problem)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
