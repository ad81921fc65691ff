"""What this machine is, for ``stackgen machine``."""

from stackgen.executors.machine import this_machine
from stackgen.values import Machine


def machine_record() -> Machine:
    """Return the record that every inspection here refers to."""
    return this_machine()
