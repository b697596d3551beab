"""S3 as moto's server plays it, over HTTP, as every S3 client of the project finds S3."""

import logging
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import boto3
import pytest


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    """Yield the URL of a server that plays S3."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def s3(s3_endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a fresh bucket; boto3 finds it by the environment."""
    environment = {
        "AWS_ENDPOINT_URL_S3": s3_endpoint,
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_CONFIG_FILE": str(tmp_path / "no-config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "no-credentials"),
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    bucket = f"runs-{uuid4().hex[:12]}"
    boto3.client("s3").create_bucket(Bucket=bucket)
    return bucket


@pytest.fixture(params=["folder", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return where sites meet: a folder, and then S3."""
    if request.param == "s3":
        return f"s3://{request.getfixturevalue('s3')}/lab/runs"
    folder = tmp_path / "prefix"
    folder.mkdir()
    return str(folder)
