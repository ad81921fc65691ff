"""The frozen values that cross the seams between stages (DESIGN: what crosses each seam)."""
