"""What AWS answers becomes rows; what goes wrong becomes one line."""

import json
from datetime import timedelta
from typing import Any

import pytest

from profilers.prices import aws as asking
from profilers.prices.offers import RegionPrices, observe_prices
from profilers.probe import ProbeResult
from tests.aws import DAY, Aws, written
from warehouse.records import BadInput, ProbeFailed, StepcastError

SEEN = DAY + timedelta(minutes=1)


def ask(region: str = "us-east-1", *types: str, days: float = 2) -> RegionPrices:
    """Ask for all that is there, or for some types."""
    return observe_prices(region, types or ("*",), days, SEEN)


def prices(result: ProbeResult, market: str) -> list[tuple[Any, ...]]:
    """Return type, zone, price and time of a market."""
    table = result.tables["price"].filter(market=market)
    return table.select("node_type", "zone", "usd_per_hour", "observed_at").rows()


def test_prices_are_those_of_all_pages(aws: Aws) -> None:
    aws.page_size = 1
    result = ask()
    assert prices(result, "on_demand") == [
        ("m5.large", None, 0.096, SEEN),
        ("p3.2xlarge", None, 3.06, SEEN),
        ("p3.8xlarge", None, 12.24, SEEN),
    ]
    # Two days before it was asked, 0.95 held in zone a.
    assert prices(result, "spot") == [
        ("p3.2xlarge", "us-east-1a", 1.021, DAY),
        ("p3.2xlarge", "us-east-1b", 0.93, DAY - timedelta(hours=1)),
        ("p3.2xlarge", "us-east-1a", 0.918, DAY - timedelta(hours=30)),
        ("p3.2xlarge", "us-east-1a", 0.95, DAY - timedelta(hours=72)),
    ]
    assert {source for (source,) in result.tables["price"].select("source").rows()} == {
        "AWS Pricing GetProducts",
        "AWS EC2 DescribeSpotPriceHistory",
    }


def test_only_what_is_wanted_is_asked_for(aws: Aws) -> None:
    result = ask("eu-west-1", "p3.*", "p9.none", days=0.01)
    assert (result.types, [*result.node_types]) == (1, ["p3.2xlarge"])
    assert prices(result, "spot") == [("p3.2xlarge", "eu-west-1a", 1.2, DAY - timedelta(hours=2))]
    regions = {operation: region for operation, region, _ in aws.asked}
    assert regions == {
        "DescribeInstanceTypes": "eu-west-1",
        "DescribeSpotPriceHistory": "eu-west-1",
        "GetProducts": "us-east-1",
    }
    run = result.run
    assert (run.probe, run.backend, run.purpose, run.status) == (
        "prices",
        "imported",
        "profile",
        "ok",
    )
    assert run.config["region"] == "eu-west-1"


def test_what_is_not_sold_on_demand_has_no_such_price(aws: Aws) -> None:
    aws.product = {"attributes": {"marketoption": "CapacityBlock"}}
    assert prices(ask(), "on_demand") == []
    assert prices(ask(), "spot") != []


def spot(price: float) -> bytes:
    """Return the answer of AWS that tells a spot price."""
    entry = {
        "InstanceType": "p3.2xlarge",
        "AvailabilityZone": "us-east-1a",
        "SpotPrice": str(price),
        "Timestamp": DAY,
    }
    return written(SPOT, {"SpotPriceHistory": [entry]})


NESTED = json.dumps({"PriceList": ["[" * 100_000]}).encode()
TYPES, SPOT, PRODUCTS = "DescribeInstanceTypes", "DescribeSpotPriceHistory", "GetProducts"


REFUSED = {TYPES: (503, "RequestLimitExceeded", "said AWS")}
CNY, NAN = {"pricePerUnit": {"CNY": "20"}}, {"pricePerUnit": {"USD": "NaN"}}


@pytest.mark.parametrize(
    ("name", "value", "kind", "line"),
    [
        ("refusals", {TYPES: (400, "RequestExpired", "")}, BadInput, "Expired: .* credentials"),
        ("refusals", dict(REFUSED), ProbeFailed, "RequestLimitExceeded: said AWS$"),
        ("raw", {TYPES: b"<html>"}, ProbeFailed, "no answer that can be understood"),
        ("raw", {PRODUCTS: NESTED}, ProbeFailed, "get_products: entry 1 cannot be"),
        ("raw", {SPOT: spot(float("nan"))}, ProbeFailed, "entry 1 cannot be: SpotPrice"),
        ("product", {"dimension": CNY}, ProbeFailed, "USD for Hrs, found .'CNY'"),
        ("product", {"dimension": NAN}, ProbeFailed, "entry 1 cannot be"),
        ("AWS_ACCESS_KEY_ID", "", BadInput, "no credentials .*AWS_ACCESS_KEY_ID .*aws configure"),
        (
            "AWS_ENDPOINT_URL_PRICING",  # nobody listens there
            "http://127.0.0.1:9",
            ProbeFailed,
            "AWS .*us-east-1 cannot be reached: .*check the network",
        ),
    ],
)
def test_whatever_goes_wrong_is_one_line(
    name: str,
    value: Any,
    kind: type[StepcastError],
    line: str,
    aws: Aws,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(asking, "ATTEMPTS", 2)
    if hasattr(aws, name):
        setattr(aws, name, value)
    else:
        monkeypatch.setenv(name, value)
    with pytest.raises(kind, match=line) as refused:
        ask()
    assert type(refused.value) is kind
    assert "\n" not in str(refused.value)
    assert "\x1b" not in str(refused.value)


def test_a_throttled_question_is_asked_again(aws: Aws, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "ATTEMPTS", 2)
    aws.refusals = dict(REFUSED)
    with pytest.raises(ProbeFailed):
        ask()
    assert [operation for operation, *_ in aws.asked] == [TYPES] * 2
    aws.refusals_left = 1
    assert ask().types == 3
    assert aws.refusals == {}


@pytest.mark.parametrize("region", ["us-east-9", "", "cn-north-1", "../x"])
def test_a_region_that_is_none_is_refused_before_anything_is_asked(region: str, aws: Aws) -> None:
    with pytest.raises(BadInput, match=r"AWS has no region .* did you mean .*-.*"):
        ask(region)
    assert aws.asked == []


def test_the_stand_in_answers_nothing_that_aws_could_not() -> None:
    with pytest.raises(AssertionError, match='Unknown parameter in input: "Colour"'):
        written(SPOT, {"SpotPriceHistory": [], "Colour": "red"})
    with pytest.raises(AssertionError, match="Invalid type for parameter"):
        written(SPOT, {"SpotPriceHistory": [{"SpotPrice": 1.0}]})
    with pytest.raises(AssertionError, match="Invalid type for parameter"):
        written(TYPES, {"InstanceTypes": [{"VCpuInfo": {"DefaultVCpus": "8"}}]})
