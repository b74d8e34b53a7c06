"""The Neural Data Router: a Transformer whose columns copy their state, or take what is nearest to them."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from dgl_treestack.cells import CellSpec
from dgl_treestack.sequence.encoders import DEPTH
from dgl_treestack.sequence.transformer_encoder import AttentionEncoder, Layers, Loops, repeat

CLOSED = -3.0  # initial bias of the copy gate
NEVER = -1e9  # score of a token that is not there


class RoutingLayer(Layers):
    """One layer of `NeuralDataRouter`, whose docstring has the equations; the vector is the state of the first token."""

    def __init__(self, hidden: int, heads: int, feed_forward: int, dropout: float):
        super().__init__(hidden, heads=heads, feed_forward=feed_forward)
        self.heads = heads
        self.query, self.direction = nn.Linear(hidden, hidden), nn.Linear(hidden, 2 * heads)
        self.key, self.value, self.merge = (nn.Linear(hidden, hidden, bias=False) for _ in range(3))
        self.alpha, self.beta, self.gamma = (nn.Parameter(torch.empty(1)) for _ in range(3))
        self.attended_norm, self.data_norm = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.data = nn.Sequential(
            nn.Linear(hidden, feed_forward), nn.ReLU(), nn.Dropout(dropout), nn.Linear(feed_forward, hidden)
        )
        self.gate = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, hidden))
        self.dropout = nn.Dropout(dropout)

    def vectors(self, x: Tensor, lengths: Tensor, loops: Loops) -> Tensor:
        positions = torch.arange(x.shape[1], device=x.device)
        hidden = positions == positions.unsqueeze(1)
        hidden = hidden | (positions >= lengths.unsqueeze(1)).unsqueeze(1)

        def once(h: Tensor) -> Tensor:
            a = self.attended_norm(h + self.dropout(self.attend(h, hidden.unsqueeze(1))))
            gate = torch.sigmoid(self.gate(a))
            return gate * self.data_norm(self.data(a)) + (1 - gate) * h

        return repeat(once, x, loops)[:, 0]

    def attend(self, h: Tensor, hidden: Tensor) -> Tensor:
        """Return what every token takes from the others (K, T, H). hidden: (K, 1, T, T) tokens that it does not see."""
        q, k, v = (linear(h).unflatten(-1, (self.heads, -1)).transpose(1, 2) for linear in (self.query, self.key, self.value))
        right, left = self.direction(h).unflatten(-1, (2, self.heads)).movedim(1, -1).unsqueeze(-1).unbind(1)
        positions = torch.arange(h.shape[1], device=h.device)
        directions = torch.where(positions >= positions.unsqueeze(1), right, left)
        scores = self.alpha * (q @ k.mT) + self.beta * directions + self.gamma
        weights: Tensor = geometric(scores.masked_fill(hidden, NEVER))
        attended: Tensor = self.merge((weights @ v).transpose(1, 2).flatten(2))
        return attended


def geometric(scores: Tensor) -> Tensor:
    """Return geometric attention (..., T, T) from scores: the chance to be taken, and that none nearer is."""
    length = scores.shape[-1]
    i, j = torch.arange(length, device=scores.device).unsqueeze(1), torch.arange(length, device=scores.device)
    distance = (i - j).abs()
    # Nearer tokens are those between two ends; of two at the same distance the right one is nearer.
    first = (i - distance + 1).clamp(min=0)
    end = (i + distance + (j <= i)).clamp(max=length)
    refused = functional.pad(functional.logsigmoid(-scores).cumsum(-1), (1, 0))
    none_nearer = refused.gather(-1, end.expand_as(scores)) - refused.gather(-1, first.expand_as(scores))
    return (functional.logsigmoid(scores) + none_nearer).exp()


class NeuralDataRouter(AttentionEncoder):
    """Csordas, Irie & Schmidhuber 2022, with the numbers of the submission; h_i^0 is the token's row of the table, no position:

        P_ij = sigma(alpha (W_q h_i + b_q) . W_k h_j + beta D_ij + gamma),  P_ii = 0                    (10)
        D_ij = w_LR . h_i + b_LR if i <= j, else w_RL . h_i + b_RL                                      (9)
        A_ij = P_ij prod over k in S_ij of (1 - P_ik)                                                   (7)
        S_ij = {k: |i - k| < |i - j|} if i < j, else {k: |i - k| <= |i - j|, k != j}                    (8)
        a_i = LayerNorm(h_i + W_o [for every head: sum_j A_ij W_v h_j])                                 (1)
        u_i = LayerNorm(FFN_data(a_i)),  g_i = sigma(FFN_gate(a_i))                                     (2, 3)
        h_i <- g_i * u_i + (1 - g_i) * h_i                                                              (4)

    Shapes: h, a, u, g (H,); alpha, beta, gamma are numbers, D has one per head. FFN: two matrices with ReLU between; the last
    bias of the gate begins at -3. The same layer is applied again and again, see `loops`. As in the authors' program queries
    have a bias, alpha begins at 1 / sqrt(width of a head), and the result is read at the first token, the operator at the top.
    Rows of A do not sum to 1, as in the paper and its settings of ListOps and arithmetic; by default the program divides them.
    Deviations: the result is divided by H^(1/4) as in the Transformer; keys (theirs 0.1) and the gate have no dropout of their
    own; there are as many steps as the tree is deep, where the authors have a fixed number, more than are needed.
    """

    def __init__(
        self,
        leaves: int,
        operators: int,
        hidden: int,
        *,
        dropout: float = 0.0,
        heads: int = 4,
        feed_forward: int = 256,
        loops: int | str = DEPTH,
    ):
        super().__init__(leaves, operators, hidden, dropout=dropout, loops=loops)
        self.layers: RoutingLayer = RoutingLayer(hidden, heads, feed_forward, dropout)

    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draw initial values as the Transformer does, and set those of the gate and of scores."""
        super().reset_parameters(generator)
        layer = self.layers
        nn.init.constant_(layer.gate.get_parameter("3.bias"), CLOSED)
        layer.alpha.fill_(1 / math.sqrt(self.hidden / layer.heads))
        layer.beta.fill_(1.0)


MODELS = {
    "neural_data_router": CellSpec(
        NeuralDataRouter, "Csordas 2022", "1-10", "columns that copy, and attend to the nearest", hidden=128
    )
}
