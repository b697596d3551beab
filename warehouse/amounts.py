"""Amounts that people write in files, as fields of records: finite, and with an end."""

from typing import Annotated

from pydantic import Field

from warehouse import limits

Nodes = Annotated[int, Field(ge=1, le=limits.NODES)]
"""Nodes, devices, workers or flows at once."""
Repeats = Annotated[int, Field(ge=1, le=limits.REPEATS)]
"""How often something is measured: steps, trials, windows, iterations of a measurement."""
Batch = Annotated[int, Field(ge=1, le=limits.BATCH)]
"""Samples of one iteration."""
Pixels = Annotated[int, Field(ge=8, le=limits.PIXELS)]
"""The side of a square image."""
PixelsOrNone = Annotated[int, Field(ge=0, le=limits.PIXELS)]
"""The side of a square image; 0: of a network that takes none."""
Bytes = Annotated[int, Field(ge=1, le=limits.TENSOR_BYTES)]
"""The length of what is exchanged at once."""
Seconds = Annotated[float, Field(gt=0, le=limits.SECONDS, allow_inf_nan=False)]
"""How long something takes, or may take."""
SecondsOrNone = Annotated[float, Field(ge=0, le=limits.SECONDS, allow_inf_nan=False)]
"""How long something takes that may take no time at all."""
Mbps = Annotated[float, Field(gt=0, le=limits.MBPS, allow_inf_nan=False)]
"""The speed of a link, 10⁶ bits a second."""
Usd = Annotated[float, Field(ge=0, le=limits.USD, allow_inf_nan=False)]
"""A price, or what is spent, US dollars."""
