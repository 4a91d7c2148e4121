"""Rainfall-runoff model: entity-aware LSTM over daily forcings, basin attributes gate the input.

Streams basins through one training loop; the HLO of two of its steps is kept (a.hlo, b.hlo).
"""
import sys

import torch
import torch.nn as nn
import torch_xla

KEEP = {5: "a.hlo", 6: "b.hlo"}


class EALSTM(nn.Module):
    def __init__(self, n_dyn, n_static, hidden):
        super().__init__()
        self.hidden = hidden
        self.static_gate = nn.Linear(n_static, hidden)
        self.w_ih = nn.Parameter(torch.empty(n_dyn, 3 * hidden))
        self.w_hh = nn.Parameter(torch.empty(hidden, 3 * hidden))
        self.bias = nn.Parameter(torch.zeros(3 * hidden))
        self.norm = nn.LayerNorm(hidden)
        self.head = nn.Linear(hidden, 1)
        nn.init.orthogonal_(self.w_ih)
        nn.init.orthogonal_(self.w_hh)
        with torch.no_grad():
            self.bias[:hidden].fill_(3.0)  # forget gate open at first

    def forward(self, dyn, static):
        i = torch.sigmoid(self.static_gate(static))
        h = dyn.new_zeros(dyn.shape[0], self.hidden)
        c = torch.zeros_like(h)
        for t in range(dyn.shape[1]):
            gates = torch.addmm(self.bias, h, self.w_hh) + dyn[:, t] @ self.w_ih
            f, o, g = gates.chunk(3, dim=1)
            c = torch.sigmoid(f) * c + i * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        return self.head(self.norm(h)).squeeze(-1)


def nse_loss(sim, obs, q_std, eps=0.1):
    """Nash-Sutcliffe loss, basins weighted by the spread of their discharge."""
    weight = 1.0 / (q_std + eps) ** 2
    return (weight * (sim - obs) ** 2).mean()


def train(steps=7):
    torch.manual_seed(11)
    device = torch_xla.device()
    model = EALSTM(n_dyn=5, n_static=4, hidden=8)
    data = [(torch.randn(6, 4, 5), torch.randn(6, 4), torch.rand(6), torch.rand(6) + 0.3)
            for _ in range(steps)]
    model.to(device)
    opt = torch.optim.RAdam(model.parameters(), lr=2e-3, weight_decay=1e-4)
    losses = []
    for step, batch in enumerate(data, start=1):
        dyn, static, obs, q_std = (x.to(device) for x in batch)
        opt.zero_grad()
        loss = nse_loss(model(dyn, static), obs, q_std)
        loss.backward()
        opt.step()
        loss = loss.detach()
        if step in KEEP and "--dump" in sys.argv:
            live = [loss]
            for p in model.parameters():
                live += [p, p.grad, opt.state[p]["exp_avg"], opt.state[p]["exp_avg_sq"]]
            with open(KEEP[step], "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        losses.append(loss.item())
    return losses


if __name__ == "__main__":
    print(train())
