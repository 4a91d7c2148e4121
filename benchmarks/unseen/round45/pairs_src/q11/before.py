"""DeepSurv on a small clinical cohort: Cox partial likelihood, competing covariate blocks."""
import os
import sys

os.environ.setdefault("PJRT_DEVICE", "CPU")
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

OUT = sys.argv[1]
B, N_NUM, N_CAT = 24, 11, 3
CARDS = (5, 4, 7)


class CovariateEncoder(nn.Module):
    def __init__(self, dim=12):
        super().__init__()
        self.embs = nn.ModuleList([nn.Embedding(c, 4) for c in CARDS])
        self.num = nn.Linear(N_NUM, dim)
        self.norm = nn.BatchNorm1d(dim)

    def forward(self, num, cat):
        e = [emb(cat[:, i]) for i, emb in enumerate(self.embs)]
        h = F.elu(self.norm(self.num(num)))
        return torch.cat([h] + e, dim=1)


class DeepSurv(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.enc = CovariateEncoder()
        self.fc1 = nn.Linear(12 + 4 * N_CAT, dim)
        self.fc2 = nn.Linear(dim, 10)
        self.ln = nn.LayerNorm(10)
        self.head = nn.Linear(10, 1, bias=False)

    def forward(self, num, cat):
        h = self.enc(num, cat)
        h = F.elu(self.fc1(h))
        h = self.ln(F.elu(self.fc2(h)))
        return self.head(h).squeeze(-1)


def cox_ph_loss(log_h, durations, events, eps=1e-7):
    order = torch.argsort(durations, descending=True)
    events = events[order]
    log_h = log_h[order]
    gamma = log_h.max().detach()
    log_risk = log_h.sub(gamma).exp().cumsum(0).add(eps).log().add(gamma)
    return -(log_h - log_risk).mul(events).sum().div(events.sum())


def live(model, opt, *extra):
    out = list(extra)
    for p in model.parameters():
        out.append(p)
        out.append(p.grad)
    out += list(model.buffers())
    for p in model.parameters():
        st = opt.state[p]
        out += [st[k] for k in sorted(st) if torch.is_tensor(st[k]) and st[k].device.type == "xla"]
    return out


def main():
    torch.manual_seed(7)
    dev = torch_xla.device()
    model = DeepSurv().to(dev)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3, weight_decay=1e-4)
    g = torch.Generator().manual_seed(1)
    for it in range(3):
        num = torch.randn(B, N_NUM, generator=g).to(dev)
        cat = torch.stack([torch.randint(0, c, (B,), generator=g) for c in CARDS], 1).to(dev)
        durations = torch.rand(B, generator=g).to(dev)
        events = (torch.rand(B, generator=g) < 0.6).float().to(dev)
        opt.zero_grad(set_to_none=True)
        loss = cox_ph_loss(model(num, cat), durations, events)
        l2 = 1e-3 * model.head.weight.abs().sum()
        total = loss + l2
        total.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0, foreach=False)
        opt.step()
        if it == 2:
            with open(OUT, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live(model, opt, loss, total)))
        torch_xla.sync()
        print(it, loss.item(), total.item())


if __name__ == "__main__":
    main()
