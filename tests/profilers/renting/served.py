"""The stand-in EC2 at a port of this host, for processes and for tests."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import pytest
from moto.server import ThreadedMotoServer

from profilers.prices.aws import client
from tests import aws
from tests.profilers.renting.cloud import Cloud


@contextmanager
def serve() -> Iterator[tuple[Cloud, dict[str, str]]]:
    """Yield a cloud, and the environment in which boto3 finds it."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    cloud = Cloud(moto.get_host_and_port())
    try:
        with aws.serve(cloud.answer) as environment:
            yield cloud, environment
    finally:
        moto.stop()


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Cloud, dict[str, str]]]:
    """A cloud for the tests of a module; botocore asks it again without pauses, by one client."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("botocore.endpoint.time.sleep", lambda _: None)
        one = cache(client)
        for module in ("profilers.prices.aws", "profilers.renting.aws"):
            patch.setattr(f"{module}.client", one)
        with serve() as (cloud, environment):
            for name, value in environment.items():
                patch.setenv(name, value)
            yield cloud, environment


@pytest.fixture
def cloud(served: tuple[Cloud, dict[str, str]]) -> Iterator[Cloud]:
    """A cloud in which nothing lives, nothing goes wrong and all is to be had."""
    shared = served[0]
    shared.faults, shared.full, shared.asked = [], set(), []
    if left := shared.alive():
        shared.direct.terminate_instances(InstanceIds=list(left))
    yield shared
