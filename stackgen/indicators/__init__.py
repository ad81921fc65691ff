"""What an indicator declares, and what it prints; reading files and running them is elsewhere."""
