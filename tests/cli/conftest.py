# SPDX-License-Identifier: Apache-2.0
import os

import numpy as np
import pytest

import support


def pytest_configure(config):
    if not support.PROGRAM or not os.access(support.PROGRAM, os.X_OK):
        raise pytest.UsageError("set the environment variable CLATTN to the program: CLATTN=build/clattn pytest tests/cli")
    support.PROGRAM = os.path.abspath(support.PROGRAM)


@pytest.fixture
def rng(request):
    """Random numbers that depend on the test's name only."""
    return np.random.default_rng(list(request.node.name.encode()))


@pytest.fixture(scope="session")
def has_fp64():
    import json

    rows = json.loads(support.succeed("devices", "--json").stdout)["devices"]
    return next(row for row in rows if row["selected"])["fp64"]
