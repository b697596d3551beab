"""A block of a transformer, as tests trace it."""

import torch


class Block(torch.nn.Module):
    """A block of a GPT with four heads."""

    def __init__(self, width: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.first, self.second = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.heads = torch.nn.Linear(width, 3 * width)
        self.joined = torch.nn.Linear(width, width)
        self.inner = torch.nn.Linear(width, 4 * width)
        self.outer = torch.nn.Linear(4 * width, width)
        self.dropout = torch.nn.Dropout(dropout)

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        batch, words, width = given.shape
        heads = self.heads(self.first(given)).view(batch, words, 3, 4, width // 4)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        seen = torch.nn.functional.scaled_dot_product_attention(query, key, value)
        joined = self.joined(seen.transpose(1, 2).reshape(batch, words, width))
        given = given + self.dropout(joined)
        inner = torch.nn.functional.gelu(self.inner(self.second(given)))
        return given + self.dropout(self.outer(inner))
