"""Answers of the stand-in: each as botocore's model has it, or a refusal in AWS's words."""

from xml.sax.saxutils import escape

from botocore.parsers import create_parser
from botocore.validate import ParamValidator

from tests.aws import model

SAID = {
    "refused": (400, "OperationNotPermitted", "Not now"),
    "throttled": (503, "RequestLimitExceeded", "Request limit exceeded"),
    "expired": (400, "RequestExpired", "The request is too old"),
    "unavailable": (503, "Unavailable", "The service is unavailable"),
}


def check(operation: str, body: bytes) -> None:
    """Check that an answer is one that botocore's model allows, and can read."""
    of = model(operation)
    parser = create_parser(of.service_model.metadata["protocol"])
    response = {"body": body, "headers": {}, "status_code": 200}
    read = parser.parse(response, of.output_shape)
    read.pop("ResponseMetadata")
    if of.output_shape is not None:
        report = ParamValidator().validate(read, of.output_shape)
        assert not report.has_errors(), report.generate_report()


def refused(status: int, code: str, message: str) -> tuple[int, bytes]:
    error = f"<Error><Code>{code}</Code><Message>{escape(message)}</Message></Error>"
    body = f"<Response><Errors>{error}</Errors><RequestID>1</RequestID></Response>"
    return status, body.encode()
