"""Run TensorFlow's indicators, each by the harness in a fork of one process that imported it.

It runs inside stacks, on Python 3.7 and newer: ``run_indicators.py measure|count < jobs``. A job
is a list: an indicator (its module, its row there), then options as on a command line. A list is
printed: of the documents, those of indicators that failed being {"outcome": "crashed", "reason":
the traceback}; or, by ``count``, of our work beside the FLOP of TensorFlow's own profiler.
"""

import atexit
import importlib
import json
import os
import runpy
import sys
import tempfile
import traceback
import warnings
from typing import Any, List  # noqa: UP035 - for old Pythons


def measure(script: List[str], options: List[str], output: str) -> None:  # noqa: UP006
    """Measure as the module's own last line does, in no hurry to be exact."""
    defined = runpy.run_path(script[0], run_name="driven")
    defined["harness"].WARM_UP_S = 0.0
    sys.argv = [*script, "--threads", "1", "--samples", "2", "--output", output, *options]
    defined["harness"].main_table(defined)


def count(script: List[str], options: List[str], output: str) -> None:  # noqa: UP006
    """Write our work and what the profiler counts in the same graph."""
    tf: Any = importlib.import_module("tensorflow")
    constants: Any = importlib.import_module("tensorflow.python.framework.convert_to_constants")
    defined = runpy.run_path(script[0], run_name="driven")
    harness = defined["harness"]
    indicator, setup = harness.select(defined, script[1])
    _, parameters = harness.read_arguments(indicator, options)
    framework, retained = harness.framework("tensorflow").Framework, []
    described = framework.measured

    def measured(local: Any, function: Any, inputs: Any, **more: Any) -> Any:
        retained.append((function, inputs))
        return described(local, function, inputs, **more)

    framework.measured = measured
    operation = harness.set_up(indicator, setup, parameters)
    function, inputs = retained[0]
    made = tf.function(function, autograph=False).get_concrete_function(*inputs)
    frozen = constants.convert_variables_to_constants_v2(made)
    with tf.Graph().as_default() as graph:
        tf.graph_util.import_graph_def(frozen.graph.as_graph_def(), name="")
        wanted = tf.compat.v1.profiler.ProfileOptionBuilder.float_operation()
        wanted["output"] = "none"
        seen = tf.compat.v1.profiler.profile(graph, cmd="op", options=wanted)
    with open(output, "w") as file:  # noqa: PTH123
        json.dump({"work": operation.work, "counted": seen.total_float_ops}, file)


def forked(what: Any, script: List[str], options: List[str]) -> Any:  # noqa: UP006
    """Return what a job wrote, or how it ended."""
    output, log = tempfile.NamedTemporaryFile(), tempfile.NamedTemporaryFile()  # noqa: SIM115
    child = os.fork()
    if child == 0:
        status = 1
        for descriptor in (1, 2):
            os.dup2(log.fileno(), descriptor)
        try:
            what(script, options, output.name)
            status = 0
        except BaseException:  # noqa: BLE001 - whatever happens belongs to this job alone
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        getattr(atexit, "_run_exitfuncs")()  # noqa: B009 - _exit leaves them out
        os._exit(status)
    _, status = os.waitpid(child, 0)
    with open(log.name if status else output.name, errors="replace") as file:  # noqa: PTH123
        printed = file.read()
    failed = {"outcome": "crashed", "reason": f"{status}: {printed[-3000:]}"}
    return failed if status else json.loads(printed)


def main() -> None:
    """Do all jobs, one after the other."""
    warnings.simplefilter("ignore")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    tf: Any = importlib.import_module("tensorflow")
    getattr(getattr(tf, "keras", None), "layers", None)  # newer ones import Keras late
    what = {"measure": measure, "count": count}[sys.argv[1]]
    jobs = json.load(sys.stdin)
    found = [forked(what, script, options) for script, *options in jobs]
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
