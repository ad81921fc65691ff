"""Run one performance indicator and print what was measured as one line of JSON.

An indicator is a script that declares ``INDICATOR``, writes ``setup(parameters)`` and ends with
``harness.main(INDICATOR, setup)``. The clock, the warm-up, the repetition and the output are here,
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

import argparse
import gc
import glob
import importlib
import itertools
import json
import math
import platform
import re
import statistics
import subprocess
import time
import traceback

try:
    import resource
except ImportError:  # Windows
    resource = None

SCHEMA = 1
WRONG_USAGE = 64
WARM_UP_CALLS, WARM_UP_S = 3, 0.1
SAMPLE_S = (0.001, 0.002, 0.003)  # a sample takes at least, about, and at most so long
STEADY_WITHIN, EXTENSIONS = 0.02, 3
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
}
# How far checksums of one operation may be apart, as a ratio, where INDICATOR gives no "tolerance".
TOLERANCES = {"float64": 1e-9, "float32": 1e-4, "float16": 1e-2, "bfloat16": 3e-2}
RECORDED_VARIABLES = THREAD_VARIABLES + ("PYTHONHASHSEED", "GLIBC_TUNABLES", "LD_PRELOAD")


class Unsupported(Exception):
    """What was asked for does not exist in this version, or on this machine."""


class ImportFailed(Exception):
    """The framework cannot be imported; the traceback is the message."""


class Impossible(Exception):
    """What was measured is faster than this device can be: the measurement is wrong."""


class Operation:
    """What is measured.

    run: does the operation once.
    wait: returns when everything that ``run`` started is done; it is part of every sample, so
        that a launch alone cannot be timed. None where ``run`` returns only when it is done.
    work: FLOP or bytes of one run (``INDICATOR["unit"]`` says which), or None.
    checksum: returns a number that depends on the whole result, the same in every process however
        often ``run`` was called before (of training: the loss of the first step), or None.
    items: samples (images, sentences) that one run processes, or None.
    facts: further numbers by name that belong to the result (``parameters``, ``macs``).
    peak: the most FLOP or bytes per second that the device can do; None for that of the CPUs.
    device_memory: returns the most bytes that were in use on the device, or None.
    gpu: whether it runs on a GPU.
    trace: writes one profiler trace into a folder, or None.
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
        self.run = run
        self.wait = wait or (lambda: None)
        self.work = work
        self.checksum = checksum or (lambda: None)
        self.items = items
        self.facts = facts or {}
        self.peak = peak
        self.device_memory = device_memory
        self.gpu = gpu
        self.trace = trace
        self.figure = figure


def load(name):
    """Import a framework, within ``setup`` or as the operation itself."""
    try:
        return importlib.import_module(name)
    except MemoryError:
        raise
    except (Exception, SystemExit):  # packages fail to import in every way there is
        raise ImportFailed(traceback.format_exc())


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
    except Impossible as error:
        document.update(outcome="invalid_output", reason=str(error))
    document["loaded"] = loaded_distributions()
    document["component_version"] = component_version(indicator["component"])
    publish(document, options.output)


class Parser(argparse.ArgumentParser):
    """Refuses in one sentence."""

    def error(self, message):
        sys.stderr.write("{}: {} (--help shows what it takes)\n".format(self.prog, message))
        raise SystemExit(WRONG_USAGE)


def positive(kind):
    """Return a reader of numbers above zero."""

    def read(text):
        value = kind(text)
        if not 0 < value < math.inf:
            raise argparse.ArgumentTypeError("{} is not above zero".format(text))
        return value

    read.__name__ = "positive " + kind.__name__
    return read


def threads_or_auto(text):
    """Read a number of threads; by default all CPUs that we may use but one."""
    if text != "auto":
        return positive(int)(text)
    return max(1, len(usable_cpus()) - 1)


threads_or_auto.__name__ = "number of threads"


def read_arguments(indicator, arguments):
    """Return the harness's options and the indicator's parameters (with ``threads``)."""
    parser = Parser(description=indicator["summary"], allow_abbrev=False)
    readers = {"int": positive(int), "float": positive(float), "str": str}
    takes = parameters_of(indicator)
    for name, declared in takes.items():
        read = readers[declared["type"]]
        parser.add_argument(
            "--" + name,
            type=read,
            default=declared["default"],
            choices=declared.get("allowed"),
            help="{} (default: {})".format(declared.get("help", ""), declared["default"]),
        )
    parser.add_argument("--threads", type=threads_or_auto, default="auto", help="default: auto")
    parser.add_argument("--samples", type=positive(int), default=30, help="how many to keep")
    parser.add_argument("--loops", type=positive(int), help="operations per sample")
    parser.add_argument("--output", help="write the document into this file, too")
    parser.add_argument("--trace", help="keep one profiler trace in this folder")
    options = parser.parse_args(arguments)
    names = list(takes) + ["threads"]
    return options, {name: getattr(options, name) for name in names}


def parameters_of(indicator):
    """Return what an indicator takes: its own parameters, and those of COMMON that it names."""
    takes = dict(indicator.get("parameters", {}))
    for name, default in indicator.get("common", {}).items():
        takes[name] = dict(COMMON[name], default=default)
    return takes


def sample(operation, loops):
    """Return the seconds per operation of so many operations in a row."""
    run, wait = operation.run, operation.wait
    start = time.perf_counter()
    for _ in itertools.repeat(None, loops):
        run()
    wait()
    return (time.perf_counter() - start) / loops


def measure(indicator, setup, options, parameters):
    """Return the measured part of the document."""
    operation = setup(parameters)
    gc.collect()
    gc.disable()  # a collection in the middle of a sample is nobody's speed
    loops, steady = 1, True
    if not indicator.get("one_shot"):
        warm_up(operation)
        loops = options.loops or (1 if indicator.get("latency") else calibrate(operation))
        steady = settle(operation, loops)
    samples = 1 if indicator.get("one_shot") else options.samples
    states = [gpu_state()] if operation.gpu else []
    before = counters()
    values = [valued(operation, indicator, sample(operation, loops)) for _ in range(samples)]
    after = counters()
    states += [gpu_state()] if operation.gpu else []
    gc.enable()
    refuse_impossible(indicator, operation, values)
    found = {
        "values_s": values,
        "loops": loops,
        "work": operation.work,
        "steady": steady,
        "checksum": finite(operation.checksum()),
        "peak_memory_bytes": peak_memory_bytes(),
        "circumstances": dict(circumstances(before, after), **facts(operation, states)),
    }
    found["circumstances"]["checksum_tolerance"] = tolerance(indicator, parameters)
    if options.trace:
        keep_trace(operation, options.trace)
    return found


def tolerance(indicator, parameters):
    """Return how far the checksums of two stacks may be apart, as a ratio, and still be equal."""
    if "tolerance" in indicator:
        return indicator["tolerance"]
    autocast = parameters.get("autocast", "off")
    return TOLERANCES[parameters.get("dtype", "float64") if autocast == "off" else autocast]


def valued(operation, indicator, seconds):
    """Return what a sample was worth, lower being better: its time, or a figure of its own."""
    if operation.figure is None:
        return seconds
    figure = float(operation.figure())
    if not 0 < figure < math.inf:
        raise ValueError("a figure must be above zero, not {!r}".format(figure))
    return 1 / figure if indicator.get("better") == "higher" else figure


def refuse_impossible(indicator, operation, values):
    """Refuse a rate above what the device can do: something was not waited for, or miscounted."""
    if not operation.work or operation.figure is not None:
        return
    peak = operation.peak or cpu_peak(indicator.get("unit"))
    rate = operation.work / min(values)
    if rate > peak:
        message = "{:.3g} {}/s is more than this device can do ({:.3g} at most)"
        raise Impossible(message.format(rate, indicator.get("unit"), peak))


def cpu_peak(unit):
    """Return what no CPU of our days exceeds: FLOP/s, or bytes/s from its nearest cache.

    Two multiply-adds of 512 bits a cycle are 64 FLOP in float32, matrix units (AMX) do 2,048 in
    bfloat16; two loads and a store of 64 bytes a cycle are 192 bytes.
    """
    cycles = 6e9 * len(usable_cpus())
    return cycles * (2048 if unit == "FLOP" else 192)


def keep_trace(operation, folder):
    """Write one trace, after all samples were taken."""
    if operation.trace is None:
        raise Unsupported("this indicator keeps no trace")
    os.makedirs(folder, exist_ok=True)
    operation.trace(folder)


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
    return found


def gpu_state():
    """Return clocks (MHz), temperature (C), power (W), use (%) and throttling of the first GPU."""
    query = (
        "clocks.sm,clocks.mem,temperature.gpu,power.draw,utilization.gpu,memory.used,"
        "clocks_throttle_reasons.active"
    )
    first = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0] or "0"
    command = ["nvidia-smi", "-i", first, "--query-gpu=" + query, "--format=csv,noheader,nounits"]
    try:
        said = subprocess.check_output(command, stderr=subprocess.DEVNULL, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return {}
    cells = [cell.strip() for cell in said.decode("utf-8", "replace").split("\n")[0].split(",")]
    return dict(zip(query.split(","), cells)) if len(cells) == len(query.split(",")) else {}


def warm_up(operation):
    """Run at least three times and for at least 100 ms."""
    start, calls = time.perf_counter(), 0
    while calls < WARM_UP_CALLS or time.perf_counter() - start < WARM_UP_S:
        sample(operation, 1)
        calls += 1


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
    for _ in range(1 + EXTENSIONS):
        start, values = time.perf_counter(), []
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
        raise ValueError("the operation's result is wrong: its checksum is {}".format(checksum))
    return checksum


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
    found["wall_s"] = time.perf_counter()
    return found


def throttling():
    """Return how often and how long a CPU quota stopped this control group."""
    groups = dict(line.split(":", 2)[1:] for line in read("/proc/self/cgroup").splitlines())
    places = [
        "/sys/fs/cgroup" + groups.get("", "") + "/cpu.stat",
        "/sys/fs/cgroup/cpu" + groups.get("cpu,cpuacct", groups.get("cpu", "")) + "/cpu.stat",
        "/sys/fs/cgroup/cpu/cpu.stat",
        "/sys/fs/cgroup/cpu.stat",
    ]
    text = next(filter(None, map(read, places)), "")
    rows = dict(line.split() for line in text.splitlines())
    found = {}
    if "nr_throttled" in rows:
        found["throttled_times"] = int(rows["nr_throttled"])
        micro, nano = int(rows.get("throttled_usec", 0)), int(rows.get("throttled_time", 0))
        found["throttled_s"] = micro / 1e6 + nano / 1e9
    return found


def usable_cpus():
    """Return the numbers of the CPUs that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def cpu_mhz():
    """Return the mean frequency of the CPUs at this moment, or None."""
    files = glob.glob("/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_cur_freq")
    values = [int(text) / 1000.0 for text in map(read, files) if text.strip().isdigit()]
    values = values or [
        float(mhz) for mhz in re.findall(r"cpu MHz\s*: (.*)", read("/proc/cpuinfo"))
    ]
    return round(statistics.mean(values), 1) if values else None


def circumstances(before, after):
    """Return everything around the samples that may explain a timing."""
    found = {name: round(after[name] - before[name], 6) for name in after if name in before}
    found["load"] = " ".join(read("/proc/loadavg").split()[:3])
    found["cpu_mhz"] = cpu_mhz()
    found["governor"] = read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").strip()
    found["python"] = platform.python_implementation() + " " + platform.python_version()
    found["cpus"] = ",".join(map(str, usable_cpus()))
    for name, value in os.environ.items():
        if name in RECORDED_VARIABLES or name.startswith("MALLOC_"):
            found["env " + name] = value
    found.setdefault("env PYTHONHASHSEED", "random")
    return {name: value for name, value in found.items() if value not in (None, "")}


def peak_memory_bytes():
    """Return the most memory that was resident, or None."""
    # Not getrusage first: what it says includes the parent's size at the time of the fork.
    peak = re.search(r"VmHWM:\s*(\d+) kB", read("/proc/self/status"))
    if peak:
        return int(peak.group(1)) * 1024
    if not resource:
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def loaded_distributions():
    """Return name, version and ``compiled`` of each distribution that this process has loaded."""
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
    if component == "python":
        return platform.python_version()
    return str(getattr(sys.modules.get(component), "__version__", ""))


def publish(document, path):
    """Print the document on a line of its own, after everything that was printed so far."""
    text = json.dumps(document, allow_nan=False)
    if path:
        with open(path, "w") as file:
            file.write(text + "\n")
    sys.stdout.flush()
    sys.stdout.write("\n" + text + "\n")
    sys.stdout.flush()
