"""EC2 as a provider of machines (`profilers.renting.provider`): one region of it.

A launch is asked for once, with its client token: whoever asks again does so by the same token.
Everything else is asked for as often as botocore thinks right.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from botocore import exceptions

from profilers.clusters.fleet import Launch
from profilers.prices.aws import client, explain_errors, list_pages
from profilers.renting import requests
from profilers.renting.book import LaunchIntent
from profilers.renting.provider import InstanceStatus, NoCapacity, OutcomeUnknown
from profilers.renting.requests import HOME_TAG, TAG
from warehouse.records import BadInput, ProbeFailed

_ALIVE = ("pending", "running", "stopping", "stopped")
_CAPACITY = {
    "InstanceLimitExceeded",
    "InsufficientCapacity",
    "InsufficientFreeAddressesInSubnet",
    "InsufficientHostCapacity",
    "InsufficientInstanceCapacity",
    "InsufficientReservedInstanceCapacity",
    "MaxSpotInstanceCountExceeded",
    "SpotMaxPriceTooLow",
    "Unsupported",
    "VcpuLimitExceeded",
}
_UNSURE = {
    "IdempotentParameterMismatch",
    "InternalError",
    "InternalFailure",
    "RequestTimeout",
    "ServiceUnavailable",
    "Unavailable",
}
_THROTTLED = {"RequestLimitExceeded", "Throttling", "ThrottlingException"}
_GONE = "InvalidInstanceID.NotFound"
_NOT_SENT = (
    exceptions.ConnectTimeoutError,
    exceptions.EndpointConnectionError,
    exceptions.ProxyConnectionError,
)
_THROTTLED_ATTEMPTS, _THROTTLED_PAUSE_S = 5, 1.0
_AT_ONCE = 100
"""Ids of one request; AWS takes 200 in a filter."""


@dataclass
class Ec2:
    """One region of EC2.

    Attributes:
        region: its name.
        how: what the fleet file says of launches; only launches need it.
        pause: waits so many seconds.
    """

    region: str
    how: Launch | None = None
    pause: Callable[[float], None] = time.sleep
    _answered_at: datetime | None = field(default=None, init=False, repr=False)

    @cached_property
    def _client(self) -> Any:
        made = client("ec2", self.region)
        self.watch_time(made)
        return made

    @cached_property
    def _launching(self) -> Any:
        """Asks once: what was lost between two attempts of botocore's nobody would be told of."""
        return client("ec2", self.region, attempts=1)

    def launch(self, intent: LaunchIntent, owner_token: str) -> Sequence[str]:
        """Launch what an intent says; see `Provider.launch`."""
        if self.how is None:
            raise ProbeFailed(f"{self._where}: nothing says how instances are launched")
        request = requests.launch(self.how, intent, owner_token)
        for attempt in range(_THROTTLED_ATTEMPTS):
            if attempt:
                self.pause(_THROTTLED_PAUSE_S * 2**attempt)
            try:
                with self._in_words():
                    return self._launched(request)
            except _Throttled as error:
                throttled = error
        raise ProbeFailed(f"{throttled}, {_THROTTLED_ATTEMPTS} times; try again later")

    def find(self, token: str) -> Sequence[str]:
        """Return the ids that a client token launched; see `Provider.find`."""
        return [instance["InstanceId"] for instance in self._described(("client-token", [token]))]

    def seen(self, ids: Collection[str]) -> Mapping[str, InstanceStatus]:
        """Return the instances of these ids that EC2 knows; see `Provider.seen`."""
        found = {}
        for some in _parts(ids):
            for instance in self._described(("instance-id", some)):
                found[str(instance["InstanceId"])] = requests.instance_status(
                    instance, self._answered_at
                )
        return found

    def terminate(self, ids: Collection[str]) -> None:
        """Ask EC2 to end instances; see `Provider.terminate`. One bad id keeps no other from it."""
        failed = [said for some in _parts(ids) for said in self._not_terminated(some)]
        if failed:
            raise ProbeFailed("; ".join(failed))

    def tagged(self, home_token: str) -> Mapping[str, str]:
        """Return a home's living instances by id, with the owner that their tags name.

        Raises:
            ProbeFailed: there was no answer.
        """
        ours = (f"tag:{HOME_TAG}", [home_token]), ("instance-state-name", list(_ALIVE))
        return {
            str(instance["InstanceId"]): next(
                (tag["Value"] for tag in instance.get("Tags", ()) if tag["Key"] == TAG), ""
            )
            for instance in self._described(*ours)
        }

    def console(self, id_: str) -> str:
        """Return what an instance has written to its console so far: 64 kB at most, maybe nothing.

        Raises:
            ProbeFailed: there was no answer.
        """
        with self._in_words():
            try:
                answer = self._client.get_console_output(InstanceId=id_, Latest=True)
            except exceptions.ClientError as error:
                # Types on Xen tell their console only as it was a while ago.
                if _code(error) not in ("UnsupportedOperation", "InvalidParameterCombination"):
                    raise
                answer = self._client.get_console_output(InstanceId=id_)
        return str(answer.get("Output", ""))[: requests.CONSOLE_CHARACTERS]

    def check_volumes(self, ids: Collection[str]) -> None:
        """Refuse instances whose volumes cost more than was reckoned with, or outlive them.

        Raises:
            ProbeFailed: they do, or there was no answer.
        """
        assert self.how is not None
        attached = [("attachment.instance-id", sorted(ids))]
        request = {"Filters": requests.filters(*attached)}
        with self._in_words():
            volumes = list(list_pages(self._client, "describe_volumes", "Volumes", request))
        requests.check_volumes(volumes, self.how.volume.gb)

    def watch_time(self, of: Any) -> None:
        """Note when EC2 answers what a client asks, by EC2's own clock: the one here may err."""
        of.meta.events.register("after-call.ec2.DescribeInstances", self._noted)

    def _noted(self, parsed: Mapping[str, Any], **_: object) -> None:
        headers = parsed.get("ResponseMetadata", {}).get("HTTPHeaders", {})
        self._answered_at = requests.answered_at(headers.get("date", ""))

    def _launched(self, request: Mapping[str, Any]) -> Sequence[str]:
        try:
            answer = self._launching.run_instances(**request)
        except exceptions.ClientError as error:
            raise self._refusal(error) from None
        except _NOT_SENT as error:
            raise ProbeFailed(f"{self._where} cannot be reached: {error}") from None
        except (exceptions.ConnectionError, exceptions.HTTPClientError, ProbeFailed) as error:
            raise OutcomeUnknown(f"{self._where}: no answer to a launch: {error}") from None
        return [str(instance["InstanceId"]) for instance in answer["Instances"]]

    def _refusal(self, error: exceptions.ClientError) -> Exception:
        code, told = _code(error), str(error.response["Error"].get("Message", ""))[:300]
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 400)
        said = f"{self._where}: {code}: {told}"
        if code in _CAPACITY:
            return NoCapacity(code, said)
        if code in _THROTTLED:
            return _Throttled(said)
        if code in _UNSURE or status >= 500:
            return OutcomeUnknown(said)
        refused: Exception = error
        return refused

    def _not_terminated(self, ids: Sequence[str]) -> list[str]:
        """End what can be ended, one by one if need be; return what was said of the others."""
        try:
            with self._in_words():
                self._client.terminate_instances(InstanceIds=list(ids))
        except ProbeFailed as error:
            if len(ids) > 1:
                return [said for id_ in ids for said in self._not_terminated([id_])]
            # What is not known now may have just been launched: `seen` tells.
            return [] if _GONE in str(error) else [f"{ids[0]}: {error}"]
        return []

    def _described(self, *wanted: tuple[str, Sequence[str]]) -> Iterator[Mapping[str, Any]]:
        request = {"Filters": requests.filters(*wanted)}
        with self._in_words():
            for group in list_pages(self._client, "describe_instances", "Reservations", request):
                yield from group["Instances"]

    @property
    def _where(self) -> str:
        return f"EC2 in {self.region}"

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        """Say in one line what goes wrong; credentials are looked for again the next time."""
        try:
            with explain_errors(self._where):
                yield
        except BadInput as error:
            for name in ("_client", "_launching"):
                self.__dict__.pop(name, None)
            raise ProbeFailed(str(error)) from None


class _Throttled(ProbeFailed):
    """The request was not looked at."""


def _code(error: exceptions.ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _parts(ids: Iterable[str]) -> Iterator[list[str]]:
    listed = sorted(ids)
    for first in range(0, len(listed), _AT_ONCE):
        yield listed[first : first + _AT_ONCE]
