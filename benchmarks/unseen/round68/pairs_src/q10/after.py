"""Contact maps from pair features, triangle updates."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.debug.metrics as met


class GatedLinear(nn.Module):
    def __init__(self, c_in, c_out):
        super().__init__()
        self.gate = nn.Linear(c_in, c_out)
        self.value = nn.Linear(c_in, c_out)

    def forward(self, z):
        return self.value(z) * self.gate(z).sigmoid()


class TriangleMultiplication(nn.Module):
    def __init__(self, c, h, outgoing):
        super().__init__()
        self.outgoing = outgoing
        self.norm = nn.LayerNorm(c)
        self.a = GatedLinear(c, h)
        self.b = GatedLinear(c, h)
        self.gate = nn.Linear(c, c)
        self.norm_out = nn.LayerNorm(h)
        self.out = nn.Linear(h, c)

    def combine(self, a, b):
        order = (0, 3, 1, 2) if self.outgoing else (0, 3, 2, 1)
        a, b = a.permute(order), b.permute(order)
        return torch.matmul(a, b.transpose(-1, -2)).permute(0, 2, 3, 1)

    def forward(self, z):
        z = self.norm(z)
        g = self.gate(z).sigmoid()
        return self.out(self.norm_out(self.combine(self.a(z), self.b(z)))) * g


class ContactNet(nn.Module):
    def __init__(self, n_aa=21, c=8, h=6, bins=7):
        super().__init__()
        self.pair = nn.ModuleList([nn.Embedding(n_aa, c), nn.Embedding(n_aa, c)])
        self.trunk = nn.ModuleList([TriangleMultiplication(c, h, o) for o in (True, False)])
        self.head = nn.Linear(c, bins)

    def forward(self, seq):
        row, col = (e(seq) for e in self.pair)
        z = row.unsqueeze(2) + col.unsqueeze(1)
        for block in self.trunk:
            z = z + block(z)
        logits = self.head(z)
        return (logits + logits.permute(0, 2, 1, 3)) * 0.5


def masked_mean(v, m):
    return torch.sum(v * m) / torch.sum(m)


def distogram_loss(logits, bins, mask):
    ce = F.nll_loss(F.log_softmax(logits, dim=-1).movedim(-1, 1), bins, reduction="none")
    return masked_mean(ce, torch.einsum("bi,bj->bij", mask, mask))


def data(steps):
    gen = torch.Generator().manual_seed(14)
    for _ in range(steps):
        seq = torch.randint(0, 21, (2, 9), generator=gen)
        bins = torch.randint(0, 7, (2, 9, 9), generator=gen)
        mask = (torch.rand(2, 9, generator=gen) < 0.8).float()
        yield seq, bins, mask


def main(net=None, steps=4, log=print):
    torch.manual_seed(13)
    device = torch_xla.device()
    net = (net or ContactNet()).to(device)
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    torch_xla.sync()
    for step, (seq, bins, mask) in enumerate(data(steps)):
        opt.zero_grad()
        loss = distogram_loss(net(seq.to(device)), bins.to(device), mask.to(device))
        loss.backward()
        opt.step()
        torch_xla.sync()
        log(step, met.counter_value("UncachedCompile") or 0)
    return net


if __name__ == "__main__":
    main()
