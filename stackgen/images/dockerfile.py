"""A Dockerfile that installs what a lock says with nothing but public tools."""

from collections.abc import Sequence

from stackgen.images.layers import PREFIX

_TEMPLATE = """\
# {packages} of {lock}, for Python {python} ({base}).
# Written by stackgen {version}; it needs Docker and an index, and no stackgen:
#   docker build -t NAME .
# Where no container registry can be reached, name an image of yours and its interpreter:
#   docker build -t NAME --build-arg BASE=IMAGE --build-arg PYTHON=/usr/bin/python3 .
ARG BASE={image}
ARG PYTHON={interpreter}

# Nothing of this stage ends up in the image but {prefix}: not this folder, and no argument.
FROM ${{BASE}} AS build
ARG PYTHON
USER 0
# For another index, or an authority of your own (put certificates.pem into this folder):
#   --build-arg PIP_INDEX_URL=... --build-arg PIP_CERT=/context/certificates.pem
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_CERT
COPY . /context/
# pip works from the virtualenv beside it, so that the stack holds its own packages alone.
RUN "${{PYTHON}}" -m venv /pip && "${{PYTHON}}" -m venv --without-pip {prefix}
RUN PYTHONPATH="$(echo /pip/lib/python*/site-packages)" {prefix}/bin/python -m pip install \\
    --require-hashes --no-deps --only-binary=:all: --ignore-installed --no-cache-dir \\
    {options}-r /context/requirements.txt

FROM ${{BASE}}
COPY --from=build {prefix} {prefix}
ENV PATH="{prefix}/bin:${{PATH}}" VIRTUAL_ENV="{prefix}"
WORKDIR /
CMD ["{prefix}/bin/python"]
"""


def dockerfile(
    *,
    image: str,
    interpreter: str,
    base: str,
    python: str,
    packages: int,
    lock: str,
    version: str,
    wheels: bool,
    index: bool,
) -> str:
    """Return the text of a Dockerfile; beside it lies a requirements.txt with hashes.

    Args:
        image: what it starts from, as an engine finds it.
        interpreter: within that image.
        base: what stackgen calls the base.
        python: its version.
        packages: how many are installed.
        lock: name of the lock file.
        version: of stackgen.
        wheels: whether some wheels lie in the folder ``wheels`` beside it.
        index: whether anything has to come from an index.
    """
    options = "--find-links=/context/wheels " * wheels + "--no-index " * (not index)
    return _TEMPLATE.format(
        image=image,
        interpreter=interpreter,
        base=base,
        python=python,
        packages=f"The {packages} packages" if packages > 1 else "The package",
        lock=" ".join(lock.split()),
        version=version,
        prefix=PREFIX,
        options=options,
    )


def index_options(*, urls: Sequence[str], pages: Sequence[str], default: bool) -> str:
    """Return the head of a requirements.txt that names indexes other than the default one.

    Args:
        urls: of these indexes, without credentials.
        pages: of links to files, without credentials.
        default: whether the default index is asked, too.
    """
    named = [("--extra-index-url" if default or at else "--index-url", url)
             for at, url in enumerate(urls)]  # fmt: skip
    lines: list[str] = []
    for option, url in [*named, *(("--find-links", page) for page in pages)]:
        lines.append(f"{option} {url}\n")
        if url.startswith("http://"):  # pip passes over a plain connection otherwise
            host = url.split("/")[2]
            lines.append(f"--trusted-host {host}\n")
    return "".join(lines)
