"""Entity-aware LSTM for rainfall-runoff over many catchments."""
import numpy as np
import torch
import torch.nn as nn
import torch_xla
import torch_xla.debug.metrics as met

FORCINGS = 5
ATTRIBUTES = 7
HIDDEN = 12
WINDOW = 8


class EALSTM(nn.Module):
    def __init__(self, n_dyn, n_stat, hidden, forget_bias=3.0):
        super().__init__()
        self.hidden = hidden
        self.w_ih = nn.Parameter(torch.empty(n_dyn, 3 * hidden))
        self.w_hh = nn.Parameter(torch.empty(hidden, 3 * hidden))
        self.b = nn.Parameter(torch.zeros(3 * hidden))
        self.w_stat = nn.Linear(n_stat, hidden)
        nn.init.orthogonal_(self.w_ih)
        with torch.no_grad():
            self.w_hh.copy_(torch.eye(hidden).repeat(1, 3))
            self.b[:hidden] = forget_bias

    def forward(self, x_d, x_s):
        x_d = x_d.transpose(0, 1)
        h = x_d.new_zeros(x_d.size(1), self.hidden)
        c = torch.zeros_like(h)
        i = torch.sigmoid(self.w_stat(x_s))
        for x_t in x_d.unbind(0):
            gates = torch.addmm(self.b, h, self.w_hh) + x_t @ self.w_ih
            f, o, g = gates.chunk(3, 1)
            c = torch.sigmoid(f) * c + i * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        return h


class Runoff(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = EALSTM(FORCINGS, ATTRIBUTES, HIDDEN)
        self.head = nn.Linear(HIDDEN, 1)

    def forward(self, x_d, x_s):
        return self.head(self.lstm(x_d, x_s)).squeeze(-1)


class Catchments:
    def __init__(self, n=10, days=200, seed=0):
        rng = np.random.default_rng(seed)
        self.attr = rng.normal(size=(n, ATTRIBUTES)).astype(np.float32)
        self.forcing = rng.gamma(0.4, 2.0, size=(n, days, FORCINGS)).astype(np.float32)
        kernel = np.exp(-np.arange(10) / 3)
        self.q = np.stack([np.convolve(f[:, 0], kernel)[:days] for f in self.forcing]).astype(np.float32)
        self.q_std = self.q.std(axis=1)
        self.rng = rng

    def batch(self, size):
        b = self.rng.integers(0, len(self.attr), size)
        t = self.rng.integers(WINDOW, self.q.shape[1], size)
        x = np.stack([self.forcing[i, j - WINDOW:j] for i, j in zip(b, t)])
        return tuple(torch.from_numpy(a) for a in (x, self.attr[b], self.q[b, t - 1], self.q_std[b]))


def train_step(model, opt, batch):
    x, attr, q, q_std = batch
    pred = model(x, attr)
    loss = torch.mean((pred - q) ** 2 / (q_std + 0.1) ** 2)
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    return loss


def main(steps=5):
    torch.manual_seed(42)
    device = torch_xla.device()
    model = Runoff().to(device)
    opt = torch.optim.Adagrad(model.parameters(), lr=1e-2)
    data = Catchments()
    torch_xla.sync()
    for i in range(steps):
        loss = train_step(model, opt, [t.to(device) for t in data.batch(6)])
        torch_xla.sync()
        print(i, loss.item(), met.counter_value("UncachedCompile") or 0)


if __name__ == "__main__":
    main()
