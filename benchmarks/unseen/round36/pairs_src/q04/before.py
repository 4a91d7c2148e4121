"""Graph attention on padded molecules, multi-label toxicity assay panel (12 assays, many missing)."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch_xla import _XLAC


class GATLayer(nn.Module):
    def __init__(self, d_in, d_head, heads, edge_dim, slope=0.2):
        super().__init__()
        self.d_head, self.heads, self.slope = d_head, heads, slope
        self.proj = nn.Linear(d_in, heads * d_head, bias=False)
        self.a_src = nn.Parameter(torch.randn(heads, d_head) * 0.3)
        self.a_dst = nn.Parameter(torch.randn(heads, d_head) * 0.3)
        self.edge = nn.Linear(edge_dim, heads, bias=False)
        self.bias = nn.Parameter(torch.zeros(heads * d_head))

    def forward(self, x, adj, e):
        z = self.proj(x)
        eb = self.edge(e)
        outs = []
        for k in range(self.heads):
            zk = z[:, :, k * self.d_head:(k + 1) * self.d_head]
            src = torch.matmul(zk, self.a_src[k].unsqueeze(1))
            dst = torch.matmul(zk, self.a_dst[k].unsqueeze(1))
            s = F.leaky_relu(dst + src.transpose(1, 2) + eb[:, :, :, k], self.slope)
            s = s + (1.0 - adj) * -1e9
            s = s - s.max(dim=2, keepdim=True)[0].detach()
            w = torch.exp(s)
            w = w / w.sum(dim=2, keepdim=True)
            outs.append(torch.bmm(w, zk))
        return torch.cat(outs, dim=2) + self.bias


class ToxNet(nn.Module):
    def __init__(self, atoms=9, edge_dim=3, d_head=6, heads=2, assays=12):
        super().__init__()
        d = d_head * heads
        self.embed = nn.Linear(atoms, d)
        self.g1 = GATLayer(d, d_head, heads, edge_dim)
        self.g2 = GATLayer(d, d_head, heads, edge_dim)
        self.norm = nn.LayerNorm(d)
        self.readout = nn.Linear(2 * d, assays)

    def forward(self, x, adj, e, mask):
        h = self.embed(x)
        h = h + F.silu(self.g1(h, adj, e))
        h = h + F.silu(self.g2(h, adj, e))
        h = self.norm(h)
        m = mask.unsqueeze(2)
        mean = (h * m).sum(1) / m.sum(1)
        top = (h + (1.0 - m) * -1e9).max(dim=1)[0]
        return self.readout(torch.cat([mean, top], dim=1))


def assay_loss(logits, y, seen):
    """Binary cross entropy over the measured (molecule, assay) pairs."""
    per = torch.clamp(logits, min=0) - logits * y + torch.log1p(torch.exp(-torch.abs(logits)))
    return (per * seen).sum() / seen.sum()


def train_step(model, opt, data):
    x, adj, e, mask, y, seen = data
    opt.zero_grad()
    loss = assay_loss(model(x, adj, e, mask), y, seen)
    loss.backward()
    opt.step()
    return loss.detach()


def batch(gen, device, b=5, n=10, atoms=9, edge_dim=3, assays=12):
    x = torch.rand(b, n, atoms, generator=gen)
    size = torch.randint(5, n + 1, (b,), generator=gen)
    mask = (torch.arange(n)[None] < size[:, None]).float()
    bond = (torch.rand(b, n, n, generator=gen) < 0.25).float()
    bond = torch.maximum(bond, bond.transpose(1, 2)) * mask[:, :, None] * mask[:, None, :]
    adj = torch.maximum(bond, torch.eye(n)[None])
    e = torch.rand(b, n, n, edge_dim, generator=gen) * bond[..., None]
    y = (torch.rand(b, assays, generator=gen) < 0.2).float()
    seen = (torch.rand(b, assays, generator=gen) < 0.7).float()
    return [v.to(device) for v in (x, adj, e, mask, y, seen)]


def pending(model, opt, *extra):
    out = list(extra)
    for p in model.parameters():
        out += [p, p.grad]
        out += [v for _, v in sorted(opt.state[p].items())
                if torch.is_tensor(v) and v.device.type == "xla"]
    return out


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--dump")
    ap.add_argument("--steps", type=int, default=3)
    args = ap.parse_args()

    torch.manual_seed(21)
    device = torch_xla.device()
    model = ToxNet().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    gen = torch.Generator().manual_seed(22)
    torch_xla.sync()
    for i in range(args.steps):
        loss = train_step(model, opt, batch(gen, device))
        if args.dump and i == args.steps - 1:
            with open(args.dump, "w") as f:
                f.write(_XLAC._get_xla_tensors_hlo(pending(model, opt, loss)))
        torch_xla.sync()
        print(i, loss.item())


if __name__ == "__main__":
    main()
