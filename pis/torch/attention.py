"""Attention of several heads with PyTorch: softmax(q k / sqrt(d)) v."""

# /// script
# requires-python = ">=3.7"
# dependencies = ["torch"]
# ///

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import framework_torch as framework
import harness

INDICATOR = {
    "summary": "Scaled dot-product attention",
    "component": "torch",
    "unit": "FLOP",
    "timeout_s": 300,
    "common": {
        "dtype": "float32",
        "device": "auto",
        "mode": "eager",
        "autocast": "off",
        "passes": "forward",
        "batch": 4,
    },
    "parameters": {
        "heads": {"type": "int", "default": 8, "help": "how many are computed side by side"},
        "length": {"type": "int", "default": 256, "help": "words"},
        "width": {"type": "int", "default": 64, "help": "numbers per word and head"},
        "causal": {
            "type": "str",
            "default": "no",
            "allowed": ["no", "yes"],
            "help": "yes: no word sees those after it",
        },
    },
}


def work(batch, heads, length, width, causal):
    """Return FLOP of the two products; half of it where each word sees those before it alone."""
    return 4 * batch * heads * length**2 * width // (2 if causal else 1)


def setup(parameters):
    here = framework.start(INDICATOR, parameters)
    torch = here.torch
    batch, heads = parameters["batch"], parameters["heads"]
    length, width = parameters["length"], parameters["width"]
    causal = parameters["causal"] == "yes"
    fused = getattr(torch.nn.functional, "scaled_dot_product_attention", None)  # PyTorch 2.0

    def whole(q, k, v):
        return fused(q, k, v, is_causal=causal)

    later = None
    if causal and not fused:
        later = torch.full((length, length), float("-inf")).triu(1).to(here.device, here.dtype)

    def by_parts(q, k, v):
        scores = torch.matmul(q, k.transpose(-2, -1)) / width**0.5
        return torch.matmul(torch.softmax(scores + later if causal else scores, -1), v)

    inputs = [here.numbers((batch, heads, length, width), seed, scale=4) for seed in (1, 2, 3)]
    flop = work(batch, heads, length, width, causal)
    facts = {"attention": "scaled_dot_product_attention" if fused else "by parts"}
    return here.operation(whole if fused else by_parts, inputs, flop, facts=facts)


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
