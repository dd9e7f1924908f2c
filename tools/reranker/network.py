"""The network in PyTorch, for training. `recollect.models.reranker` runs it with numpy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn
from torch.nn import functional

WIDTH = 384
HEADS = 12
EPSILON = 1e-12


class Norm(nn.Module):
    def __init__(self, values: Tensor) -> None:
        super().__init__()
        self.values = nn.Parameter(values.clone())

    def forward(self, states: Tensor) -> Tensor:
        return functional.layer_norm(states, (WIDTH,), self.values[0], self.values[1], EPSILON)


def linear(weight: Tensor, bias: Tensor) -> nn.Linear:
    layer = nn.Linear(weight.shape[1], weight.shape[0])
    layer.weight.data.copy_(weight)
    layer.bias.data.copy_(bias)
    return layer


def tanh_gelu(states: Tensor) -> Tensor:
    return functional.gelu(states, approximate="tanh")


def hard_gelu(states: Tensor) -> Tensor:
    """Close to GELU, at a fraction of its cost with numpy."""
    return states * (states * 0.3 + 0.5).clamp(0, 1)


class Layer(nn.Module):
    def __init__(self, arrays: Mapping[str, Tensor], hard: bool) -> None:
        super().__init__()
        self.activation = hard_gelu if hard else tanh_gelu
        for name in ("mix", "out", "up", "down"):
            setattr(self, name, linear(arrays[f"{name}.weight"], arrays[f"{name}.bias"]))
        self.out_norm = Norm(arrays["out_norm"])
        self.down_norm = Norm(arrays["down_norm"])

    def forward(self, states: Tensor, mask: Tensor, only_first: bool, dropout: float) -> Tensor:
        """`only_first`: compute the state of the first piece only, from all of them."""
        batch, length, _ = states.shape
        query, key, value = self.mix(states).view(batch, length, 3, HEADS, -1).unbind(2)
        if only_first:
            query, states = query[:, :1], states[:, :1]
        mixed = functional.scaled_dot_product_attention(
            query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2), attn_mask=mask
        )
        mixed = mixed.transpose(1, 2).reshape(batch, -1, WIDTH)
        drop = self.training and dropout > 0
        mixed = self.out(mixed)
        if drop:
            mixed = functional.dropout(mixed, dropout)
        states = self.out_norm(states + mixed)
        change = self.down(self.activation(self.up(states)))
        if drop:
            change = functional.dropout(change, dropout)
        return self.down_norm(states + change)


class Network(nn.Module):
    """Scores pairs of a query and a passage. The word vectors are not trained."""

    def __init__(
        self,
        weights: Mapping[str, Tensor],
        layers: Sequence[int],
        dropout: float = 0.1,
        hard: bool = False,
    ) -> None:
        super().__init__()
        self.register_buffer("word", weights["word"].clone())
        self.position = nn.Parameter(weights["position"].clone())
        self.kind = nn.Parameter(weights["kind"].clone())
        self.norm = Norm(weights["norm"])
        self.layers = nn.ModuleList()
        for number in layers:
            prefix = f"layers.{number}."
            arrays = {
                name.removeprefix(prefix): weights[name]
                for name in weights
                if name.startswith(prefix)
            }
            self.layers.append(Layer(arrays, hard))
        self.head = nn.Linear(WIDTH, 1)
        if "head.weight" in weights:
            self.head.weight.data.copy_(weights["head.weight"])
            self.head.bias.data.copy_(weights["head.bias"])
        else:
            nn.init.normal_(self.head.weight, std=0.02)
            nn.init.zeros_(self.head.bias)
        self.dropout = dropout

    def forward(self, pieces: Tensor, kinds: Tensor) -> Tensor:
        """One score per row. Piece 0 is padding."""
        mask = (pieces > 0)[:, None, None, :]
        states = self.word[pieces] + self.position[: pieces.shape[1]] + self.kind[kinds]
        states = self.norm(states)
        last = len(self.layers) - 1
        for number, layer in enumerate(self.layers):
            states = layer(states, mask, number == last, self.dropout)
        return self.head(states[:, 0]).squeeze(-1)

    def weights(self) -> dict[str, Any]:
        """The trained arrays, by the names that the constructor expects."""
        result = {}
        for name, value in self.state_dict().items():
            result[name.replace("norm.values", "norm")] = value.detach().float().cpu().numpy()
        return result
