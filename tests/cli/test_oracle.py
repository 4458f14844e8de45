# SPDX-License-Identifier: Apache-2.0
"""The oracle itself, where it has published or computable answers."""
import numpy as np

import floats
import oracle


def test_philox_gives_the_published_words():
    """Random123's known answers for philox4x32-10."""
    for key, counter, words in [
        ((0, 0), (0, 0, 0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 4, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        ((0xA4093822, 0x299F31D0), (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
         (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
    ]:
        assert tuple(int(word) for word in oracle.philox(key, counter)) == words
    many = oracle.philox((1, 2), (np.arange(5), 3, np.arange(2)[:, None], 0))
    one = oracle.philox((1, 2), (4, 3, 1, 0))
    assert [word[1, 4] for word in many] == [word[()] for word in one]


def test_dropout_keeps_its_share():
    keep = oracle.kept((8, 8, 64, 64), 0.3, 1)
    assert abs(keep.mean() - 0.7) < 5 * np.sqrt(0.3 * 0.7 / keep.size)
    assert oracle.kept((1, 1, 9, 9), 0.0, 1).all() and not np.array_equal(keep, oracle.kept((8, 8, 64, 64), 0.3, 2))


def test_bfloat16():
    for x, bits in [(1.0, 0x3F80), (1 + 2.0**-8, 0x3F80), (1 + 3 * 2.0**-8, 0x3F82), (1 + 2.0**-8 + 2.0**-20, 0x3F81),
                    (3.4e38, 0x7F80), (-3.38e38, 0xFF7E), (np.inf, 0x7F80), (2.0**-133, 0x0001), (2.0**-134, 0x0000), (-0.0, 0x8000)]:
        assert floats.bfloat16_bits(np.float32(x)) == bits, x
    assert np.isnan(floats.decode(floats.bfloat16_bits(np.float32(np.nan)), "bf16"))
    patterns = np.arange(65536, dtype=np.uint16)
    back = floats.encode(floats.decode(patterns, "bf16"), "bf16")
    numbers = ~np.isnan(floats.decode(patterns, "bf16"))
    np.testing.assert_array_equal(back[numbers], patterns[numbers])
