"""Where an inspection ran."""

from dataclasses import dataclass

from stackgen.values.identity import MachineId, content_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine, told apart only by what can change a timing.

    identity: sorted (name, value) pairs: CPU vendor, family, model, stepping, instruction sets,
        cores and SMT in use, cache sizes, virtualisation, GPU models.
    circumstances: sorted (name, value) pairs that are recorded but are not identity:
        kernel, microcode, governor, driver, memory, host name digest.
    """

    identity: tuple[tuple[str, str], ...]
    circumstances: tuple[tuple[str, str], ...] = ()

    @property
    def id(self) -> MachineId:
        """Return the digest of the identity."""
        return MachineId(content_id("machine", [list(pair) for pair in self.identity]))
