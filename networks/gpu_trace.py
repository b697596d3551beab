"""The operators of a training step as a GPU would be asked for them, traced without a GPU.

Tensors are fake: they have shapes and types, and no values. They say that they are on a processor,
for a PyTorch without CUDA refuses fake CUDA tensors in places (indexing, streams of backward).
Where the two devices differ, the GPU's behaviour is put in place:

* autocast casts what CUDA's autocast casts (its list of operators in float32 is longer),
* dropout is one operator, `native_dropout`,
* attention is one operator, unless in float32 with grouped queries, which PyTorch takes apart,
* recurrent layers are one operator each way, cuDNN's, however many steps their sequences have,
* a value that is asked for (`.item()`) is made up: true, 1 or 0.5,
* operators that somebody wrote in Python (`torch.library.custom_op`) are those that they call,
* bilinear layers are the products that PyTorch loops over,
* a mask that `transformers` makes only while it is traced is left out, as attention is causal then.

Each has the work that `operator_work` counts; where none is known, the most that it may be.

Memory is that of storages alive at once: parameters, gradients and activations that backward keeps.
What shards divide is told apart: trained parameters, their gradients, and copies of both in half
precision.

`networks/own_program.py` loads this file where no package of ours may be imported.
"""

import sys
import weakref
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from itertools import accumulate
from typing import Any, Literal

import torch
from torch.nn.functional import cross_entropy
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from networks.operator_work import WorkCounter, is_work, kernel_in_parts, most_work, numbers

Precision = Literal["float32", "bfloat16", "float16"]
_IN_FLOAT32 = (
    "layer_norm",
    "native_layer_norm",
    "group_norm",
    "pow.Tensor_Scalar",
    "pow.Tensor_Tensor",
    "pow.Scalar",
    "exp",
    "log",
    "rsqrt",
    "reciprocal",
    "softplus",
    "norm.Scalar",
    "softmax.int",
    "log_softmax.int",
    "sum",
    "sum.dim_IntList",
    "cumsum",
    "prod",
)
"""What CUDA's autocast computes in float32 and the processor's does not (autocast_mode.cpp)."""
_HALF = (torch.bfloat16, torch.float16)
_RECURRENT = frozenset({"lstm", "gru", "rnn_tanh", "rnn_relu"})
"""Functions of `torch._VF` that `torch.nn.RNNBase` calls."""
_scaled_dot_product_attention = torch.nn.functional.scaled_dot_product_attention
_BLOCK_BYTES = 512
"""What PyTorch's allocator of CUDA's memory hands out (CUDACachingAllocator)."""
Fields = dict[str, Any]
"""Of `networks.gpu_steps.GpuStep`."""


def trace_step(
    module: torch.nn.Module,
    images: torch.Tensor,
    labels: torch.Tensor,
    precision: Precision = "float32",
    most: int | None = None,
) -> Fields:
    """Return the operators of forward and backward of a module of fake tensors.

    The loss is the module's `loss_of`, else the cross-entropy of what it returns.

    Args:
        module: made under a `FakeTensorMode`, which has to be entered.
        images: the batch, which is in memory all the time.
        labels: of its samples.
        precision: of autocast; parameters stay float32.
        most: operators that there may be.

    Raises:
        ValueError: there are more.
    """
    recorder = _Recorder(most)
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    inputs = getattr(module, "inputs", ())[1:]
    for standing in (*module.parameters(), *module.buffers(), images, *inputs, labels):
        recorder.hold(standing)
    with ExitStack() as stack:
        for parameter in trained:
            recorder.parameters.add(recorder.hold(parameter))
            hooked: Any = parameter
            stack.callback(hooked.register_post_accumulate_grad_hook(recorder.note_gradient).remove)
        stack.enter_context(_cuda_lists())
        stack.enter_context(recorder)
        stack.enter_context(_AsOnGpu(recorder))
        stack.enter_context(_within_functions())
        with torch.autocast(
            "cpu", torch.bfloat16 if precision == "float32" else getattr(torch, precision),
            enabled=precision != "float32",
        ):  # fmt: skip
            loss = getattr(module, "loss_of", cross_entropy)(module(images), labels)
        torch.autograd.backward([loss])
    for parameter in trained:
        parameter.grad = None
    return {
        "operators": list(recorder.operators),
        "order": recorder.order,
        "parameters": [numbers(parameter) for parameter in trained],
        "peak_bytes": recorder.most_alive(()),
        "without_gradients_bytes": recorder.most_alive(recorder.gradients),
        "activation_bytes": recorder.most_alive(recorder.divided()),
        "units": _units(module),
        "digest": recorder.digest.hexdigest(),
    }


def _units(module: torch.nn.Module) -> list[int]:
    """Return trained elements of each unit that shards gather at once; first of what is in none.

    Units are layers of the outermost lists of modules, as wrapping policies of
    FullyShardedDataParallel choose them; of a network without lists, the parts that it has.
    """
    units, parts = list(_layers(module)), list(module.children())
    while not units and len(parts) == 1:
        parts = list(parts[0].children())
    known, sizes = set[torch.nn.Parameter](), list[int]()
    for unit in (*(units or parts), module):
        new = {each for each in unit.parameters() if each.requires_grad} - known
        known |= new
        sizes.append(sum(each.numel() for each in new))
    return [sizes.pop(), *filter(None, sizes)]


def _layers(module: torch.nn.Module) -> Iterator[torch.nn.Module]:
    lists = (torch.nn.ModuleList, torch.nn.Sequential)
    for child in module.children():
        if isinstance(module, lists) and not isinstance(child, lists):
            yield child
        else:
            yield from _layers(child)


@contextmanager
def _cuda_lists() -> Iterator[None]:
    """Make the processor's autocast compute in float32 what CUDA's does."""
    autocast_keys = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)  # noqa: SLF001
    with torch.library._scoped_library("aten", "IMPL") as library:  # noqa: SLF001
        for name in _IN_FLOAT32:
            packet, _, overload = name.partition(".")
            operator = getattr(getattr(torch.ops.aten, packet), overload or "default")

            def in_float32(*args: Any, operator: Any = operator, **kwargs: Any) -> Any:
                raised = (_raised(value) for value in args)
                with torch._C._ExcludeDispatchKeyGuard(autocast_keys):  # noqa: SLF001
                    return operator(*raised, **kwargs)

            library.impl(name, in_float32, "AutocastCPU")
        yield


def _raised(value: Any) -> Any:
    half = isinstance(value, torch.Tensor) and value.dtype in _HALF
    return value.float() if half else value


class _AsOnGpu(TorchFunctionMode):
    """Replaces functions that a GPU does in other operators than a processor."""

    def __init__(self, recorder: "_Recorder") -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_function__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func is torch.nn.functional.dropout:
            return _dropout(*args, **kwargs)
        if func is _scaled_dot_product_attention:
            return _attention(*args, **kwargs)
        if getattr(func, "__name__", "") in _RECURRENT and isinstance(args[0], torch.Tensor):
            return _recurrent(self._recorder, *args)
        return func(*args, **kwargs)


@contextmanager
def _within_functions() -> Iterator[None]:
    """Replace attention that PyTorch's own functions ask for, as those of `MultiheadAttention`.

    No mode sees what a function calls that is written in Python.
    """
    replaced: list[tuple[Any, str, Any]] = [
        (torch.nn.functional, "scaled_dot_product_attention", _attention)
    ]
    # While it is traced, transformers makes masks for attention that is causal without.
    if (library := sys.modules.get("transformers.utils.import_utils")) is not None:
        replaced.append((library, "is_fake_tensor", lambda _: False))
    before = [getattr(place, name) for place, name, _ in replaced]
    for place, name, function in replaced:
        setattr(place, name, function)
    try:
        yield
    finally:
        for (place, name, _), function in zip(replaced, before, strict=True):
            setattr(place, name, function)


def _dropout(
    given: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> torch.Tensor:
    return torch.native_dropout(given, p, True)[0] if training and p else given


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    if torch.is_autocast_enabled("cpu"):
        half = torch.get_autocast_dtype("cpu")
        query, key, value = (tensor.to(half) for tensor in (query, key, value))
        if attn_mask is not None and attn_mask.is_floating_point():
            attn_mask = attn_mask.to(half)
    if query.ndim != 4:
        # Its kernels have dimensions for batch, heads, words and features.
        shape = query.shape[:-1]
        query, key, value = map(_of_four_dimensions, (query, key, value))
        mask = None if attn_mask is None else _of_four_dimensions(attn_mask)
        attended = _attention(query, key, value, mask, dropout_p, is_causal, scale, enable_gqa)
        return attended.reshape(*shape, value.shape[-1])
    grouped = enable_gqa and query.shape[1] != key.shape[1]
    if grouped and query.dtype == torch.float32:
        return _in_parts(query, key, value, attn_mask, is_causal, scale)
    fused = torch.ops.aten._scaled_dot_product_fused_attention_overrideable  # noqa: SLF001
    return torch.as_tensor(
        fused(query, key, value, attn_mask, dropout_p, is_causal, False, scale=scale)[0]
    )


def _of_four_dimensions(tensor: torch.Tensor) -> torch.Tensor:
    """Return [batch, heads, words, features] of what may lack dimensions in front, or have more."""
    for _ in range(4 - tensor.ndim):
        tensor = tensor.unsqueeze(-3 if tensor.ndim > 2 else 0)
    return tensor.flatten(0, -4)


def _recurrent(recorder: "_Recorder", given: torch.Tensor, *args: Any) -> Any:
    """Return results and last states of recurrent layers, as `torch.nn.RNNBase` asks for them.

    Raises:
        ValueError: sequences are packed.
    """
    started, weights, *rest = args
    # The sizes of packed batches come before the states; tracing knows no values.
    if isinstance(rest[0], list | tuple):
        raise ValueError(
            "its training step packs sequences, of lengths that tracing cannot know; give padded "
            "ones of equal length"
        )
    states = [started] if isinstance(started, torch.Tensor) else list(started)
    tensors = [given, *states, *weights]
    if torch.is_autocast_enabled("cpu"):
        half = torch.get_autocast_dtype("cpu")
        tensors = [tensor.to(half) for tensor in tensors]
    directions = 2 if rest[4] else 1
    made: Any = _Recurrent.apply(recorder, directions, len(states), *tensors)  # type: ignore[no-untyped-call]
    return made


class _Recurrent(torch.autograd.Function):
    """cuDNN's recurrent layers: one operator forward, one backward."""

    @staticmethod
    def forward(
        ctx: Any, recorder: "_Recorder", directions: int, states: int, *tensors: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        given, *others = tensors
        started, weights = others[:states], others[states:]
        with recorder.aside():
            made = given.new_empty((*given.shape[:-1], directions * started[0].shape[-1]))
            last = [torch.empty_like(state) for state in started]
            # What cuDNN keeps for backward: the gates of all steps.
            gates = weights[0].shape[0] * started[0].shape[0]
            reserve = given.new_empty((given.numel() // given.shape[-1], gates))
        ctx.recorder = recorder
        ctx.save_for_backward(*tensors, reserve)
        recorder.add("_cudnn_rnn", tensors, (made, *last, reserve))
        return (made, *last)

    @staticmethod
    def backward(ctx: Any, *_: Any) -> tuple[Any, ...]:
        *tensors, _reserve = ctx.saved_tensors
        with ctx.recorder.aside():
            slopes = [torch.empty_like(tensor) for tensor in tensors]
        ctx.recorder.add("_cudnn_rnn_backward", tensors, slopes)
        return (None, None, None, *slopes)


def _in_parts(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    is_causal: bool,
    scale: float | None,
) -> torch.Tensor:
    """Attention by products and a softmax, as `_scaled_dot_product_attention_math` does it."""
    times = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(times, 1), value.repeat_interleave(times, 1)
    root = (scale or query.shape[-1] ** -0.5) ** 0.5
    scores = (query * root) @ (key * root).transpose(-2, -1)
    if is_causal:
        seen = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool).tril()
        mask = torch.zeros_like(seen, dtype=query.dtype).masked_fill(~seen, float("-inf"))
    if mask is not None:
        scores = scores + mask
    shares: torch.Tensor = torch.ops.aten._safe_softmax(scores, -1)  # noqa: SLF001
    return shares @ value


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes operators, each kind of call once, their order, and which storages are alive when."""

    def __init__(self, most: int | None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._most, self._noted = most, 0
        self.operators: dict[_Call, None] = {}
        self.order: list[int] = []
        self.digest = sha256()
        self._numbers: dict[_Call, int] = {}
        self._sizes: list[int] = []
        self._changes: list[tuple[int, int]] = []
        self._alive: dict[int, int] = {}
        self.parameters: set[int] = set()
        self.gradients: set[int] = set()
        self._copies: list[tuple[int, int]] = []
        self._is_aside = False
        self._counter = WorkCounter()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Note no operators inside."""
        self._is_aside = True
        try:
            yield
        finally:
            self._is_aside = False

    def add(
        self, name: str, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]
    ) -> None:
        """Note an operator that was not asked for."""
        for tensor in outputs:
            self.hold(tensor)
        described = tuple(_described(inputs)), tuple(_described(outputs))
        self._note((name, *described, False, None, False), ())

    def hold(self, tensor: torch.Tensor) -> int:
        """Count a tensor's storage until nothing refers to it; return its number.

        Raises:
            ValueError: it is sparse, as gradients of embeddings may be.
        """
        if tensor.layout != torch.strided:
            raise ValueError(
                "its training step makes sparse gradients, whose size depends on values; build its "
                "embeddings with sparse=False"
            )
        storage = tensor.untyped_storage()
        key = storage._cdata  # noqa: SLF001
        if key not in self._alive:
            number = self._alive[key] = len(self._sizes)
            self._sizes.append(-(-storage.nbytes() // _BLOCK_BYTES) * _BLOCK_BYTES)
            self._changes.append((number, 1))
            weakref.finalize(storage, self._free, key)
        return self._alive[key]

    def _free(self, key: int) -> None:
        self._changes.append((self._alive.pop(key), -1))

    def note_gradient(self, parameter: torch.Tensor) -> None:
        """Note the storage of a parameter's gradient, which is there now."""
        if parameter.grad is not None and not parameter.grad.is_sparse:
            self.gradients.add(self.hold(parameter.grad))

    def divided(self) -> set[int]:
        """Return storages of parameters and gradients, and those that they were copied to or of."""
        cast = {copy for source, copy in self._copies if source in self.parameters}
        of_cast = {source for source, copy in self._copies if copy in self.gradients}
        return self.parameters | self.gradients | cast | of_cast

    def most_alive(self, others: Collection[int]) -> int:
        """Return the most bytes that were alive at once, without those of some storages."""
        alive = accumulate(
            change * self._sizes[number] for number, change in self._changes if number not in others
        )
        return max(alive, default=0)

    def _note(self, call: "_Call", settings: Sequence[object]) -> None:
        """Note a call, and in the digest what it is told beside tensors."""
        self._noted += 1
        if self._most is not None and self._noted > self._most:
            raise ValueError(
                f"its training step has more than {self._most:,} operators; a loop over a sequence "
                "makes some at each step: use torch.nn's LSTM, GRU or RNN, or a shorter sequence"
            )
        self.digest.update(f"{call} {list(_settings(settings))}".encode())
        self.operators.setdefault(call)
        self.order.append(self._numbers.setdefault(call, len(self._numbers)))

    def _note_unrolled(self, func: Any, *args: Any) -> None:
        """Note the products of bilinear layers: PyTorch loops over one dimension of all tensors."""
        unrolled = args[7] if len(args) > 7 else 1
        first, many = [], 1
        for tensor, spread in zip(args[:3], args[3:6], strict=True):
            place = unrolled - sum(at < unrolled for at in spread)
            if unrolled not in spread:
                many = max(many, tensor.shape[place])
                tensor = tensor.narrow(place, 0, 1)
            first.append(tensor)
        before = len(self.order)
        composed = torch._C.DispatchKey.CompositeExplicitAutogradNonFunctional  # noqa: SLF001
        with self:
            func._op_dk(composed, *first, *args[3:])  # noqa: SLF001
        self.order += self.order[before:] * (many - 1)

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        inputs = tuple(_described((*args, *kwargs.values())))
        name = func.name().partition(".")[0].removeprefix("aten::")
        kernel = None if self._is_aside else kernel_in_parts(func)
        if self._is_aside or kernel is not None or not is_work(func):
            self.digest.update(f"{name} {inputs}".encode())
        if self._is_aside or not is_work(func):
            return func(*args, **kwargs)
        if name == "_local_scalar_dense":
            self._note((name, inputs, (), False, None, False), ())
            dtype = args[0].dtype
            return True if dtype == torch.bool else 0.5 if dtype.is_floating_point else 1
        if kernel is not None:
            before = len(self.order)
            try:
                with self:
                    return kernel(*args, **kwargs)
            except Exception:
                # It knows no tensors without values, as those that call other compilers' kernels.
                del self.order[before:]
        if name == "_trilinear":
            self._note_unrolled(func, *args)
        result = func(*args, **kwargs)
        written = result if isinstance(result, tuple | list) else (result,)
        for value in written:
            if isinstance(value, torch.Tensor):
                self.hold(value)
        if name == "_to_copy":
            self._copies.append((self.hold(args[0]), self.hold(result)))
        if name == "_trilinear":
            return result
        is_view = func.is_view or torch.Tag.inplace_view in func.tags
        flops = 0.0 if is_view else self._counter.work(func, args, kwargs, result)
        is_unknown = flops is None
        if flops is None:
            flops = most_work((*args, *kwargs.values()), result)
        outputs = tuple(_described(written))
        # Views cost nothing, wherever in a tensor they begin.
        settings = () if is_view else (*args, *kwargs.values())
        self._note((name, inputs, outputs, is_view, flops, is_unknown), settings)
        return result


_Tensor = tuple[tuple[int, ...], str]
_Call = tuple[str, tuple[_Tensor, ...], tuple[_Tensor, ...], bool, float | None, bool]
"""Name, tensors in and out (shape and type), whether the result is a view, floating-point
operations (None: shapes tell), and whether these are the most that it may have."""


def _described(values: Sequence[Any]) -> Iterator[_Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield tuple(value.shape), str(value.dtype).removeprefix("torch.")
        elif isinstance(value, tuple | list):
            yield from _described(value)


def _settings(values: Sequence[object]) -> Iterator[str]:
    """Yield what tells calls on the same tensors apart: strides, flags, types; of a factor if any.

    Factors change no time, and some models draw them at random.
    """
    for value in values:
        if isinstance(value, tuple | list):
            yield f"[{' '.join(_settings(value))}]"
        elif isinstance(value, float):
            yield str(value != 0)
        elif isinstance(value, bool | int | str | torch.dtype | None):
            yield str(value)
