"""What an indicator declares, and what its output means."""
