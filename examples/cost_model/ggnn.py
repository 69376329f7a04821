"""A gated graph neural network (Li et al., 2016) that predicts a program's size, and its gap to -Oz."""

import torch
from torch import Tensor, nn

from cost_model.graphs import KINDS, Batch


class Ggnn(nn.Module):
    """Nodes send messages along edges, by a matrix for each kind of edge, and a gated recurrent unit takes them in.

    Args:
        texts: how many texts of nodes there are, those that are unknown included.
        width: numbers of a node.
        rounds: how often messages are sent.
    """

    def __init__(self, texts: int, width: int = 32, rounds: int = 2) -> None:
        super().__init__()
        self.rounds, self.width = rounds, width
        self.embed = nn.Embedding(texts, width)
        self.messages = nn.Linear(width, KINDS * width)
        self.update = nn.GRUCell(width, width)
        self.amount = nn.Linear(2 * width, 1)  # what a node counts
        self.gate, self.part = nn.Linear(2 * width, width), nn.Linear(2 * width, width)
        self.gap = nn.Sequential(nn.Linear(width + 1, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return logarithms of the count and of the gap to -Oz, shape (graphs,) each."""
        first = nodes = self.embed(batch.texts)
        number = batch.source * KINDS + batch.kind
        degree = torch.ones(len(nodes)).index_add_(0, batch.target, torch.ones(len(number)))[:, None]
        for _ in range(self.rounds):
            sent = self.messages(nodes).view(-1, self.width).index_select(0, number)
            nodes = self.update(torch.zeros_like(nodes).index_add_(0, batch.target, sent) / degree, nodes)
        both = torch.cat([nodes, first], 1)
        graphs = len(batch.count)
        amount = torch.zeros(graphs).index_add_(0, batch.graph, nn.functional.softplus(self.amount(both)[:, 0]))
        parts = torch.sigmoid(self.gate(both)) * torch.tanh(self.part(both))
        size = torch.zeros(graphs).index_add_(0, batch.graph, torch.ones(len(nodes)))[:, None]
        pooled = torch.zeros(graphs, self.width).index_add_(0, batch.graph, parts) / size
        return amount.log(), self.gap(torch.cat([pooled, size.log() / 5], 1))[:, 0]


def loss_of(predicted: tuple[Tensor, Tensor], batch: Batch) -> Tensor:
    """Return the mean squared error of both logarithms."""
    count, gap = predicted
    return nn.functional.mse_loss(count, batch.count.log()) + nn.functional.mse_loss(gap, batch.gap.log())
