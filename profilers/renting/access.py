"""The key and the security group of a rental, where the fleet file names none: EC2's, and ours.

Both have one name, which is written down before they are asked for, and end after their nodes. So
those of a killed process are found by it.
"""

import ipaddress
import secrets
import subprocess
import time
import urllib.request
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from profilers import clock
from profilers.clusters.fleet import Launch
from profilers.renting.book import RECENT, AccessEnd, AccessIntent, Book
from warehouse.records import BadInput, ProbeFailed

TAG = "stepcast:owner"
"""Of what was made: whose process it belongs to (`profilers.clusters.owner`)."""
HOME_TAG = "stepcast:home"
"""The random number of the home it was made from: only there is it known who is dead."""
CHECK_IP = "https://checkip.amazonaws.com"
"""Answers with the address that a question comes from."""
SSH_PORT = 22
_CHECK_S, _PAUSE_S = 10.0, 5.0
_DESCRIPTION = "Nodes of one rental of Stepcast"


class AccessProvider(Protocol):
    """Where keys and security groups are made and removed, each by its name."""

    def import_key(self, name: str, public_key: str, home_token: str) -> None:
        """Make a key pair of a public key; the same name makes it once.

        Raises:
            ProbeFailed: it is refused, or there was no answer.
        """

    def make_group(self, name: str, subnet: str, caller: str, home_token: str) -> str:
        """Make a group whose members reach each other, and the caller their ssh; return its id.

        Raises:
            ProbeFailed: it is refused, or there was no answer.
        """

    def remove_access(self, name: str) -> None:
        """Remove the key and the group of a name; none is fine.

        Raises:
            ProbeFailed: nodes still have the group, it is refused, or there was no answer.
        """


class Ec2Access:
    """Keys and security groups of one region of EC2; its errors in one line."""

    region: str

    @cached_property
    def _client(self) -> Any:
        from profilers.prices.aws import client  # an extra brings boto3

        return client("ec2", self.region)

    def import_key(self, name: str, public_key: str, home_token: str) -> None:
        """Make a key pair of a public key; see `AccessProvider.import_key`."""
        with self._in_words(), _made_before("InvalidKeyPair.Duplicate"):
            self._client.import_key_pair(
                KeyName=name,
                PublicKeyMaterial=public_key.encode(),
                TagSpecifications=_tags("key-pair", name, home_token),
            )

    def make_group(self, name: str, subnet: str, caller: str, home_token: str) -> str:
        """Make a security group in the network of a subnet; see `AccessProvider.make_group`."""
        with self._in_words():
            (found,) = self._client.describe_subnets(SubnetIds=[subnet])["Subnets"]
            with _made_before("InvalidGroup.Duplicate"):
                self._client.create_security_group(
                    GroupName=name,
                    Description=_DESCRIPTION,
                    VpcId=found["VpcId"],
                    TagSpecifications=_tags("security-group", name, home_token),
                )
            group = next(self._groups(("group-name", [name])), None)
            if group is None:
                raise ProbeFailed(f"{self._where}: group {name} was made and is not known yet")
            ssh = {"IpProtocol": "tcp", "FromPort": SSH_PORT, "ToPort": SSH_PORT}
            members = [{"GroupId": group["GroupId"]}]
            with _made_before("InvalidPermission.Duplicate"):
                self._client.authorize_security_group_ingress(
                    GroupId=group["GroupId"],
                    IpPermissions=[
                        {"IpProtocol": "-1", "UserIdGroupPairs": members},
                        {**ssh, "IpRanges": [{"CidrIp": f"{caller}/32"}]},
                    ],
                )
            return str(group["GroupId"])

    def remove_access(self, name: str) -> None:
        """Remove the key and the group of a name; see `AccessProvider.remove_access`."""
        with self._in_words():
            # Only what is there and ours may be deleted (deploy/rights.yaml), so look first.
            for key in self._keys(("key-name", [name])):
                self._client.delete_key_pair(KeyName=key["KeyName"])
            for group in self._groups(("group-name", [name])):
                with _made_before("InvalidGroup.NotFound"):
                    self._client.delete_security_group(GroupId=group["GroupId"])

    def tagged_access(self, home_token: str) -> set[str]:
        """Return the names of keys and groups that a home has made.

        Raises:
            ProbeFailed: there was no answer.
        """
        ours = f"tag:{HOME_TAG}", [home_token]
        with self._in_words():
            keys = {str(key["KeyName"]) for key in self._keys(ours)}
            return keys | {str(group["GroupName"]) for group in self._groups(ours)}

    def _keys(self, *wanted: tuple[str, Sequence[str]]) -> list[Mapping[str, Any]]:
        return list(self._client.describe_key_pairs(Filters=filters(*wanted))["KeyPairs"])

    def _groups(self, *wanted: tuple[str, Sequence[str]]) -> Iterator[Mapping[str, Any]]:
        from profilers.prices.aws import list_pages

        request = {"Filters": filters(*wanted)}
        return list_pages(self._client, "describe_security_groups", "SecurityGroups", request)

    @property
    def _where(self) -> str:
        return f"EC2 in {self.region}"

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        """Say in one line what goes wrong; credentials are looked for again the next time."""
        from profilers.prices.aws import explain_errors

        try:
            with explain_errors(self._where):
                yield
        except BadInput as error:
            for name in ("_client", "_launching"):
                self.__dict__.pop(name, None)
            raise ProbeFailed(str(error)) from None


def filters(*wanted: tuple[str, Sequence[str]]) -> list[dict[str, Any]]:
    """Return filters as EC2 takes them: names, each with the values that will do."""
    return [{"Name": name, "Values": list(values)} for name, values in wanted]


@contextmanager
def _made_before(code: str) -> Iterator[None]:
    """Go on where an earlier question, whose answer was lost, has done it: EC2 then says `code`."""
    from botocore.exceptions import ClientError

    try:
        yield
    except ClientError as error:
        if error.response["Error"]["Code"] != code:
            raise


def _tags(kind: str, owner: str, home_token: str) -> list[dict[str, Any]]:
    tags = {TAG: owner, HOME_TAG: home_token, "Name": owner}
    listed = [{"Key": key, "Value": value} for key, value in tags.items()]
    return [{"ResourceType": kind, "Tags": listed}]


def open_access(
    provider: AccessProvider, book: Book, how: Launch, owner: str, home_token: str, folder: Path
) -> tuple[Launch, list[str]]:
    """Make the key and the group that a launch lacks, and return how it is done with them.

    Beside it stand the words of ssh that log in with the key, if one was made: its file this user
    alone can read. A launch template names its own.

    Args:
        provider: of the region.
        book: of the home; what is made is written down before.
        how: the launch of the fleet file.
        owner: of the cluster (`profilers.clusters.owner`), and the name of key and group.
        home_token: the home's random number.
        folder: where the private key is written.

    Raises:
        ProbeFailed: EC2 refuses, or the caller's own address is not known.
    """
    if how.launch_template is not None or (how.key_name and how.security_groups):
        return how, []
    asked = AccessIntent(token=owner, region=how.region, at=clock.now())
    book.write(asked)
    made: dict[str, Any] = {}
    words = list[str]()
    if not how.key_name:
        key_file = folder / f"key-{secrets.token_hex(4)}"
        generate = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", owner, "-f", str(key_file)]
        subprocess.run(generate, check=True, capture_output=True, timeout=60)
        provider.import_key(owner, key_file.with_suffix(".pub").read_text(), home_token)
        made["key_name"], words = owner, ["-i", str(key_file), "-o", "IdentitiesOnly=yes"]
    if not how.security_groups:
        subnet = str(next(iter(how.places.values())))
        caller = how.ssh_from or own_address()
        made["security_groups"] = (provider.make_group(owner, subnet, caller, home_token),)
    book.write(asked.model_copy(update={"is_made": True}))
    return how.model_copy(update=made), words


def own_address() -> str:
    """Return the address that this machine has on the internet.

    Raises:
        ProbeFailed: nobody says it.
    """
    try:
        with urllib.request.urlopen(CHECK_IP, timeout=_CHECK_S) as answer:
            return str(ipaddress.IPv4Address(answer.read(100).decode("ascii").strip()))
    except (OSError, ValueError) as error:
        raise ProbeFailed(
            f"{CHECK_IP} does not say from which address this machine connects ({error}); write it "
            "into section `ec2` of the fleet file, as `ssh_from`"
        ) from None


def close_accesses(
    provider: AccessProvider,
    book: Book,
    names: Collection[str],
    say: Callable[[str], None],
    within_s: float,
    pause: Callable[[float], None] = time.sleep,
    monotonic: Callable[[], float] = time.monotonic,
) -> tuple[str, ...]:
    """Remove keys and groups, again and again for a while; return the names of those left.

    A group can be removed once its nodes have ended, which takes a minute. It never raises for what
    EC2 says. Of what was not made whole more may turn up for a while, so it stays in the book.
    """
    begun_s, left, reasons = monotonic(), {*names}, dict[str, str]()
    asked = book.read().accesses
    while left:
        for name in sorted(left):
            try:
                provider.remove_access(name)
            except ProbeFailed as error:
                reasons[name] = str(error)
                continue
            reasons.pop(name, None)
            intent = asked.get(name)
            if intent is None or intent.is_made or clock.now() - intent.at > RECENT:
                left.remove(name)
                with suppress(BadInput):  # a full disk: the next reaper finds nothing any more
                    book.write(AccessEnd(token=name, at=clock.now()))
        if not reasons or monotonic() - begun_s >= within_s:
            break
        pause(_PAUSE_S)
    for name, reason in reasons.items():
        with suppress(OSError):  # a terminal that is gone
            say(f"key and group {name} are left: {reason}")
    return tuple(sorted(left))
