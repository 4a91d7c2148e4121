"""Contact maps from pair features, triangle updates."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.debug.metrics as met


class TriangleOut(nn.Module):
    def __init__(self, c, h):
        super().__init__()
        self.norm = nn.LayerNorm(c)
        self.left = nn.Linear(c, h)
        self.left_gate = nn.Linear(c, h)
        self.right = nn.Linear(c, h)
        self.right_gate = nn.Linear(c, h)
        self.norm_out = nn.LayerNorm(h)
        self.out = nn.Linear(h, c)
        self.gate = nn.Linear(c, c)

    def forward(self, z):
        z = self.norm(z)
        a = torch.sigmoid(self.left_gate(z)) * self.left(z)
        b = torch.sigmoid(self.right_gate(z)) * self.right(z)
        x = torch.einsum("bikc,bjkc->bijc", a, b)
        return torch.sigmoid(self.gate(z)) * self.out(self.norm_out(x))


class TriangleIn(nn.Module):
    def __init__(self, c, h):
        super().__init__()
        self.norm = nn.LayerNorm(c)
        self.left = nn.Linear(c, h)
        self.left_gate = nn.Linear(c, h)
        self.right = nn.Linear(c, h)
        self.right_gate = nn.Linear(c, h)
        self.norm_out = nn.LayerNorm(h)
        self.out = nn.Linear(h, c)
        self.gate = nn.Linear(c, c)

    def forward(self, z):
        z = self.norm(z)
        a = torch.sigmoid(self.left_gate(z)) * self.left(z)
        b = torch.sigmoid(self.right_gate(z)) * self.right(z)
        x = torch.einsum("bkic,bkjc->bijc", a, b)
        return torch.sigmoid(self.gate(z)) * self.out(self.norm_out(x))


class ContactNet(nn.Module):
    def __init__(self, n_aa=21, c=8, h=6, bins=7):
        super().__init__()
        self.aa_i = nn.Embedding(n_aa, c)
        self.aa_j = nn.Embedding(n_aa, c)
        self.tri_out = TriangleOut(c, h)
        self.tri_in = TriangleIn(c, h)
        self.head = nn.Linear(c, bins)

    def forward(self, seq):
        z = self.aa_i(seq)[:, :, None] + self.aa_j(seq)[:, None]
        z = z + self.tri_out(z)
        z = z + self.tri_in(z)
        logits = self.head(z)
        return 0.5 * (logits + logits.transpose(1, 2))


def distogram_loss(logits, bins, mask):
    ce = F.cross_entropy(logits.permute(0, 3, 1, 2), bins, reduction="none")
    pair = mask[:, :, None] * mask[:, None, :]
    return (ce * pair).sum() / pair.sum()


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
