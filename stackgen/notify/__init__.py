"""Sends messages about findings: webhooks, and files for a forge."""
