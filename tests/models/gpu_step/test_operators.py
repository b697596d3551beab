"""Work of operators, worked out by hand."""

import pytest

from models.gpu_step.operators import causal, laid_out, work_of
from networks.gpu_steps import Operator, Tensor


def _float(*shape: int) -> Tensor:
    return Tensor(shape, "float32")


def _half(*shape: int) -> Tensor:
    return Tensor(shape, "bfloat16")


def test_product_counts_multiplications_additions_and_each_tensor_once() -> None:
    work = work_of(Operator("mm", (_half(8, 16), _half(16, 32)), (_half(8, 32),)))
    assert (work.kind, work.flops) == ("matmul", 2 * 8 * 16 * 32)
    assert work.bytes == 2 * (8 * 16 + 16 * 32 + 8 * 32)
    assert (work.rows, work.inner, work.columns, work.batch) == (8, 16, 32, 1)


def test_bias_of_a_product_is_read() -> None:
    given = (_float(32), _float(8, 16), _float(16, 32))
    work = work_of(Operator("addmm", given, (_float(8, 32),)))
    assert work.bytes == 4 * (32 + 8 * 16 + 16 * 32 + 8 * 32)


def test_batched_product() -> None:
    work = work_of(Operator("bmm", (_float(3, 4, 5), _float(3, 5, 6)), (_float(3, 4, 6),)))
    assert (work.flops, work.batch) == (2 * 3 * 4 * 5 * 6, 3)


def test_products_of_experts_are_alike_many_rows_each() -> None:
    """64 rows for 4 experts of [16, 32], and the gradient of their matrices."""
    ends = Tensor((4,), "int32")
    forward = (_half(64, 16), _half(4, 16, 32), ends)
    work = work_of(Operator("_grouped_mm", forward, (_half(64, 32),)))
    assert (work.kind, work.flops) == ("matmul", 2 * 64 * 16 * 32)
    assert (work.batch, work.rows, work.inner, work.columns) == (4, 16, 16, 32)
    assert work.bytes == 2 * (64 * 16 + 4 * 16 * 32 + 64 * 32) + 4 * 4
    backward = (_half(16, 64), _half(64, 32), ends)
    work = work_of(Operator("_grouped_mm", backward, (_half(4, 16, 32),)))
    assert (work.flops, work.batch) == (2 * 64 * 16 * 32, 4)
    assert (work.rows, work.inner, work.columns) == (16, 16, 32)


def test_convolution_is_a_product_of_pixels_and_taps() -> None:
    given = (_float(2, 3, 8, 8), _float(16, 3, 3, 3))
    work = work_of(Operator("convolution", given, (_float(2, 16, 8, 8),)))
    assert (work.kind, work.taps) == ("convolution", 9)
    assert (work.rows, work.inner, work.columns) == (2 * 8 * 8, 27, 16)
    assert work.flops == 2 * (2 * 16 * 8 * 8) * 27


def test_convolution_of_each_channel_alone() -> None:
    given = (_float(2, 16, 8, 8), _float(16, 1, 3, 3))
    work = work_of(Operator("_conv_depthwise2d", given, (_float(2, 16, 8, 8),)))
    assert (work.kind, work.flops) == ("depthwise", 2 * (2 * 16 * 8 * 8) * 9)


@pytest.mark.parametrize(
    ("dtype", "channels", "side", "is_channels_last", "is_chosen"),
    [
        ("float16", 32, 3, False, True),
        ("float16", 32, 7, False, False),
        ("float16", 16, 3, False, False),
        ("float16", 192, 7, True, True),
        ("bfloat16", 32, 3, False, False),
        ("bfloat16", 32, 7, True, True),
        ("float32", 32, 3, True, False),
    ],
)
@pytest.mark.parametrize("wanted", [1, 2])
def test_gradients_of_channels_alone_are_products_as_forward_where_cudnn_is_chosen(
    dtype: str, channels: int, side: int, is_channels_last: bool, is_chosen: bool, wanted: int
) -> None:
    image, weight = Tensor((2, channels, 8, 8), dtype), Tensor((channels, 1, side, side), dtype)
    forward = work_of(Operator("convolution", (image, weight), (image,)))
    given = (image, image, weight)
    whole = work_of(Operator("convolution_backward", given, (image, weight)[:wanted]))
    work = laid_out(whole, is_channels_last)
    assert (work.kind == "depthwise") == is_chosen
    assert work.repeats == (wanted if is_chosen else 1)
    assert work.flops * work.repeats == whole.flops == wanted * forward.flops
    assert laid_out(forward, is_channels_last).kind == "depthwise"


def test_gradients_of_a_convolution_count_as_many_as_are_wanted() -> None:
    gradient, given, weight = _float(2, 16, 8, 8), _float(2, 3, 8, 8), _float(16, 3, 3, 3)
    two_gradients = work_of(
        Operator("convolution_backward", (gradient, given, weight), (given, weight, _float(16)))
    )
    one_gradient = work_of(Operator("convolution_backward", (gradient, given, weight), (weight,)))
    assert two_gradients.flops == 2 * one_gradient.flops


@pytest.mark.parametrize(("backward", "products"), [(False, 2), (True, 5)])
def test_attention_has_two_products_and_five_backward(backward: bool, products: int) -> None:
    query, key = _half(2, 12, 128, 64), _half(2, 12, 256, 64)
    name = "_scaled_dot_product_flash_attention"
    operator = Operator(name, (query, key, key), (query,))
    if backward:
        operator = Operator(f"{name}_backward", (query, query, key, key), (query, key, key))
    assert work_of(operator).flops == products * 2 * 2 * 12 * 128 * 256 * 64


def test_attention_with_a_bias_is_another_kernel() -> None:
    query, bias = _half(2, 12, 128, 64), _half(2, 12, 128, 128)
    operator = Operator("_efficient_attention_forward", (query, query, query, bias), (query,))
    assert work_of(operator).name == "attention_biased"


def test_embedding_moves_the_rows_that_it_looks_up() -> None:
    given = (_float(30522, 768), Tensor((64, 128), "int64"))
    work = work_of(Operator("embedding", given, (_float(64, 128, 768),)))
    assert work.bytes == 2 * 4 * 64 * 128 * 768


def test_loss_reads_a_number_of_each_row_and_fills_its_gradient() -> None:
    logits, labels = _float(8192, 30522), Tensor((8192,), "int64")
    backward = work_of(Operator("nll_loss_backward", (_float(), logits, labels), (logits,)))
    assert backward.bytes == pytest.approx(logits.bytes, rel=1e-6)


def test_optimizer_reads_its_lists_and_writes_one() -> None:
    parameters = (_float(10, 10), _float(10))
    work = work_of(Operator("_foreach_addcdiv_", parameters * 3, ()))
    assert work.kind == "optimizer"
    assert work.bytes == 4 * (3 * 110 + 100)


def test_steps_of_an_optimizer_stay_on_the_host() -> None:
    assert work_of(Operator("_foreach_add_", (_float(), _float()), ())).kind == "none"


@pytest.mark.parametrize("name", ["_local_scalar_dense", "empty", "detach"])
def test_what_launches_nothing(name: str) -> None:
    assert work_of(Operator(name, (_float(4),), (_float(4),))).kind == "none"
    assert work_of(Operator("transpose", (_float(4),), (_float(4),), view=True)).kind == "none"


@pytest.mark.parametrize("name", ["embedding", "gather", "index", "index_select", "take"])
def test_look_ups_read_no_more_than_they_write(name: str) -> None:
    table, ids = _float(1_000_000, 64), Tensor((100,), "int64")
    work = work_of(Operator(name, (table, ids), (_float(100, 64),)))
    assert (work.kind, work.bytes) == ("embedding", 2 * 4 * 100 * 64)


@pytest.mark.parametrize("name", ["index_add_", "index_put_", "scatter_add_", "_index_put_impl_"])
def test_rows_that_are_added_in_place_leave_the_others(name: str) -> None:
    table, ids, given = _float(1_000_000, 64), Tensor((100,), "int64"), _float(100, 64)
    in_place = work_of(Operator(name, (table, ids, given), (table,)))
    assert in_place.bytes == 3 * given.bytes + ids.bytes
    copied = work_of(Operator(name.rstrip("_"), (table, ids, given), (_float(1_000_000, 64),)))
    assert copied.bytes >= 2 * table.bytes


def test_causal_attention_has_half_the_pairs_and_one_more_of_each_row() -> None:
    query = _half(2, 12, 1024, 64)
    full = Operator("_scaled_dot_product_flash_attention", (query, query, query), (query,))
    work = work_of(causal(full))
    assert work.flops == 4 * 2 * 12 * 64 * 1024 * 1025 / 2
    assert (work.rows, work.columns) == (1024, 512)


def test_unknown_operators_have_the_work_that_they_may_have_at_most() -> None:
    work = work_of(Operator("mine::fused", (_float(8),), (_float(8),), False, 512.0, True))
    assert (work.kind, work.name, work.flops, work.bytes) == ("other", "mine::fused", 512, 64)


@pytest.mark.parametrize(("dtype", "size"), [("complex64", 8), ("complex128", 16)])
def test_complex_numbers_are_two(dtype: str, size: int) -> None:
    left, right, out = (Tensor(shape, dtype) for shape in ((4, 5), (5, 6), (4, 6)))
    work = work_of(Operator("mm", (left, right), (out,)))
    assert (work.flops, work.bytes) == (8 * 4 * 5 * 6, size * (20 + 30 + 24))
