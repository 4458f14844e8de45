# SPDX-License-Identifier: Apache-2.0
"""Storage types by the names of .npy: f2, f4, f8, and bf16, which NumPy does not have, as u2 arrays of its bits."""
import numpy as np

# Half the distance of neighbours, relative, and absolute where the numbers get subnormal.
HALF_ULP = {"f2": (2.0**-11, 2.0**-25), "bf16": (2.0**-8, 2.0**-134), "f4": (2.0**-24, 2.0**-150), "f8": (0, 0)}
DTYPE = {"f2": np.dtype("<f2"), "bf16": np.dtype("<u2"), "f4": np.dtype("<f4"), "f8": np.dtype("<f8")}


def bfloat16_bits(x):
    """The upper half of a float32, rounded to nearest even; what is too large becomes infinity by the carry, and NaN stays NaN."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    rounded = ((bits.astype(np.uint64) + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(x), ((bits >> 16) | 0x40).astype(np.uint16), rounded).reshape(np.shape(x))


def encode(x, kind):
    """Numbers as an array of a storage type holds them."""
    with np.errstate(over="ignore"):
        return bfloat16_bits(x) if kind == "bf16" else np.asarray(x).astype(DTYPE[kind])


def decode(stored, kind):
    """The numbers of a stored array, exact in float32 (float64 for f8)."""
    if kind == "bf16":
        return (np.asarray(stored).astype(np.uint32) << 16).view(np.float32)
    return np.asarray(stored).astype(np.float64 if kind == "f8" else np.float32)


def rounding(x, kind):
    """How far a number may move when it is stored."""
    relative, absolute = HALF_ULP[kind]
    return relative * np.abs(x) + absolute
