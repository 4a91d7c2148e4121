"""Discrete-time survival model over irregular visit sequences (event: readmission)."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

B, VISITS, FEATS, DIM, HEADS, BINS = 8, 6, 5, 16, 2, 10


class VisitAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(DIM, DIM)
        self.k = nn.Linear(DIM, DIM, bias=False)
        self.v = nn.Linear(DIM, DIM)
        self.o = nn.Linear(DIM, DIM)

    def forward(self, x, pad):
        # x [B, V, D], pad [B, V] is True where there is no visit
        q, k, v = self.q(x), self.k(x), self.v(x)
        step = DIM // HEADS
        outs = []
        for h in range(HEADS):
            sl = slice(h * step, (h + 1) * step)
            score = torch.bmm(q[..., sl], k[..., sl].transpose(1, 2)) / step ** 0.5
            score = score.masked_fill(pad[:, None, :], -1e9)
            outs.append(torch.bmm(score.softmax(dim=-1), v[..., sl]))
        return self.o(torch.cat(outs, dim=-1))


class SurvivalNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(FEATS, DIM)
        self.attn = VisitAttention()
        self.norm = nn.LayerNorm(DIM)
        self.ff = nn.Sequential(nn.Linear(DIM, 2 * DIM), nn.GELU(), nn.Linear(2 * DIM, DIM))
        self.head = nn.Linear(DIM, BINS)

    def forward(self, x, pad):
        h = self.embed(x)
        h = self.norm(h + self.attn(h, pad))
        h = h + self.ff(h)
        keep = (~pad).to(h.dtype).unsqueeze(-1)
        pooled = (h * keep).sum(1) / keep.sum(1)
        return self.head(pooled)


def nll(logits, bin_idx, event):
    """- log likelihood; the hazard of bin j is sigmoid(logits[:, j])."""
    log_h = F.logsigmoid(logits)
    log_s = F.logsigmoid(-logits)
    cum = log_s.cumsum(dim=1)
    idx = bin_idx.unsqueeze(1)
    at = log_h.gather(1, idx).squeeze(1)
    surv_incl = cum.gather(1, idx).squeeze(1)
    surv_before = surv_incl - log_s.gather(1, idx).squeeze(1)
    ll = event * (at + surv_before) + (1.0 - event) * surv_incl
    return -ll.mean()


def train_step(model, opt, batch):
    x, pad, bin_idx, event = batch
    loss = nll(model(x, pad), bin_idx, event)
    loss.backward()
    opt.step()
    opt.zero_grad(set_to_none=True)
    return loss.detach()


def make_batch(gen, device):
    x = torch.randn(B, VISITS, FEATS, generator=gen)
    length = torch.randint(1, VISITS + 1, (B, 1), generator=gen)
    pad = torch.arange(VISITS)[None] >= length
    bin_idx = torch.randint(0, BINS, (B,), generator=gen)
    event = (torch.rand(B, generator=gen) < 0.6).float()
    return tuple(t.to(device) for t in (x, pad, bin_idx, event))


def live_tensors(model, opt, loss):
    out = [loss]
    for p in model.parameters():
        out += [p.data, opt.state[p]["exp_avg"], opt.state[p]["exp_avg_sq"]]
    return out


def run(steps, dump_at=None, path=None):
    device = torch_xla.device()
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(1)
    model = SurvivalNet().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    torch_xla.sync()
    hist = []
    for step in range(steps):
        batch = make_batch(gen, device)
        loss = train_step(model, opt, batch)
        if step == dump_at:
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live_tensors(model, opt, loss)))
        torch_xla.sync()
        hist.append(loss.item())
    return hist, [p.detach().cpu() for p in model.parameters()]


if __name__ == "__main__":
    print(run(3, 2, sys.argv[1])[0])
