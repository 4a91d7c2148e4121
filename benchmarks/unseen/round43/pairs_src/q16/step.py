"""Probabilistic load forecasting with an unrolled GRU (torch_xla)."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

BATCH, CONTEXT, COV, HID = 6, 3, 4, 10


class LoadForecaster(nn.Module):
    def __init__(self, stations=7):
        super().__init__()
        self.station = nn.Embedding(stations, 3)
        self.cell = nn.GRUCell(1 + COV + 3, HID)
        self.mu = nn.Linear(HID, 1)
        self.sigma = nn.Linear(HID, 1)

    def forward(self, load, cov, station):
        scale = 1.0 + load.abs().mean(1, keepdim=True)
        emb = self.station(station)
        h = torch.zeros(load.shape[0], HID, device=load.device)
        nll = []
        for t in range(CONTEXT):
            x = torch.cat([load[:, t:t + 1] / scale, cov[:, t], emb], dim=-1)
            h = self.cell(x, h)
            mu = self.mu(h) * scale
            sig = F.softplus(self.sigma(h)) * scale + 1e-3
            z = (load[:, t + 1:t + 2] - mu) / sig
            nll.append(0.5 * z.square() + sig.log())
        return torch.cat(nll, dim=1).mean()


class Lookahead:
    """k inner steps forward, 1 step back (Zhang et al., 2019)."""

    def __init__(self, inner, k=4, alpha=0.5):
        self.inner, self.k, self.alpha = inner, k, alpha
        self.count = 0
        self.slow = [[p.detach().clone() for p in g["params"]] for g in inner.param_groups]

    def zero_grad(self):
        self.inner.zero_grad()

    @torch.no_grad()
    def step(self):
        self.inner.step()
        self.count += 1
        if self.count % self.k:
            return
        for group, slow in zip(self.inner.param_groups, self.slow):
            for p, s in zip(group["params"], slow):
                s.add_(p - s, alpha=self.alpha)
                p.copy_(s)

    def tensors(self):
        out = [s for slow in self.slow for s in slow]
        for st in self.inner.state.values():
            out += [v for v in st.values() if torch.is_tensor(v)]
        return out


def live(model, opt):
    out = list(model.parameters())
    out += [p.grad for p in model.parameters() if p.grad is not None]
    return out + opt.tensors()


def dump(path, tensors):
    xs = [t for t in tensors if t.device.type == "xla"]
    xs = [t for t in xs
          if "xla::device_data" not in
          [ln for ln in torch_xla._XLAC._get_xla_tensors_text([t]).splitlines() if "ROOT" in ln][0]]
    with open(path, "w") as f:
        f.write(torch_xla._XLAC._get_xla_tensors_hlo(xs))


def main(path_a, path_b):
    torch.manual_seed(16)
    device = torch_xla.device()
    model = LoadForecaster().to(device)
    opt = Lookahead(torch.optim.RMSprop(model.parameters(), lr=2e-3, alpha=0.95))
    gen = torch.Generator().manual_seed(6)
    torch_xla.sync()
    for step in range(1, 7):
        load = (3.0 + torch.randn(BATCH, CONTEXT + 1, generator=gen)).to(device)
        cov = torch.randn(BATCH, CONTEXT, COV, generator=gen).to(device)
        station = torch.randint(0, 7, (BATCH,), generator=gen).to(device)
        opt.zero_grad()
        loss = model(load, cov, station)
        loss.backward()
        opt.step()
        if step == 3:
            dump(path_a, live(model, opt) + [loss])
        if step == 4:
            dump(path_b, live(model, opt) + [loss])
        torch_xla.sync()
        print(step, round(loss.item(), 5))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
