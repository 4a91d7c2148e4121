"""Set transformer style point-cloud classifier (research prototype)."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

cfg = dict(points=20, feat=3, dim=32, heads=4, inducing=6, classes=5, batch=6, lr=1e-2, wd=1e-3, steps=4)


class MAB(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)
        self.o = nn.Linear(dim, dim)
        self.ln0 = nn.LayerNorm(dim)
        self.ln1 = nn.LayerNorm(dim)

    def forward(self, a, b):
        n, la, d = a.shape
        lb = b.size(1)
        hd = d // self.heads
        q = self.q(a).view(n, la, self.heads, hd).transpose(1, 2)
        k = self.k(b).view(n, lb, self.heads, hd).transpose(1, 2)
        v = self.v(b).view(n, lb, self.heads, hd).transpose(1, 2)
        w = torch.softmax(torch.matmul(q, k.transpose(2, 3)) * hd ** -0.5, dim=-1)
        h = torch.matmul(w, v).transpose(1, 2).reshape(n, la, d)
        h = self.ln0(a + h)
        return self.ln1(h + F.relu(self.o(h)))


class SetNet(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.inp = nn.Linear(c["feat"], c["dim"])
        self.ind = nn.Parameter(torch.randn(1, c["inducing"], c["dim"]) * 0.2)
        self.to_ind = MAB(c["dim"], c["heads"])
        self.from_ind = MAB(c["dim"], c["heads"])
        self.cls = nn.Linear(c["dim"], c["classes"])

    def forward(self, pts):
        x = self.inp(pts)
        i = self.to_ind(self.ind.expand(x.size(0), -1, -1), x)
        x = self.from_ind(x, i)
        return self.cls(x.mean(dim=1)), i


def clouds(c, gen):
    y = torch.randint(0, c["classes"], (c["batch"],), generator=gen)
    pts = torch.randn(c["batch"], c["points"], c["feat"], generator=gen)
    pts[:, :, 0] *= (1.0 + y.float())[:, None]
    return pts, y


def objective(logits, slots, y):
    ce = F.cross_entropy(logits, y)
    gram = torch.matmul(slots, slots.transpose(1, 2)) / slots.size(-1)
    eye = torch.eye(slots.size(1), device=slots.device)
    ortho = ((gram - eye) ** 2).mean()
    return ce + 0.1 * ortho, ce, ortho


def main():
    torch.manual_seed(5)
    gen = torch.Generator().manual_seed(6)
    dev = torch_xla.device()
    net = SetNet(cfg).to(dev)
    opt = torch.optim.SGD(net.parameters(), lr=cfg["lr"], momentum=0.9, weight_decay=cfg["wd"])
    torch_xla.sync()
    out = []
    for it in range(cfg["steps"]):
        pts, y = clouds(cfg, gen)
        pts, y = pts.to(dev), y.to(dev)
        opt.zero_grad()
        logits, slots = net(pts)
        loss, ce, ortho = objective(logits, slots, y)
        loss.backward()
        opt.step()
        torch_xla.sync()
        out.append((loss.item(), ce.item(), ortho.item()))
        print(it, *("%.6f" % v for v in out[-1]))
    return out


if __name__ == "__main__":
    main()
