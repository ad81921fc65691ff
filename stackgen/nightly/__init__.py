"""Nights: releases, campaigns, findings, attribution, notifications and metrics."""
