"""What a user asks for: requirements, and what limits where and how they are looked for."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexOptions:
    """Where a file says to look for packages, in its own order.

    Addresses are as the file spells them and may hold credentials, so they stay out of the repr.

    index_url: the default index, or None where the file leaves it to the user's configuration.
    find_links: URLs, and paths (relative ones relative to the working folder).
    """

    index_url: str | None = field(default=None, repr=False)
    extra_index_urls: tuple[str, ...] = field(default=(), repr=False)
    find_links: tuple[str, ...] = field(default=(), repr=False)
    no_index: bool = False
    prereleases: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a file asks for, whatever tool it was written for.

    requirements: PEP 508 lines; one that names a wheel by its place has the form ``name @ URL``.
    constraints: PEP 508 lines that limit a package without asking for it.
    requires_python: a version specifier, or "" where the file does not say.
    skipped: what is left out or not followed (projects to be built, repositories), in words.
    """

    requirements: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    requires_python: str = ""
    index_options: IndexOptions = IndexOptions()
    skipped: tuple[str, ...] = ()
