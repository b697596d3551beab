"""Tensors without values: whole numbers are computed, what depends on weights is made up."""

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException

from networks.known_values import KnownValues
from networks.own_torch import building_without_values


def test_whole_numbers_are_those_of_real_tensors() -> None:
    def computed() -> list[object]:
        places = torch.arange(6).reshape(2, 3)
        mask = places * 2 + 1 > 4
        ids = torch.zeros(3, dtype=torch.long)
        ids[1:] = 5  # a view of it is written
        lengths = torch.tensor([2, 3])
        return [
            *(mask.tolist(), mask.nonzero().tolist(), ids.tolist(), lengths.cumsum(0).tolist()),
            torch.repeat_interleave(places, lengths, dim=0).tolist(),
            places[mask].tolist(),
            torch.linspace(0, 1, 3).tolist(),
            int(lengths.max()) + torch.full((), 7).item(),
        ]

    with KnownValues():
        without_values = computed()
    assert without_values == computed()


def test_rows_of_a_known_mask_go_forward_and_backward() -> None:
    with KnownValues():
        rows, features = torch.randn(6, 8, requires_grad=True), torch.randn(4, 8)
        features.requires_grad_()
        chosen = rows[torch.arange(6) > 1]
        assert chosen.shape == (4, 8)
        mask = torch.tensor([1, 0, 1, 1, 0, 1]).bool()[:, None].expand(6, 8)
        (rows.masked_scatter(mask, features).sum() + chosen.sum()).backward()
        assert rows.grad is not None and features.grad is not None
        assert rows.grad.shape == (6, 8) and features.grad.shape == (4, 8)


def test_what_is_written_by_weights_is_known_no_more() -> None:
    with KnownValues():
        numbers = torch.zeros(3, dtype=torch.long)
        numbers[:1] = torch.randn(5, 2).argmax(0)[:1]
        with pytest.raises(DataDependentOutputException):
            numbers.tolist()


def test_who_may_not_make_up_values_is_told_that_they_are_missing() -> None:
    with KnownValues():
        weights = torch.randn(4, 3)
        with pytest.raises(DataDependentOutputException):
            (weights @ weights.T).sum().item()
        with pytest.raises(DynamicOutputShapeException):
            (torch.randn(4) > 0).nonzero()


def test_experts_are_chosen_evenly_and_masks_are_true() -> None:
    experts, each = 5, 2
    with KnownValues(makes_up=True):
        chosen = torch.randn(10, experts).topk(each).indices
        assert torch.bincount(chosen.flatten()).tolist() == [10 * each // experts] * experts
        assert all(len(set(row)) == each for row in chosen.tolist())
        assert torch.randn(3, 4).argmax(0).tolist() == [0, 1, 2, 0]
        unknown = torch.randn(4) > 0
        assert unknown.nonzero().shape == (4, 1) and unknown.any().item() is True
        assert torch.randn(()).item() == torch.rand(()).item() == 0.5


def test_products_of_experts_have_shapes_in_any_precision() -> None:
    def grouped(rows: Tensor, matrices: Tensor) -> Tensor:
        offsets = torch.tensor([2, 4, 6, 8, 10], dtype=torch.int32)
        return nn.functional.grouped_mm(rows, matrices, offs=offsets)

    with KnownValues():
        rows = torch.randn(10, 8, requires_grad=True)
        matrices = torch.randn(5, 8, 3, requires_grad=True)
        grouped(rows, matrices).sum().backward()
        assert rows.grad is not None and rows.grad.shape == rows.shape
        assert matrices.grad is not None and matrices.grad.shape == matrices.shape


def test_a_model_without_values_is_cast_and_initialised() -> None:
    with KnownValues(makes_up=True), building_without_values():
        first = nn.Linear(4, 4)
        model = nn.Sequential(first, nn.LSTM(4, 4), nn.Linear(4, 4))
        model[2].weight = first.weight
        assert nn.init.trunc_normal_(first.weight).shape == (4, 4)
        model.to(torch.bfloat16)
        assert {each.dtype for each in model.parameters()} == {torch.bfloat16}
        assert model[2].weight is model[0].weight and isinstance(model[0].weight, nn.Parameter)
        assert model[1](torch.zeros(1, 4, dtype=torch.bfloat16))[0].dtype == torch.bfloat16
