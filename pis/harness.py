"""Run one performance indicator and print what was measured as one line of JSON.

An indicator is a script that declares ``INDICATOR``, writes ``setup(parameters)`` and ends with
``harness.main(INDICATOR, setup)``; or a row of a table, ``INDICATORS``, of a module that ends with
``harness.main_table(globals())``. The clock, the warm-up, the repetition and the output are here,
the same for all of them. Standard library alone, Python 3.6 and newer.

Exit codes: 0 a document was printed (outcome ok, unsupported, import_failed or invalid_output),
64 a wrong parameter, 1 an exception (its traceback is on standard error).
"""

import os
import sys

# This folder has folders named like the frameworks, and those have files named like modules of the
# standard library (copy): on the path, they would stand in for them, so this comes first.
HERE = os.path.realpath(os.path.dirname(os.path.abspath(__file__)))
sys.path[:] = [
    folder
    for folder in sys.path
    if not os.path.join(os.path.realpath(folder or "."), "").startswith(os.path.join(HERE, ""))
]

# Few, and the others late: what is loaded here costs an import that is measured no time any more.
import argparse
import gc
import importlib
import itertools
import math
import re
import time

try:
    import resource
except ImportError:  # Windows
    resource = None

SCHEMA = 1
# Part of every indicator's identity. Raise it when an edit of this file or of a framework_*.py may
# change timings (an A/A comparison of both versions decides); then times are not compared with
# those of before. A script that changes alone raises its own "revision".
PROTOCOL_REVISION = 1
WRONG_USAGE = 64
WARM_UP_CALLS, WARM_UP_S = 3, 0.1
SAMPLE_S = (0.001, 0.002, 0.003)  # a sample takes at least, about, and at most so long
# Halves agree within so much, or are extended so often, unless that has taken so many seconds.
STEADY_WITHIN, EXTENSIONS, SETTLE_S = 0.02, 3, 10.0
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "TF_NUM_INTRAOP_THREADS",
)
# Parameters that many indicators share: each names those that it takes, with its own defaults
# (``"common": {"dtype": "float32"}``), and they mean the same everywhere.
COMMON = {
    "dtype": {
        "type": "str",
        "allowed": ["float32", "float64", "float16", "bfloat16"],
        "help": "type of the numbers",
    },
    "device": {"type": "str", "allowed": ["auto", "cpu", "gpu"], "help": "auto: a GPU if seen"},
    "batch": {"type": "int", "help": "samples that are processed together"},
    "mode": {
        "type": "str",
        "allowed": ["eager", "graph", "compiled"],
        "help": "operation by operation; as a graph (tf.function, a session, TorchScript); or "
        "compiled (XLA, inductor)",
    },
    "layout": {
        "type": "str",
        "allowed": ["channels_last", "channels_first"],
        "help": "order of an image's axes",
    },
    "autocast": {
        "type": "str",
        "allowed": ["off", "float16", "bfloat16"],
        "help": "mixed precision: what the framework itself casts to",
    },
    "passes": {
        "type": "str",
        "allowed": ["forward", "both"],
        "help": "both: with the gradients of every input",
    },
    "step": {
        "type": "str",
        "allowed": ["inference", "training"],
        "help": "training: forward, backward and plain gradient descent",
    },
}
ITEM_BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}
BOTH = 3  # the work of both passes, and of a step of training, in forward passes
# How far checksums of one operation may be apart, as a ratio, where INDICATOR gives no "tolerance".
TOLERANCES = {"float64": 1e-9, "float32": 1e-4, "float16": 1e-2, "bfloat16": 3e-2}
WRONG_COMMON = "{} is not an indicator: the common parameter {!r} {}"
CONTROL_GROUPS = "/sys/fs/cgroup"
UNLIMITED_BYTES = 1 << 60  # version 1 says "no limit" with a number around the largest there is
GPU_STATE = [
    "clocks.sm",
    "clocks.mem",
    "temperature.gpu",
    "power.draw",
    "utilization.gpu",
    "memory.used",
    "clocks_throttle_reasons.active",
]
GPU_PEAK = {"FLOP": 5e16, "byte": 2e14}  # per second, more than any GPU of our days does
# FLOP per cycle and multiprocessor in float16, by the first number of the compute capability: the
# most of each family (NVIDIA's white papers; 9 is 132 x 1.83 GHz x 4096 = 989 TFLOP/s on an H100).
TENSOR_FLOP = {5: 256, 6: 256, 7: 1024, 8: 2048, 9: 4096, 10: 8192, 11: 8192, 12: 2048}
CACHE_BYTES = 192  # a cycle, of a core or a multiprocessor: two loads and a store of 64 bytes
IMPORTS = {}  # by name of a package: the seconds of its first import, the peak memory after it
RECORDED_VARIABLES = THREAD_VARIABLES + ("PYTHONHASHSEED", "GLIBC_TUNABLES", "LD_PRELOAD")


class Unsupported(Exception):
    """What was asked for does not exist in this version, or on this machine."""


class ImportFailed(Exception):
    """The framework cannot be imported; the traceback is the message."""


class Invalid(ValueError):
    """What came out is no measurement: a result that is no number, a rate that cannot be."""


class Operation:
    """What is measured.

    run: does the operation once.
    wait: returns when everything that ``run`` started is done; it is part of every sample, so
        that a launch alone cannot be timed. None where ``run`` returns only when it is done; on a
        GPU there has to be one.
    work: FLOP or bytes of one run (``INDICATOR["unit"]`` says which), above zero; None where the
        indicator declares a formula, or where there is no such number.
    checksum: returns a number that depends on the whole result, the same in every process however
        often ``run`` was called before (of training: the loss of the first step), or None.
    items: samples (images, sentences) that one run processes, or None.
    facts: further numbers by name that belong to the result (``parameters``, ``macs``).
    peak: the most FLOP or bytes per second that the device can do; None for what no CPU (on a GPU:
        no GPU) of our days exceeds.
    device_memory: returns the most bytes that were in use on the device, or None.
    gpu: whether it runs on a GPU.
    trace: writes one profiler trace into a folder that exists, or None.
    figure: returns what the last run was worth, above zero, where that is not its time.
    """

    def __init__(
        self,
        run,
        wait=None,
        work=None,
        checksum=None,
        items=None,
        facts=None,
        peak=None,
        device_memory=None,
        gpu=False,
        trace=None,
        figure=None,
    ):
        if gpu and wait is None:
            raise TypeError("on a GPU, an operation needs a wait that returns when all is done")
        self.run = run
        self.wait = wait or (lambda: None)
        self.work = None if work is None else float(work)
        self.checksum = checksum or (lambda: None)
        self.items = items
        self.facts = facts or {}
        self.peak = peak
        self.device_memory = device_memory
        self.gpu = gpu
        self.trace = trace
        self.figure = figure


def load(name):
    """Import a framework, within ``setup`` or as the operation itself; the first time is recorded.

    What its process imported before (NumPy, by an earlier call) is no part of that time.
    """
    import traceback

    start = time.perf_counter()
    try:
        loaded = importlib.import_module(name)
    except MemoryError:
        raise
    except (Exception, SystemExit):  # packages fail to import in every way there is
        raise ImportFailed(traceback.format_exc())
    IMPORTS.setdefault(name, (time.perf_counter() - start, peak_memory_bytes()))
    return loaded


def main(indicator, setup):
    """Measure as the command line says, and print the document."""
    options, parameters = read_arguments(indicator, sys.argv[1:])
    for variable in THREAD_VARIABLES:
        os.environ.setdefault(variable, str(options.threads))
    if parameters.get("device") == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    document = {"stackgen": SCHEMA, "outcome": "ok", "reason": ""}
    try:
        document.update(measure(indicator, setup, options, parameters))
    except ImportFailed as error:
        document.update(outcome="import_failed", reason=str(error))
    except Unsupported as error:
        document.update(outcome="unsupported", reason=str(error))
    except Invalid as error:
        document.update(outcome="invalid_output", reason=str(error))
    document["loaded"] = loaded_distributions()
    document["component_version"] = component_version(indicator["component"])
    if "circumstances" in document:
        document["circumstances"].update(blas())
    publish(document, options.output)


def main_table(module):
    """Measure the indicator that the command line names first, of a module's table."""
    known, name = list(module["INDICATORS"]), "".join(sys.argv[1:2])
    if name not in known:
        parser = Parser(description=module["__doc__"], allow_abbrev=False)
        parser.add_argument("indicator", choices=known, help="followed by its own options")
        parser.parse_args(sys.argv[1:2])  # ends here, with the help or a refusal
    sys.argv[:2] = [" ".join(sys.argv[:2])]  # so that the help names the indicator
    main(*select(module, name))


def select(module, name):
    """Return what a module's table declares of one of its indicators, and the setup of that.

    A setup function is given what its arguments name: parameters and constants of the indicator,
    ``here`` (the framework, started: ``framework_COMPONENT.start``), ``indicator`` (all that is
    declared of it) or ``parameters`` (all of them).
    """
    indicator = declared(module.get("FAMILY", {}), module["INDICATORS"][name])
    function = module[indicator.get("setup", name)]
    wanted = function.__code__.co_varnames[: function.__code__.co_argcount]

    def setup(parameters):
        known = dict(indicator.get("constants", {}), **parameters)
        known.update(indicator=indicator, parameters=parameters)
        if "here" in wanted:
            known["here"] = framework(indicator["component"]).start(indicator, parameters)
        return function(*[known[each] for each in wanted])

    return indicator, setup


def declared(family, row):
    """Return a row with what its family declares for all; parameters are added up."""
    merged = dict(family, **row)
    for key in ("common", "parameters"):
        merged[key] = dict(family.get(key, {}), **row.get(key, {}))
    return merged


def framework(component):
    """Import what the indicators of a component share, as late as it is needed."""
    sys.path.insert(0, HERE)
    try:
        return importlib.import_module("framework_" + component)
    finally:
        sys.path.remove(HERE)


def work_of(indicator, parameters):
    """Return FLOP or bytes of one run by the indicator's formula, None where it has none.

    A formula counts the forward pass, of parameters, constants and ``itemsize``: bytes of a number.
    """
    if "work" not in indicator:
        return None
    names = dict(indicator.get("constants", {}), **parameters)
    names["itemsize"] = ITEM_BYTES.get(parameters.get("dtype"))
    passes = BOTH if parameters.get("passes") == "both" else 1
    return float(passes * eval(indicator["work"], {"__builtins__": {}}, names))


class Parser(argparse.ArgumentParser):
    """Refuses in one sentence."""

    def error(self, message):
        sys.stderr.write("{}: {} (--help shows what it takes)\n".format(self.prog, message))
        raise SystemExit(WRONG_USAGE)


def positive(kind, zero=False):
    """Return a reader of numbers above zero, or of zero as well."""

    def read(text):
        value = kind(text)
        if not (0 < value < math.inf or (zero and value == 0)):
            short = "below" if zero else "not above"
            raise argparse.ArgumentTypeError("{} is {} zero".format(text, short))
        return value

    read.__name__ = "positive " + kind.__name__
    return read


def reader(declared):
    """Return what reads a parameter; zero is taken where default or allowed values have it."""
    zero = 0 in [declared["default"]] + declared.get("allowed", [])
    return {"int": positive(int, zero), "float": positive(float, zero), "str": str}[
        declared["type"]
    ]


def threads_or_auto(text):
    """Read a number of threads; by default all CPUs that we may use but one, within the quota."""
    if text != "auto":
        return positive(int)(text)
    return max(1, int(min(len(usable_cpus()) - 1, container_limits().get("cpu_quota", math.inf))))


threads_or_auto.__name__ = "number of threads"


def read_arguments(indicator, arguments):
    """Return the harness's options and the indicator's parameters (with ``threads``)."""
    parser = Parser(description=indicator["summary"].replace("%", "%%"), allow_abbrev=False)
    takes = parameters_of(indicator)
    for name, declared in takes.items():
        words = "{} (default: {})".format(declared.get("help", ""), declared["default"])
        parser.add_argument(
            "--" + name,
            type=reader(declared),
            default=declared["default"],
            choices=declared.get("allowed"),
            help=words.replace("%", "%%"),
        )
    parser.add_argument("--threads", type=threads_or_auto, default="auto", help="default: auto")
    parser.add_argument(
        "--samples", type=positive(int), default=30, help="how many to keep (one of a one_shot)"
    )
    parser.add_argument("--loops", type=positive(int), help="operations per sample")
    parser.add_argument("--output", help="write the document into this file, too")
    parser.add_argument("--trace", help="keep one profiler trace in this folder")
    options = parser.parse_args(arguments)
    if (options.loops or 1) > 1 and (indicator.get("latency") or indicator.get("one_shot")):
        parser.error("argument --loops: each sample of this indicator is one operation")
    names = list(takes) + ["threads"]
    return options, {name: getattr(options, name) for name in names}


def parameters_of(indicator):
    """Return what an indicator takes: its own parameters, and those of COMMON that it names."""
    takes = dict(indicator.get("parameters", {}))
    for name, default in indicator.get("common", {}).items():
        if name not in COMMON or name in takes:
            problem = "is its own as well" if name in takes else "does not exist"
            raise SystemExit(WRONG_COMMON.format(sys.argv[0], name, problem))
        takes[name] = dict(COMMON[name], default=default)
        if default not in COMMON[name].get("allowed", [default]):
            problem = "does not take {!r}".format(default)
            raise SystemExit(WRONG_COMMON.format(sys.argv[0], name, problem))
    return takes


def sample(operation, loops):
    """Return the seconds per operation of so many operations in a row."""
    run, wait = operation.run, operation.wait
    start = time.perf_counter()
    for _ in itertools.repeat(None, loops):
        run()
    wait()
    return (time.perf_counter() - start) / loops


def set_up(indicator, setup, parameters):
    """Return the operation, with its work."""
    operation = setup(parameters)
    if not hasattr(operation, "run"):
        raise TypeError("setup must return a harness.Operation, not {!r}".format(operation))
    if operation.work is None:
        operation.work = work_of(indicator, parameters)
    return operation


def measure(indicator, setup, options, parameters):
    """Return the measured part of the document."""
    operation = set_up(indicator, setup, parameters)
    if options.trace:
        prepare_trace(operation, options.trace)
    states = [gpu_state()] if operation.gpu else []  # now, since asking leaves the GPU idle
    resident = memory_bytes("VmRSS")
    loops, samples, steady = 1, 1, True
    gc.collect()
    if not indicator.get("one_shot"):  # what happens once is timed as it would happen
        gc.disable()  # a collection in the middle of a sample is nobody's speed
        loops, steady = prepare(operation, options.loops or (1 if indicator.get("latency") else 0))
        samples = options.samples
    before = counters()
    values = [valued(operation, indicator, sample(operation, loops)) for _ in range(samples)]
    after = counters()
    peak = peak_memory_bytes()  # now, since checksums need memory of their own
    states += [gpu_state()] if operation.gpu else []
    gc.enable()
    refuse_impossible(indicator, operation, values)
    found = {
        "values_s": values,
        "loops": loops,
        "work": operation.work,
        "steady": steady,
        "peak_memory_bytes": peak,
        "circumstances": dict(circumstances(before, after), **facts(operation, states)),
    }
    told = found["circumstances"]
    told["checksum_tolerance"] = tolerance(indicator, parameters)
    if resident:
        told["memory_before_bytes"] = resident
    seconds, bytes_then = IMPORTS.get(indicator.get("component"), (None, None))
    if seconds:
        told["import_s"] = round(seconds, 6)
    if bytes_then:
        told["import_peak_memory_bytes"] = bytes_then
    if operation.figure is not None:
        told["figure"] = indicator.get("better", "lower")
    found["checksum"] = finite(operation.checksum())
    if options.trace:
        operation.trace(options.trace)
    return found


def prepare(operation, loops):
    """Warm up; return the operations per sample (found, where loops is 0) and steadiness."""
    fastest = warm_up(operation)
    if not loops:
        # What is a sample by itself needs no search, which could take minutes.
        loops = 1 if fastest >= SAMPLE_S[0] else calibrate(operation)
    return loops, settle(operation, loops)


def tolerance(indicator, parameters):
    """Return how far the checksums of two stacks may be apart, as a ratio, and still be equal."""
    if "tolerance" in indicator:
        return indicator["tolerance"]
    autocast = parameters.get("autocast", "off")
    kind = parameters.get("dtype") if autocast == "off" else autocast
    return TOLERANCES.get(kind, TOLERANCES["float64"])


def valued(operation, indicator, seconds):
    """Return what a sample was worth, lower being better: its time, or a figure of its own."""
    if operation.figure is None:
        return seconds
    figure = float(operation.figure())
    if not 0 < figure < math.inf:
        raise Invalid("a figure must be above zero, not {!r}".format(figure))
    return 1 / figure if indicator.get("better") == "higher" else figure


def refuse_impossible(indicator, operation, values):
    """Refuse a rate above what the device can do: something was not waited for, or miscounted."""
    unit = indicator.get("unit")
    if min(values) <= 0:
        raise Invalid("a sample took no time by this clock: give more --loops")
    if not operation.work or operation.figure is not None or unit not in GPU_PEAK:
        return
    peak = operation.peak or (GPU_PEAK[unit] if operation.gpu else cpu_peak(unit))
    rate = operation.work / min(values)
    if rate > peak:
        message = "{:.3g} {}/s is more than this device can do ({:.3g} at most)"
        raise Invalid(message.format(rate, unit, peak))


def cpu_peak(unit):
    """Return what no CPU of our days exceeds: FLOP/s, or bytes/s from its nearest cache.

    Two multiply-adds of 512 bits a cycle are 64 FLOP in float32, matrix units (AMX) do 2,048 in
    bfloat16.
    """
    cycles = 6e9 * len(usable_cpus())
    return cycles * (2048 if unit == "FLOP" else CACHE_BYTES)


def gpu_peak(unit, numbers, multiprocessors, hertz, family):
    """Return the most FLOP or bytes per second of a GPU, generous by a tenth, or None.

    numbers: their type. family: the first number of its compute capability, None where it has none.

    float32: as TF32, half of float16; without, 256 a cycle, of which Winograd's convolutions make
    2.25 times as many. float64: an eighth, where tensor cores do it.
    """
    cycles = 1.1 * multiprocessors * hertz
    if unit != "FLOP":
        return cycles * CACHE_BYTES
    if family not in TENSOR_FLOP:
        return None
    half = TENSOR_FLOP[family]
    return cycles * {"float32": max(half // 2, 640), "float64": max(half // 8, 128)}.get(
        numbers, half
    )


def prepare_trace(operation, folder):
    """Refuse what cannot be traced before anything is measured."""
    if operation.trace is None:
        raise Unsupported("this indicator keeps no trace")
    os.makedirs(folder, exist_ok=True)


def facts(operation, states):
    """Return what an operation says of itself, and what its GPU was doing, as circumstances."""
    found = dict(operation.facts)
    if operation.items:
        found["items"] = operation.items
    if operation.device_memory is not None:
        found["device_memory_bytes"] = operation.device_memory()
    for place, state in zip(("before", "after"), states):
        for name, value in state.items():
            found["gpu {} {}".format(name, place)] = value
    return {name: value for name, value in found.items() if value is not None}


def gpu_state():
    """Return clocks (MHz), temperature (C), power (W), use (%) and throttling of the first GPU."""
    import subprocess

    first = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0] or "0"
    for reasons in ("clocks_event_reasons.active", "clocks_throttle_reasons.active"):  # new, old
        asked = ",".join(GPU_STATE[:-1] + [reasons])
        query = ["-i", first, "--query-gpu=" + asked, "--format=csv,noheader,nounits"]
        try:
            said = subprocess.check_output(
                ["nvidia-smi"] + query, stderr=subprocess.DEVNULL, timeout=20
            )
        except subprocess.CalledProcessError:
            continue
        except (OSError, subprocess.SubprocessError):
            break
        cells = [cell.strip() for cell in said.decode("utf-8", "replace").split("\n")[0].split(",")]
        if len(cells) == len(GPU_STATE):  # [N/A] and the like: what this GPU does not tell
            return {name: cell for name, cell in zip(GPU_STATE, cells) if cell and cell[0] != "["}
    return {}


def warm_up(operation):
    """Run at least three times and for at least 100 ms; return the seconds of the fastest run."""
    start, calls, fastest = time.perf_counter(), 0, math.inf
    while calls < WARM_UP_CALLS or time.perf_counter() - start < WARM_UP_S:
        fastest = min(fastest, sample(operation, 1))
        calls += 1
    return fastest


def calibrate(operation):
    """Return how many operations make a sample of 1 to 3 ms (one, where one takes longer)."""
    least, target, most = SAMPLE_S
    loops = 1
    for _ in range(20):
        took = min(sample(operation, loops) for _ in range(3)) * loops
        if took >= least and (took <= most or loops == 1):
            break
        loops = max(1, min(int(round(loops * target / max(took, 1e-9))), loops * 100))
    return loops


def settle(operation, loops):
    """Go on warming up until two halves agree within 2 %; say whether they ever did."""
    import statistics

    began = time.perf_counter()
    for extension in range(1 + EXTENSIONS):
        start, values = time.perf_counter(), []
        if extension and start - began > SETTLE_S:
            break
        while len(values) < 4 or time.perf_counter() - start < WARM_UP_S:
            values.append(sample(operation, loops))
        half = len(values) // 2
        first, second = statistics.median(values[:half]), statistics.median(values[half:])
        if abs(first - second) <= STEADY_WITHIN * min(first, second):
            return True
    return False


def finite(checksum):
    """Refuse a result that is not a number: it was not computed right."""
    if checksum is not None and not math.isfinite(checksum):
        raise Invalid("the operation's result is wrong: its checksum is {}".format(checksum))
    return None if checksum is None else float(checksum)


def read(path):
    """Return a file's text, "" where there is none."""
    try:
        with open(path, errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def counters():
    """Return what only ever grows, to be read before and after the samples."""
    found = {}
    for what in ("cpu", "memory", "io"):
        total = re.search(r"some .*total=(\d+)", read("/proc/pressure/" + what))
        if total:
            found["pressure_{}_s".format(what)] = int(total.group(1)) / 1e6
    ticks = read("/proc/stat").split("\n")[0].split()
    if len(ticks) > 8:
        found["steal_s"] = int(ticks[8]) / os.sysconf("SC_CLK_TCK")
    if resource:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        found["context_switches_voluntary"] = usage.ru_nvcsw
        found["context_switches_involuntary"] = usage.ru_nivcsw
        found["page_faults"] = usage.ru_minflt
        found["cpu_time_s"] = usage.ru_utime + usage.ru_stime
    found.update(throttling())
    asleep = suspended()
    if asleep is not None:
        found["suspended_s"] = asleep
    found["wall_s"] = time.perf_counter()
    return found


def suspended():
    """Return for how many seconds the machine has been suspended since it was started, or None.

    Of Linux's clocks, one goes on meanwhile (CLOCK_BOOTTIME, 7; Python knows its name since 3.7).
    """
    if not (sys.platform.startswith("linux") and hasattr(time, "clock_gettime")):
        return None
    try:
        return max(0.0, time.clock_gettime(7) - time.clock_gettime(time.CLOCK_MONOTONIC))
    except OSError:
        return None


def throttling():
    """Return how often and how long a CPU quota stopped this control group."""
    text = next(filter(None, control_group("cpu", "cpu.stat")), "")
    rows = dict(line.split() for line in text.splitlines())
    found = {}
    if "nr_throttled" in rows:
        found["throttled_times"] = int(rows["nr_throttled"])
        micro, nano = int(rows.get("throttled_usec", 0)), int(rows.get("throttled_time", 0))
        found["throttled_s"] = micro / 1e6 + nano / 1e9
    return found


def control_group(controller, name):
    """Yield the text of a file of this process's control group, then of those above it."""
    for line in read("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            root = CONTROL_GROUPS + "/" + controller
        elif not controllers:
            root = CONTROL_GROUPS
        else:
            continue
        while path:
            yield read(root + path.rstrip("/") + "/" + name)
            path = path.rpartition("/")[0] or ("/" if path != "/" else "")


def container_limits():
    """Return the CPUs' worth of time and the bytes that control groups leave us, where limited."""
    old = [control_group("cpu", "cpu.cfs_" + name) for name in ("quota_us", "period_us")]
    texts = list(control_group("cpu", "cpu.max")) + list(map(" ".join, zip(*old)))
    told = [re.match(r"(\d+)\s+([1-9]\d*)\s*$", text) for text in texts]
    quotas, limits = [int(each.group(1)) / int(each.group(2)) for each in told if each], []
    for name in ("memory.max", "memory.limit_in_bytes"):
        texts = map(str.strip, control_group("memory", name))
        limits += [int(text) for text in texts if text.isdigit()]
    found = {"cpu_quota": min(quotas)} if quotas else {}
    if limits and min(limits) < UNLIMITED_BYTES:
        found["memory_limit_bytes"] = min(limits)
    return found


def usable_cpus():
    """Return the numbers of the CPUs that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def cpu_mhz():
    """Return the mean frequency of the CPUs at this moment, or None."""
    import glob
    import statistics

    files = glob.glob("/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_cur_freq")
    values = [int(text) / 1000.0 for text in map(read, files) if text.strip().isdigit()]
    values = values or [
        float(mhz) for mhz in re.findall(r"cpu MHz\s*: (.*)", read("/proc/cpuinfo"))
    ]
    return round(statistics.mean(values), 1) if values else None


def circumstances(before, after):
    """Return everything around the samples that may explain a timing."""
    import platform

    found = {name: round(after[name] - before[name], 6) for name in after if name in before}
    if "suspended_s" in after:
        found["suspended_since_boot_s"] = round(after["suspended_s"], 6)
    found["load"] = " ".join(read("/proc/loadavg").split()[:3])
    found["cpu_count"] = os.cpu_count()
    found["cpu_mhz"] = cpu_mhz()
    found["governor"] = read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").strip()
    found["python"] = platform.python_implementation() + " " + platform.python_version()
    found["cpus"] = ",".join(map(str, usable_cpus()))
    if resource:  # all that the system counted of this process, in the order of getrusage
        found["rusage"] = " ".join(map(str, resource.getrusage(resource.RUSAGE_SELF)))
    found.update(container_limits())
    for name, value in os.environ.items():
        if name in RECORDED_VARIABLES or name.startswith("MALLOC_"):
            found["env " + name] = value
    found.setdefault("env PYTHONHASHSEED", "random")
    return {name: value for name, value in found.items() if value not in (None, "")}


def memory_bytes(name):
    """Return what the system says of this process's memory: VmRSS, VmHWM (the most it was)."""
    said = re.search(name + r":\s*(\d+) kB", read("/proc/self/status"))
    return int(said.group(1)) * 1024 if said else None


def peak_memory_bytes():
    """Return the most memory that was resident, or None."""
    # Not getrusage first: what it says includes the parent's size at the time of the fork.
    peak = memory_bytes("VmHWM")
    if peak or not resource:
        return peak
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def loaded_distributions():
    """Return name, version and ``compiled`` of each distribution that this process has loaded."""
    import glob

    libraries = mapped_libraries()
    modules = set()
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str):
            modules.add(tidy(file))
    found = {}
    for folder in sys.path:
        for info in sorted(glob.glob(os.path.join(glob.escape(folder), "*.dist-info"))):
            name, version = name_and_version(read(os.path.join(info, "METADATA")))
            files = set(recorded_files(info))
            compiled = bool(files & libraries)
            if name and name not in found and (compiled or files & modules):
                found[name] = {"name": name, "version": version, "compiled": compiled}
    return [found[name] for name in sorted(found)]


def tidy(path):
    """Return a path without links among its folders; the file itself may be one."""
    folder, name = os.path.split(os.path.abspath(path))
    return os.path.join(os.path.realpath(folder), name)


def mapped_libraries():
    """Return the paths of the shared libraries in this process."""
    paths = re.findall(r"(/\S.*\.so[.\d]*)$", read("/proc/self/maps"), re.MULTILINE)
    if not paths:  # no /proc: extension modules at least
        files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
        paths = [file for file in files if isinstance(file, str) and file.endswith((".so", ".pyd"))]
    return {tidy(path) for path in paths}


def blas():
    """Return the BLAS libraries of this process, each with its version and the kernels it chose.

    Called last: this may import threadpoolctl, which then counts as loaded.
    """
    found = mapped_blas()
    try:
        import threadpoolctl

        found += threadpoolctl.threadpool_info()  # it knows further libraries
    except (ImportError, AttributeError, OSError, RuntimeError):  # absent, too old, or it fails
        pass
    keys = ("internal_api", "version", "architecture", "threading_layer")
    words = set()
    for row in found:
        if row.get("user_api", "blas") == "blas":
            known = keys[:3] if row["internal_api"] == "mkl" else keys
            parts = [str(row[key]) for key in known if row.get(key)]
            words.add(" ".join(parts) + ", threads: {}".format(row.get("num_threads")))
    return {"blas": "; ".join(sorted(words))} if words else {}


def mapped_blas():
    """Return what threadpoolctl would say of the OpenBLAS and MKL here, also within PyTorch."""
    try:
        import ctypes
    except ImportError:
        return []
    found = []
    for path in sorted(mapped_libraries()):
        if re.search("openblas|mkl|libtorch_cpu", path):
            try:
                library = ctypes.CDLL(path, mode=getattr(os, "RTLD_NOLOAD", 0))
            except OSError:
                continue
            found += filter(None, (openblas(library), mkl(library)))
    return found


def number_from(library, name):
    """Return the number that a C function of a library returns, None where it has none such."""
    function = getattr(library, name, None)
    return None if function is None else int(function())


def text_from(library, name, *arguments):
    """Return the text that a C function of a library returns, "" where it has none such."""
    import ctypes

    function = getattr(library, name, None)
    if function is None:
        return ""
    function.restype = ctypes.c_char_p
    return (function(*arguments) or b"").decode("utf-8", "replace")


def openblas(library):
    """Ask an OpenBLAS, whose names have a prefix or a suffix where it was built for one package."""
    for prefix, suffix in itertools.product(("", "scipy_"), ("", "64_", "_64", "_64_")):
        name = prefix + "openblas_{}" + suffix
        config = text_from(library, name.format("get_config"))
        if config:
            layers = ("single-threaded", "pthreads", "openmp")
            parallel = number_from(library, name.format("get_parallel"))
            return {
                "internal_api": "openblas",
                "version": config.split()[1] if config.startswith("OpenBLAS ") else "",
                "architecture": text_from(library, name.format("get_corename")),
                "threading_layer": layers[parallel] if parallel in (0, 1, 2) else "",
                "num_threads": number_from(library, name.format("get_num_threads")),
            }
    return None


def mkl(library):
    """Ask an MKL."""
    import ctypes

    if not hasattr(library, "MKL_Get_Version_String"):
        return None
    text = ctypes.create_string_buffer(200)
    library.MKL_Get_Version_String(text, 200)
    version = re.search(r"Version (\S+)", text.value.decode("utf-8", "replace"))
    return {
        "internal_api": "mkl",
        "version": version.group(1) if version else "",
        "num_threads": number_from(library, "MKL_Get_Max_Threads"),
    }


def name_and_version(metadata):
    """Return the normalised name and the version of a METADATA file."""
    head = metadata.split("\n\n", 1)[0]
    name = re.search(r"^Name:\s*(\S+)", head, re.MULTILINE | re.IGNORECASE)
    version = re.search(r"^Version:\s*(\S+)", head, re.MULTILINE | re.IGNORECASE)
    if not (name and version):
        return "", ""
    return re.sub(r"[-_.]+", "-", name.group(1)).lower(), version.group(1)


def recorded_files(info):
    """Return the paths of a distribution's code; RECORD lists them from its own folder on."""
    site = os.path.realpath(os.path.dirname(info))
    for line in read(os.path.join(info, "RECORD")).splitlines():
        path = line.split('"')[1] if line.startswith('"') else line.split(",", 1)[0]
        if path.endswith((".py", ".pyd", ".dylib")) or ".so" in path:
            yield os.path.normpath(os.path.join(site, path))


def component_version(component):
    """Return what the measured component calls its version, "" where it was never loaded."""
    import platform

    if component == "python":
        return platform.python_version()
    return str(getattr(sys.modules.get(component), "__version__", ""))


def publish(document, path):
    """Print the document on a line of its own, after everything that was printed so far."""
    import json

    text = json.dumps(document, allow_nan=False)
    if path:
        with open(path, "w") as file:
            file.write(text + "\n")
    sys.stdout.flush()
    sys.stdout.write("\n" + text + "\n")
    sys.stdout.flush()
