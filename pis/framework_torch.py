"""What the PyTorch indicators share: device, modes, numbers, gradients, checksums, traces.

Conventions: forward passes run in inference mode. Both passes are the forward one and the gradients
of all inputs and weights that are not whole numbers; that, as a training step, is counted as three
times the work of the forward pass. Nothing is random: see ``numbers``.
"""

import atexit
import contextlib
import importlib.util
import math
import os
import shutil
import subprocess
import sysconfig
import tempfile

import harness

SLICE = 1 << 18  # elements that are made or summed up at once: little beside what is measured
PLACES = 64  # of a result, that count more: a mean of many hardly depends on their order
# What PyTorch says where it has no kernel for this type of numbers, or not on this device.
LACKING = (
    "not implemented for",
    "not supported on Python",
    "not yet supported for torch.compile",
    "to have one of the following scalar types",
    "expected scalar type BFloat16 but found Float",
    "could not create a primitive",
    "CUBLAS_STATUS_NOT_SUPPORTED",
)
UNKNOWN_HERTZ = 4e9


def start(indicator, parameters):
    """Return PyTorch as the parameters ask for it.

    Raises:
        harness.Unsupported: this version or this machine lacks what they ask for.
    """
    return Framework(indicator, parameters)


class Framework:
    """PyTorch with its threads, device, type of numbers and mode.

    torch: the module. device, dtype: what tensors are made with. gpu: whether that is a GPU.
    learns: whether gradients are wanted.
    """

    def __init__(self, indicator, parameters):
        self.mode = parameters.get("mode", "eager")
        if self.mode == "compiled":
            own_compiler_cache()
        self.torch = torch = harness.load("torch")
        self.unit, self.parameters = indicator.get("unit", ""), parameters
        torch.set_num_threads(parameters["threads"])
        if torch.get_num_interop_threads() != 1:
            torch.set_num_interop_threads(1)
        self.gpu = torch.cuda.is_available() and parameters.get("device") != "cpu"
        if parameters.get("device") == "gpu" and not self.gpu:
            raise harness.Unsupported("PyTorch sees no GPU here")
        torch.backends.cudnn.benchmark = False  # it would choose anew, by timings, in each process
        self.device = torch.device("cuda" if self.gpu else "cpu")
        self.dtype = getattr(torch, parameters.get("dtype", "float32"))
        self.learns = parameters.get("passes") == "both" or parameters.get("step") == "training"
        # Entered once and kept: entering it in every run would be a part of what is measured.
        self.inference = torch.inference_mode(not self.learns)
        self.inference.__enter__()
        if self.mode == "compiled":
            require_compiler(torch, self.gpu)
        if parameters.get("autocast", "off") != "off":
            self.require_autocast()

    def numbers(self, shape, seed=1, scale=1.0, shift=0.0, dtype=None):
        """Return numbers from -0.5 to 0.5 (then scaled and shifted), equal on every machine."""
        torch = self.torch
        count = torch.Size(shape).numel()
        flat = torch.empty(count, dtype=dtype or self.dtype, device=self.device)
        for first in range(0, count, SLICE):
            last = min(first + SLICE, count)
            flat[first:last] = self.fractions(first, last, seed) * scale + shift
        return flat.reshape(shape)

    def fractions(self, first, last, seed):
        """Return the numbers from -0.5 to 0.5 of elements ``first`` to ``last``, as float64."""
        torch = self.torch
        # Of squares: multiples of one number are too even, their sums over a filter are all zero.
        places = torch.arange(first, last, dtype=torch.int64, device=self.device)
        squares = (places + 1000003 * seed) ** 2 % 2**31
        return (squares * 2654435761 % 2**32).double() / 2**32 - 0.5

    def integers(self, shape, below, seed=1):
        """Return whole numbers from 0 on, below ``below``, equal on every machine."""
        fractions = self.fractions(0, self.torch.Size(shape).numel(), seed) + 0.5
        return (fractions * below).long().reshape(shape)

    def images(self, shape, seed=1):
        """Return numbers with batch and channels first, stored in the layout that is asked for."""
        return self.laid_out(self.numbers(shape, seed))

    def laid_out(self, images):
        """Return images, or their filters, stored in the layout that is asked for."""
        if self.parameters.get("layout", "channels_first") == "channels_first":
            return images
        formats = {4: self.torch.channels_last, 5: self.torch.channels_last_3d}
        return images.to(memory_format=formats[images.dim()])

    def bytes_of(self, elements):
        """Return the bytes that so many elements take."""
        return elements * self.torch.empty(0, dtype=self.dtype).element_size()

    def operation(self, compute, inputs, work=None, items=None, facts=None):
        """Return the operation that computes something of tensors in the mode that is asked for.

        compute: a function or a module of the inputs; the first tensor that it returns counts.
        work: where the indicator declares no formula of it.
        """
        forward = self.prepared(compute, inputs)
        last = [None]

        def run():
            last[0] = forward(*inputs)

        def checksum():
            return self.digest(leading(last[0]))

        if self.learns:
            run, checksum = self.with_gradients(compute, forward, inputs)
        self.attempt(run)
        return self.measured(run, checksum, work, items, facts)

    def model(self, network, given, answers, macs, facts=None):
        """Return the operation of a model: inference, or a step of training it.

        given, answers: a batch, and the number of the right class for each (row of the) output.
        macs: multiplications with additions for one sample; one of them is two FLOP.
        facts: more of them, by name.
        """
        network = self.weighed(network)
        items = given.shape[0]
        parameters = sum(each.numel() for each in network.parameters())
        facts = dict({"parameters": parameters, "macs": macs}, **(facts or {}))
        if not self.learns:
            return self.operation(network.eval(), [given], 2 * macs * items, items, facts)
        run, checksum = self.training(network.train(), given, answers)
        self.attempt(run)
        return self.measured(run, checksum, harness.BOTH * 2 * macs * items, items, facts)

    def training(self, network, given, answers):
        """Return a step of plain gradient descent, and the loss of the first one."""
        torch = self.torch
        forward = self.prepared(network, [given])
        optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
        losses = []

        def run():
            optimizer.zero_grad()
            scores = forward(given)
            scores = (scores if scores.dtype == torch.float64 else scores.float()).flatten(0, -2)
            loss = torch.nn.functional.cross_entropy(scores, answers)
            loss.backward()
            optimizer.step()
            losses[1:] = [loss.detach()]  # the first one is kept, and the last one

        def checksum():
            harness.finite(losses[-1].item())
            return losses[0].item()

        return run, checksum

    def measured(self, run, checksum, work=None, items=None, facts=None):
        """Return the harness's operation, with what this device adds to it."""
        on_gpu = {}
        if self.gpu:
            on_gpu = {"peak": self.peak(), "device_memory": self.torch.cuda.max_memory_allocated}
        return harness.Operation(
            run,
            wait=self.torch.cuda.synchronize if self.gpu else None,
            work=work,
            checksum=checksum,
            items=items,
            facts=dict(self.facts(), **(facts or {})),
            gpu=self.gpu,
            trace=lambda folder: self.trace(run, folder),
            **on_gpu,
        )

    def prepared(self, compute, inputs):
        """Return what computes in the mode that is asked for, with autocast where it is."""
        torch, call = self.torch, compute
        if self.mode == "graph":
            with self.casting():
                call = self.attempt(torch.jit.trace, compute, tuple(inputs), check_trace=False)
        elif self.mode == "compiled":
            # One graph or none: parts of it that stay eager would be measured as if compiled.
            call = self.attempt(torch.compile, compute, fullgraph=True, dynamic=False)
        if self.parameters.get("autocast", "off") == "off":
            return call

        def cast(*given):
            with self.casting():
                return call(*given)

        return cast

    def casting(self):
        """Return the context in which PyTorch casts as ``autocast`` says."""
        wanted = self.parameters.get("autocast", "off")
        if wanted == "off":
            return contextlib.nullcontext()
        # What is cast once and kept for later cannot be part of a graph.
        keep, dtype = self.mode != "graph", getattr(self.torch, wanted)
        return self.torch.autocast(self.device.type, dtype=dtype, cache_enabled=keep)

    def require_autocast(self):
        """Refuse a type that PyTorch does not cast to on this device."""
        wanted, square = self.parameters["autocast"], self.torch.ones(2, 2, device=self.device)
        try:
            with self.casting():
                found = str((square @ square).dtype)
        except RuntimeError as error:
            found = str(error)
        if found != "torch." + wanted:
            message = "PyTorch {} does not cast to {} on a {}: {}"
            version, place = self.torch.__version__, self.device.type
            raise harness.Unsupported(message.format(version, wanted, place, found))

    def with_gradients(self, compute, forward, inputs):
        """Return a run of both passes and its checksum."""
        torch = self.torch
        wanted = [each.requires_grad_() for each in inputs if each.is_floating_point()]
        wanted += compute.parameters() if isinstance(compute, torch.nn.Module) else []
        last, direction = [None, ()], []

        def run():
            result = leading(forward(*inputs))
            if not direction:  # not of ones: to softmax and the norms, these give no gradient
                made = self.numbers(result.shape, 99, dtype=result.dtype)
                direction.append(torch.empty_like(result).copy_(made).detach())
            last[0], last[1] = result, torch.autograd.grad(result, wanted, direction[0])

        def checksum():
            return self.digest(last[0]) + sum(map(self.digest, last[1]))

        return run, checksum

    def attempt(self, run, *given, **options):
        """Run for the first time; what PyTorch lacks is unsupported."""
        try:
            return run(*given, **options)
        except (RuntimeError, NotImplementedError) as error:
            first = str(error).strip().split("\n")[0]
            if type(error).__name__ == "Unsupported":  # of torch._dynamo
                raise harness.Unsupported("torch.compile makes no whole graph of it: " + first)
            if any(words in str(error) for words in LACKING):
                raise harness.Unsupported(first)
            raise

    def digest(self, tensor):
        """Return one number that depends on every element, its sign and its place."""
        flat, total = tensor.detach().reshape(-1), 0.0
        for first in range(0, flat.numel(), SLICE):
            values = flat[first : first + SLICE].double()
            weights = self.fractions(first, first + values.numel(), 7) + 1
            total += ((0.75 * values.abs() + 0.25 * values) * weights).sum().item()
        few = flat[((self.fractions(0, PLACES, 11) + 0.5) * flat.numel()).long()].double()
        return total / flat.numel() + (0.75 * few.abs() + 0.25 * few).mean().item()

    def weighed(self, network):
        """Return a network on its device, with weights that are the same on every machine.

        Even from minus to plus sqrt(6 / inputs), as He et al. 2015; a norm's scale stays 1.
        """
        network = network.to(device=self.device, dtype=self.dtype)
        with self.torch.no_grad():
            for seed, (name, weights) in enumerate(network.named_parameters(), 1):
                if weights.dim() > 1:
                    inputs = weights.numel() // weights.shape[0]
                    weights.copy_(self.numbers(weights.shape, seed, 2 * math.sqrt(6.0 / inputs)))
                elif "bias" in name:
                    weights.copy_(self.numbers(weights.shape, seed, 0.2))
        if self.parameters.get("layout") == "channels_last":
            network = network.to(memory_format=self.torch.channels_last)
        return network

    def trace(self, run, folder):
        """Write one run as Chrome and TensorBoard show it."""
        profiler = self.torch.profiler
        activities = [profiler.ProfilerActivity.CPU]
        if self.gpu:
            activities.append(profiler.ProfilerActivity.CUDA)
        with profiler.profile(activities=activities) as seen:
            run()
            if self.gpu:
                self.torch.cuda.synchronize()
        seen.export_chrome_trace(os.path.join(folder, "torch.pt.trace.json"))

    def facts(self):
        """Return what of PyTorch's settings can change a timing."""
        backends = self.torch.backends
        if not self.gpu:
            return {"device": "cpu"}
        return {
            "device": self.torch.cuda.get_device_name(),
            "cuda": str(self.torch.version.cuda or self.torch.version.hip),
            "cudnn": backends.cudnn.version(),
            "cudnn benchmark": backends.cudnn.benchmark,
            "cudnn tf32": backends.cudnn.allow_tf32,
            "matmul tf32": backends.cuda.matmul.allow_tf32,
        }

    def peak(self):
        """Return the most FLOP or bytes per second that this GPU can do, None where unknown."""
        seen = self.torch.cuda.get_device_properties(self.device)
        family = None if self.torch.version.hip else seen.major
        numbers, count = harness.precision(self.parameters), seen.multi_processor_count
        return harness.gpu_peak(self.unit, numbers, count, highest_hertz(), family)


def highest_hertz():
    """Return the highest clock of the first GPU, or one that no GPU reaches."""
    first = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0] or "0"
    query = ["--query-gpu=clocks.max.sm", "--format=csv,noheader,nounits"]
    try:
        command = ["nvidia-smi", "-i", first] + query
        said = subprocess.check_output(command, stderr=subprocess.DEVNULL, timeout=20)
        return float(said.decode().split()[0]) * 1e6
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return UNKNOWN_HERTZ


def temporary_folder():
    """Return a new folder that goes when this process ends."""
    folder = tempfile.mkdtemp(prefix="stackgen-torch-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def own_compiler_cache():
    """Let compilers begin anew: what an earlier process compiled is not to be found by this one."""
    folder = temporary_folder()
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(folder, "inductor")
    os.environ["TRITON_CACHE_DIR"] = os.path.join(folder, "triton")
    # More would live on beside the samples, as processes.
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"


def require_compiler(torch, gpu):
    """Refuse mode=compiled where torch.compile cannot work."""
    needs = "torch.compile needs {}, and there is none here"
    compiler = os.environ.get("CC", "gcc") if gpu else os.environ.get("CXX", "g++")
    if not hasattr(torch, "compile"):
        reason = "PyTorch {} has no torch.compile, it came with 2.0".format(torch.__version__)
    elif gpu and importlib.util.find_spec("triton") is None:
        reason = needs.format("Triton")
    elif not shutil.which(compiler):
        reason = needs.format("a compiler ({})".format(compiler))
    elif not os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")):
        reason = needs.format("Python.h of this Python")
    else:
        return
    raise harness.Unsupported(reason)


def leading(result):
    """Return the first tensor of what an operation returned."""
    return result[0] if isinstance(result, (tuple, list)) else result


def same_padding(kernel):
    """Return the zeros on each side that give a result for every place (for stride 1)."""
    if kernel % 2 == 0:
        raise harness.Unsupported("a kernel of {} has no middle: give an odd one".format(kernel))
    return kernel // 2


def same_outputs(size, stride):
    """Return how many results an axis has under ``same_padding``."""
    return (size - 1) // stride + 1
