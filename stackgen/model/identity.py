"""Identity is content: ids are digests of what a thing is (DESIGN: decision 7)."""

import hashlib
import json
from typing import NewType

LockId = NewType("LockId", str)
StackId = NewType("StackId", str)
MachineId = NewType("MachineId", str)
IndicatorId = NewType("IndicatorId", str)
CampaignId = NewType("CampaignId", str)
InspectionId = NewType("InspectionId", str)


def content_id(kind: str, content: object) -> str:
    """Return the SHA-256 (64 hexadecimal digits) of canonical JSON.

    Args:
        kind: what is identified, so that equal contents of two kinds differ.
        content: strings, numbers, booleans, None, and sequences or mappings of them.
    """
    text = json.dumps([kind, content], sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()
