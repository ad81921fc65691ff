"""The record of what was observed, and what it says about failures and a user's lock."""
