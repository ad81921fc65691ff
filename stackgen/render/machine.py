"""Reports for machines."""

import json
import math
from dataclasses import fields, is_dataclass
from enum import Enum


def as_json(value: object) -> str:
    """Return a report as JSON with the fields of its dataclass; infinite numbers become null."""
    return json.dumps(_plain(value), indent=2, ensure_ascii=False)


def _plain(value: object) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list | frozenset):
        return [_plain(item) for item in value]
    return value
