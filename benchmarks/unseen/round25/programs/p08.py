"""Diffusion-convolutional recurrent forecaster on a toy road network (seq2seq, DCRNN-like)."""
import numpy as np
import torch
import torch.nn as nn
import torch_xla

HP = {
    "nodes": 10,
    "hidden": 12,
    "history": 4,
    "horizon": 5,
    "batch": 8,
    "steps": 40,
    "lr": 5e-3,
    "cl_decay_steps": 8,
    "clip": 5.0,
}


def road_graph(n, rng):
    xy = rng.uniform(size=(n, 2))
    dist = np.linalg.norm(xy[:, None] - xy[None], axis=-1)
    adj = np.exp(-(dist ** 2) / 0.1) * (dist < 0.6)
    np.fill_diagonal(adj, 0)
    return (adj / np.maximum(adj.sum(1, keepdims=True), 1e-6)).astype(np.float32)


def speeds(n, length, fwd, rng):
    phase = rng.uniform(0, 6.28, n)
    x = np.zeros((length, n), np.float32)
    x[0] = rng.normal(size=n)
    for t in range(1, length):
        drive = np.sin(2 * np.pi * t / 48 + phase)
        x[t] = 0.6 * x[t - 1] + 0.2 * fwd @ x[t - 1] + 0.3 * drive + 0.1 * rng.normal(size=n)
    return (x - x.mean()) / x.std()


class DiffConv(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.lin = nn.Linear(2 * cin, cout)

    def forward(self, x, support):
        return self.lin(torch.cat([x, torch.matmul(support, x)], dim=-1))


class DCGRUCell(nn.Module):
    def __init__(self, cin, hidden):
        super().__init__()
        self.gates = DiffConv(cin + hidden, 2 * hidden)
        self.cand = DiffConv(cin + hidden, hidden)

    def forward(self, x, h, support):
        r, u = torch.sigmoid(self.gates(torch.cat([x, h], -1), support)).chunk(2, -1)
        c = torch.tanh(self.cand(torch.cat([x, r * h], -1), support))
        return u * h + (1 - u) * c


class DCRNN(nn.Module):
    def __init__(self, hp, support):
        super().__init__()
        self.hp = hp
        self.encoder = DCGRUCell(1, hp["hidden"])
        self.decoder = DCGRUCell(1, hp["hidden"])
        self.readout = nn.Linear(hp["hidden"], 1)
        self.register_buffer("support", torch.from_numpy(support))

    def sampling_threshold(self, batches_seen):
        k = self.hp["cl_decay_steps"]
        return k / (k + np.exp(batches_seen / k))

    def forward(self, x, y=None, batches_seen=None):
        b, _, n = x.shape
        h = x.new_zeros(b, n, self.hp["hidden"])
        for t in range(self.hp["history"]):
            h = self.encoder(x[:, t, :, None], h, self.support)
        inp, outs = x.new_zeros(b, n, 1), []
        for t in range(self.hp["horizon"]):
            h = self.decoder(inp, h, self.support)
            pred = self.readout(h)
            outs.append(pred.squeeze(-1))
            inp = pred
            if self.training and y is not None:
                if np.random.uniform(0, 1) < self.sampling_threshold(batches_seen):
                    inp = y[:, t, :, None]
        return torch.stack(outs, dim=1)


def masked_mae(pred, true):
    mask = (true.abs() > 1e-4).to(pred.dtype)
    mask = mask / mask.mean()
    return ((pred - true).abs() * mask).mean()


def main():
    np.random.seed(4)
    torch.manual_seed(4)
    rng = np.random.default_rng(4)
    walk = road_graph(HP["nodes"], rng)
    series = speeds(HP["nodes"], 600, walk, rng)
    span = HP["history"] + HP["horizon"]

    device = torch_xla.device()
    model = DCRNN(HP, walk).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=HP["lr"], eps=1e-3)
    for step in range(HP["steps"]):
        starts = rng.integers(0, len(series) - span, HP["batch"])
        window = np.stack([series[s:s + span] for s in starts]).astype(np.float32)
        window = torch.from_numpy(window).to(device)
        x, y = window[:, :HP["history"]], window[:, HP["history"]:]
        with torch_xla.step():
            opt.zero_grad()
            loss = masked_mae(model(x, y, batches_seen=step), y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), HP["clip"])
            opt.step()
        if step % 10 == 9:
            print("step", step + 1, "mae", round(loss.item(), 4))


if __name__ == "__main__":
    main()
