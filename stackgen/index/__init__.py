"""Package indexes: what they offer, and its metadata."""

from stackgen.index.client import PackageIndex
from stackgen.index.config import Credentials, IndexConfig, IndexLocation, load_config
from stackgen.index.metadata import artifact_key

__all__ = [
    "Credentials",
    "IndexConfig",
    "IndexLocation",
    "PackageIndex",
    "artifact_key",
    "load_config",
]
