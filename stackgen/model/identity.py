"""Identity is content: an id is the digest of what identifies a thing, in a frozen serialisation.

Each ``id`` property lists its values in an order of its own, so that ids do not depend on names of
classes, fields or enum members. Enum members are spelled by frozen tables (``ROLE_CODES``,
``OUTCOME_CODES``). ``ID_SCHEME`` numbers the whole of it and is stored in each knowledge base:
a change of any of these lists raises it and comes with a migration that recomputes stored ids.
"""

import hashlib
import json
from typing import NewType

ID_SCHEME = 2
"""Version of the serialisation of all ids; 2: indicators by revision in place of their source."""

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True)

LockId = NewType("LockId", str)
StackId = NewType("StackId", str)
MachineId = NewType("MachineId", str)
IndicatorId = NewType("IndicatorId", str)
CampaignId = NewType("CampaignId", str)
InspectionId = NewType("InspectionId", str)


def canonical_json(content: object) -> str:
    """Return JSON in ASCII: keys sorted, no blanks, floats in their shortest form.

    Equal contents give equal texts. The request of a campaign is such a text.

    Args:
        content: strings, numbers, booleans, None, and sequences or mappings of them.
    """
    return _ENCODER.encode(content)


def content_id(kind: str, content: object) -> str:
    """Return the SHA-256 (64 hexadecimal digits) of a content's canonical JSON.

    Args:
        kind: what is identified, so that equal contents of two kinds differ.
        content: as of ``canonical_json``.
    """
    return hashlib.sha256(canonical_json([kind, content]).encode("ascii")).hexdigest()
