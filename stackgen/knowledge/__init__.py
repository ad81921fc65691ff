"""The record of what was observed, and what it says about failures and a user's lock."""

from stackgen.knowledge.failures import (
    Apart,
    FailureGroup,
    Trait,
    blames_damaged_cache,
    explain_failures,
    explain_results,
    signature,
)

__all__ = [
    "Apart",
    "FailureGroup",
    "Trait",
    "blames_damaged_cache",
    "explain_failures",
    "explain_results",
    "signature",
]
