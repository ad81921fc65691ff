"""Builds requests of campaigns from the fields that matter to a test."""

from dataclasses import fields, replace
from typing import Any

from stackgen.campaign.request import CampaignRequest, StackRequest
from stackgen.resolve.requirements import Requirements


def campaign_request(**given: Any) -> CampaignRequest:
    """Return a request with these fields, whichever group of it they belong to."""
    empty = CampaignRequest(kind="explore", stacks=StackRequest(requirements=Requirements()))
    return changed(empty, **given)


def changed(request: CampaignRequest, **given: Any) -> CampaignRequest:
    """Return a request in which these fields are others."""
    for name, value in given.items():
        if hasattr(request, name):
            request = replace(request, **{name: value})
            continue
        (group,) = (
            each.name
            for each in fields(request)
            if name in getattr(getattr(request, each.name), "__dataclass_fields__", {})
        )
        request = replace(request, **{group: replace(getattr(request, group), **{name: value})})
    return request
