"""Options that several commands share, each explained once."""

from typing import Annotated

import typer

Precision = Annotated[
    str | None,
    typer.Option(
        help="float32 (TF32 in cuDNN alone, as PyTorch has it), tf32, bfloat16 or float16 "
        "(autocast); also fp32, bf16, fp16."
    ),
]
Optimizer = Annotated[str | None, typer.Option(help="sgd (no momentum), momentum, adam or adamw.")]
Accumulate = Annotated[
    str | None, typer.Option(help="Passes of --batch-size whose gradients a step adds up; 1.")
]
MemoryFormat = Annotated[str | None, typer.Option(help="contiguous or channels_last.")]
SequenceLength = Annotated[
    int | None, typer.Option(help="Words of a sample, of hf:CONFIG; 128 if not given.", min=1)
]
