"""What goes into which layer of an image, and in which order."""
