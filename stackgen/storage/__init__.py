"""What lies on disk: paths, files and their locks, leases, wheels, the state of an installation."""
