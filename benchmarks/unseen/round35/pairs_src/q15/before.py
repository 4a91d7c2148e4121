"""Feeder load forecasting: gated recurrent net over quarter-hour meter readings,
truncated backpropagation through time, quantile loss."""
import sys

import torch
import torch.nn as nn
import torch_xla

FEATURES = 5
HIDDEN = 12
BATCH = 6
CHUNK = 2
CHUNKS = 2
QUANTILES = (0.1, 0.5, 0.9)


class MinimalGatedCell(nn.Module):
    def __init__(self, n_in, n_hidden):
        super().__init__()
        self.wf = nn.Linear(n_in + n_hidden, n_hidden)
        self.wh = nn.Linear(n_in, n_hidden)
        self.uh = nn.Linear(n_hidden, n_hidden, bias=False)

    def forward(self, x, h):
        f = torch.sigmoid(self.wf(torch.cat([x, h], dim=1)))
        cand = torch.tanh(self.wh(x) + self.uh(f * h))
        return (1 - f) * h + f * cand


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = MinimalGatedCell(FEATURES, HIDDEN)
        self.head = nn.Linear(HIDDEN, len(QUANTILES))

    def forward(self, xs, h):
        out = []
        for t in range(xs.shape[1]):
            h = self.cell(xs[:, t], h)
            out.append(self.head(h))
        return torch.stack(out, dim=1), h


def pinball(pred, y):
    loss = 0.0
    for i, q in enumerate(QUANTILES):
        e = y - pred[..., i]
        loss = loss + torch.maximum(q * e, (q - 1.0) * e).mean()
    return loss / len(QUANTILES)


def train_window(model, opt, xs, ys, state):
    total = 0.0
    for c in range(CHUNKS):
        state = state.detach()
        part = slice(c * CHUNK, (c + 1) * CHUNK)
        pred, state = model(xs[:, part], state)
        total = total + pinball(pred, ys[:, part])
    total = total / CHUNKS
    opt.zero_grad(set_to_none=True)
    total.backward()
    opt.step()
    return total.detach(), state.detach()


def live(model, opt, extra):
    out = []
    for p in model.parameters():
        out += [p, p.grad, opt.state[p]["square_avg"], opt.state[p]["momentum_buffer"]]
    return out + extra


def main(path=None, dump_at=2, steps=3):
    torch.manual_seed(9)
    device = torch_xla.device()
    model = Forecaster().to(device)
    opt = torch.optim.RMSprop(model.parameters(), lr=1e-3, alpha=0.95, momentum=0.5)
    g = torch.Generator().manual_seed(1)
    state = torch.zeros(BATCH, HIDDEN).to(device)
    losses = []
    for step in range(steps):
        xs = torch.randn(BATCH, CHUNK * CHUNKS, FEATURES, generator=g).to(device)
        ys = torch.randn(BATCH, CHUNK * CHUNKS, generator=g).to(device)
        loss, state = train_window(model, opt, xs, ys, state)
        if path and step == dump_at:
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live(model, opt, [loss, state])))
        torch_xla.sync()
        losses.append(loss.item())
    return losses


if __name__ == "__main__":
    print(main(sys.argv[1] if len(sys.argv) > 1 else None))
