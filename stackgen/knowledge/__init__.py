"""The record of what was observed, and what it says about failures and a user's lock."""

from stackgen.knowledge.failures import (
    FailureGroup,
    Separation,
    Trait,
    blames_damaged_cache,
    explain_failures,
    explain_results,
    signature,
)

__all__ = [
    "FailureGroup",
    "Separation",
    "Trait",
    "blames_damaged_cache",
    "explain_failures",
    "explain_results",
    "signature",
]
