"""The frozen values that cross package boundaries."""
