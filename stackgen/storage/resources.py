"""Find the folders that travel with stackgen: ``pis``, ``images`` and ``kb``."""

from pathlib import Path


def shipped_folder(name: str) -> Path:
    """Return the shipped folder of that name.

    An installed wheel carries them inside the package; a checkout has them beside it.
    """
    package = Path(__file__).resolve().parents[1]
    shipped = package / "_shipped" / name
    return shipped if shipped.is_dir() else package.parent / name
