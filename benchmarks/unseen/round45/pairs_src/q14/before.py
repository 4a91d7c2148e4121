"""Graph attention over small molecule graphs (dense adjacency) -> logP / TPSA regression."""
import os
import sys

os.environ.setdefault("PJRT_DEVICE", "CPU")
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

OUT = sys.argv[1]
B, N, F_IN, HID, HEADS = 3, 6, 7, 4, 2


class GATLayer(nn.Module):
    def __init__(self, n_in, n_out, heads):
        super().__init__()
        self.heads, self.n_out = heads, n_out
        self.W = nn.Parameter(torch.empty(n_in, heads * n_out))
        self.a = nn.Parameter(torch.empty(heads, 2 * n_out))
        self.bias = nn.Parameter(torch.zeros(heads * n_out))
        nn.init.xavier_uniform_(self.W)
        nn.init.xavier_uniform_(self.a)

    def forward(self, x, adj):
        b, n, _ = x.shape
        h = (x @ self.W).view(b, n, self.heads, self.n_out).transpose(1, 2)
        hi = h.unsqueeze(3).expand(b, self.heads, n, n, self.n_out)
        hj = h.unsqueeze(2).expand(b, self.heads, n, n, self.n_out)
        pair = torch.cat([hi, hj], dim=-1)
        e = (pair * self.a.view(1, self.heads, 1, 1, -1)).sum(-1)
        e = F.leaky_relu(e, 0.2)
        mask = adj.unsqueeze(1) > 0
        e = torch.where(mask, e, torch.full_like(e, -9e15))
        e = e - e.max(dim=-1, keepdim=True)[0].detach()
        w = torch.exp(e)
        att = w / w.sum(dim=-1, keepdim=True)
        out = torch.matmul(att, h).transpose(1, 2).reshape(b, n, -1)
        return out + self.bias


class MolNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.g1 = GATLayer(F_IN, HID, HEADS)
        self.g2 = GATLayer(HID * HEADS, HID, HEADS)
        self.gate = nn.Linear(HID * HEADS, 1)
        self.head = nn.Linear(HID * HEADS, 2)

    def forward(self, x, adj, node_mask):
        h = F.elu(self.g1(x, adj))
        h = h + F.elu(self.g2(h, adj))
        g = torch.sigmoid(self.gate(h)) * node_mask.unsqueeze(-1)
        pooled = (g * h).sum(dim=1) / node_mask.sum(dim=1, keepdim=True)
        return self.head(pooled)


def loss_fn(pred, target):
    err = pred - target
    absr = err.abs()
    quad = torch.clamp(absr, max=1.0)
    return (0.5 * quad ** 2 + (absr - quad)).mean()


def batch(g, dev):
    x = torch.randn(B, N, F_IN, generator=g)
    adj = (torch.rand(B, N, N, generator=g) < 0.4).float()
    adj = ((adj + adj.transpose(1, 2) + torch.eye(N)) > 0).float()
    node_mask = torch.ones(B, N)
    node_mask[0, 4:] = 0
    y = torch.randn(B, 2, generator=g)
    return [t.to(dev) for t in (x, adj, node_mask, y)]


def live(model, opt, *extra):
    out = list(extra)
    for p in model.parameters():
        out += [p, p.grad]
    for p in model.parameters():
        st = opt.state[p]
        out += [st["exp_avg"], st["exp_avg_sq"]]
    return out


def main():
    torch.manual_seed(21)
    dev = torch_xla.device()
    model = MolNet().to(dev)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-2)
    g = torch.Generator().manual_seed(9)
    for it in range(4):
        x, adj, node_mask, y = batch(g, dev)
        opt.zero_grad(set_to_none=True)
        loss = loss_fn(model(x, adj, node_mask), y)
        loss.backward()
        opt.step()
        if it == 3:
            with open(OUT, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live(model, opt, loss)))
        torch_xla.sync()
        print(it, loss.item(), sum(p.detach().cpu().double().abs().sum().item() for p in model.parameters()))


if __name__ == "__main__":
    main()
