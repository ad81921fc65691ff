"""Run inspections in an existing interpreter without isolation, as on a prepared GPU machine.

The user's variables for GPUs and numeric libraries are passed on. Child processes, time and memory
are limited as in virtualenvs.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from stackgen.executors.virtualenv import VirtualenvExecutor
from stackgen.model.inspections import IndicatorCall, Inspection, InspectionPlan
from stackgen.model.stacks import Machine
from stackgen.sandbox.supervised import Request

# Variables of drivers, frameworks and numeric libraries. No others are passed on: some share a
# prefix with these (TF_VAR_... is Terraform's, NVIDIA_API_KEY a secret).
_PASSED = re.compile(
    r"(CUDA|NCCL|CUDNN|CUBLAS|XLA|TORCH|PYTORCH|TORCHINDUCTOR|TRITON|ROCR|HIP|HSA|MIOPEN|SYCL|ZE"
    r"|OMP|KMP|GOMP|MKL|OPENBLAS|BLIS|ONEDNN|DNNL|NUMEXPR|MALLOC)_\w+"
    r"|TF_(ENABLE|DISABLE|USE|FORCE|XLA|CPP|GPU|CUDA|CUDNN|CUBLAS|NUM|DETERMINISTIC|MKL|ONEDNN"
    r"|FP16|AUTO|LAYOUT|THREAD)_?\w*|NVIDIA_(VISIBLE_DEVICES|TF32_OVERRIDE|DRIVER_CAPABILITIES)"
    r"|LD_LIBRARY_PATH|LD_PRELOAD|DYLD_LIBRARY_PATH|GLIBC_TUNABLES|PYTHONPATH|PYTHONUSERBASE"
)
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSW", re.IGNORECASE)
# The user's packages; and code that drivers compiled for a GPU, which can take minutes.
_IN_HOME = (("PYTHONUSERBASE", ".local"), ("CUDA_CACHE_PATH", ".nv/ComputeCache"))
_USER_SITE = "-s"  # keeps the user's own packages out, which a prepared machine may rely on


def passed_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the user's variables that an inspection gets."""
    return {
        name: value
        for name, value in sorted(environ.items())
        if _PASSED.fullmatch(name) and not _SECRET.search(name)
    }


def trace_folder(root: Path, call: IndicatorCall) -> Path:
    """Return the folder of a call's trace."""
    arguments = ",".join(f"{name}={value}" for name, value in call.arguments)
    return root / call.indicator.name.replace("/", "-") / re.sub(r"[^\w.,=+-]", "_", arguments)


@dataclass(slots=True, kw_only=True)
class LocalExecutor:
    """Runs each plan as a process of its environment's interpreter, without namespaces.

    Close it when done (``contextlib.closing`` does).

    machine: where it runs.
    scratch: a folder for the working directories.
    environ: the user's variables; ``passed_variables`` selects those that are passed
        on. They select the GPUs, too, where a plan's limits allow all of them.
    trace: a folder for profiler traces, one of each call's first block; None keeps none.
    """

    machine: Machine
    scratch: Path
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    trace: Path | None = None
    _within: VirtualenvExecutor = field(init=False)

    def __post_init__(self) -> None:
        self._within = VirtualenvExecutor(
            machine=self.machine, scratch=self.scratch, isolations=(), adapt=self._adapted
        )

    def close(self) -> None:
        """End the supervisor."""
        self._within.close()

    def inspect(self, plans: Iterable[InspectionPlan]) -> Iterator[Inspection]:
        """Yield one inspection per plan, in order.

        Raises:
            ExecutorUnavailableError: this system has no processes as we need them.
            StorageError: the scratch folder cannot be written.
        """
        yield from self._within.inspect(plans)

    def _adapted(self, plan: InspectionPlan, request: Request) -> Request:
        """Return a request to the supervisor, with the user's variables and options."""
        environment = {**passed_variables(self.environ), **request.environment}
        environment.pop("PYTHONNOUSERSITE", None)
        environment.update(self._paths(request.environment))
        environment["PATH"] = self.environ.get("PATH") or request.environment["PATH"]
        return replace(request, command=self._command(plan, request), environment=environment)

    def _paths(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return variables with the user's folders, also those in the home, which is replaced."""
        named = (given.get("PYTHONPATH", ""), self.environ.get("PYTHONPATH", ""))
        paths = os.pathsep.join(filter(None, named))
        found = {"PYTHONPATH": paths} if paths else {}
        home = self.environ.get("HOME")
        for name, place in _IN_HOME if home else ():
            found[name] = self.environ.get(name) or str(Path(str(home)) / place)
        return found

    def _command(self, plan: InspectionPlan, request: Request) -> tuple[str, ...]:
        python, *rest = request.command
        if _USER_SITE in rest:
            rest.remove(_USER_SITE)
        if self.trace is not None and not plan.block:
            rest += ["--trace", str(trace_folder(self.trace, plan.call).absolute())]
        return (python, *rest)
