"""What goes into which layer of an image, and in which order."""

from stackgen.layers.image import (
    LAYOUT,
    STACK_LABEL,
    STACK_PYTHON,
    BaseImage,
    OwnLayer,
    chain_ids,
    image_config,
    image_tag,
    load_manifest,
)
from stackgen.layers.plan import MAX_LAYERS, Compiler, Layer, layer_order, layer_plan

__all__ = [
    "LAYOUT",
    "MAX_LAYERS",
    "STACK_LABEL",
    "STACK_PYTHON",
    "BaseImage",
    "Compiler",
    "Layer",
    "OwnLayer",
    "chain_ids",
    "image_config",
    "image_tag",
    "layer_order",
    "layer_plan",
    "load_manifest",
]
