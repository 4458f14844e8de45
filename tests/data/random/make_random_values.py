#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What clattn_parameters_random must draw, computed from the paper alone.

    python3 -m venv venv && venv/bin/pip install numpy
    venv/bin/python make_random_values.py OUT

Philox4x32-10 is written here from Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011, and
checked against the known answers that Random123 1.14 ships (tests/kat_vectors). The mapping is the one that
src/layer/random.c documents: element e of weight w is word e % 4 of counter (e/4, 0, w, 0) with the seed as key,
u = (word >> 8) / 2^24, value = (2u - 1) * gain * sqrt(6 / (fan_in + fan_out)), rounded to float32.

Writes OUT/wq.npy, wk.npy, wv.npy, wo.npy for E = 6, H = 2, D = 4, Dv = 5, Ek = 7, Ev = 3, Eo = 9,
seed 0x0123456789abcdef, gains 1/sqrt(2), 1/sqrt(2), 1, 0.5.
"""
import os
import sys

import numpy as np

MASK = 0xFFFFFFFF


def philox4x32_10(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & MASK, (a >> 32) ^ c[3] ^ k[1], a & MASK]
        k = [(k[0] + 0x9E3779B9) & MASK, (k[1] + 0xBB67AE85) & MASK]
    return c


assert philox4x32_10([0] * 4, [0] * 2) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
assert philox4x32_10([MASK] * 4, [MASK] * 2) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]
assert philox4x32_10([0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344], [0xA4093822, 0x299F31D0]) == [
    0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]

SEED = 0x0123456789ABCDEF
KEY = [SEED & MASK, SEED >> 32]
SHAPES = [(2 * 4, 6), (2 * 4, 7), (2 * 5, 3), (9, 2 * 5)]
GAINS = [0.5**0.5, 0.5**0.5, 1.0, 0.5]

for weight, (name, shape, gain) in enumerate(zip(["wq", "wk", "wv", "wo"], SHAPES, GAINS)):
    bound = gain * np.sqrt(6.0 / (shape[0] + shape[1]))
    words = [philox4x32_10([e // 4, 0, weight, 0], KEY)[e % 4] for e in range(shape[0] * shape[1])]
    u = (np.array(words, np.uint64) >> np.uint64(8)).astype(np.float64) / 2**24
    np.save(os.path.join(sys.argv[1], name + ".npy"), ((2 * u - 1) * bound).astype(np.float32).reshape(shape))
