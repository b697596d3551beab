"""What a fit of Ceer keeps, and how it predicts."""

from pydantic import Field

from models.ceer.classes import Classes
from models.ceer.overhead import DeviceOverhead
from models.ceer.regression import Regression
from warehouse.records import Record


class Median(Record):
    """The median time of the operations of a class over all node types and DNNs.

    `error` is the root mean square, over DNNs and node types, of the relative error of their sum.
    """

    us: float = Field(ge=0)
    error: float = Field(ge=0)


class Parameters(Record):
    """All that was fitted.

    `published`: as section IV has it. Else regressions and S have other forms and weights too,
    light and CPU operations a regression for each type in place of one median of their class, and
    PyTorch's convolutions of single pixels, of groups and of single channels are types apart.
    """

    published: bool
    classes: Classes
    regressions: tuple[Regression, ...]
    light: Median | None
    cpu: Median | None
    overheads: tuple[DeviceOverhead, ...]
