"""Antibody design: masked residue modelling of CDR loops."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

AMINO = 20
MASK_ID = 20
LOOP = 14
BATCH = 6
DIM = 24
STEPS = 36


class LoopEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.residue = nn.Embedding(AMINO + 1, DIM)
        self.position = nn.Parameter(torch.randn(LOOP, DIM) * 0.02)
        self.q = nn.Linear(DIM, DIM)
        self.k = nn.Linear(DIM, DIM)
        self.v = nn.Linear(DIM, DIM)
        self.up = nn.Linear(DIM, 32)
        self.down = nn.Linear(32, DIM)
        self.out = nn.Linear(DIM, AMINO)

    def forward(self, seq, slope):
        h = self.residue(seq) + self.position
        att = torch.softmax(self.q(h) @ self.k(h).transpose(1, 2) / DIM ** 0.5, dim=-1)
        h = h + att @ self.v(h)
        h = h + self.down(F.leaky_relu(self.up(h), negative_slope=slope))
        return self.out(h)


def sample_loops(gen):
    """Loops with a conserved start and end, as in a germline family."""
    seq = torch.randint(0, AMINO, (BATCH, LOOP), generator=gen)
    seq[:, 0] = 4
    seq[:, -1] = 18
    seq[:, 1] = (seq[:, 2] + 3) % AMINO
    return seq


def corrupt(seq, gen, rate=0.25):
    chosen = torch.rand(seq.shape, generator=gen) < rate
    chosen[:, 1] = True
    return seq.masked_fill(chosen, MASK_ID), chosen


def slope_at(step):
    return 0.3 * (1.0 - step / STEPS) + 0.01


def main():
    torch.manual_seed(17)
    gen = torch.Generator().manual_seed(23)
    device = torch_xla.device()
    model = LoopEncoder().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(STEPS):
        seq = sample_loops(gen)
        noisy, chosen = corrupt(seq, gen)
        seq, noisy, chosen = seq.to(device), noisy.to(device), chosen.to(device)
        opt.zero_grad()
        logits = model(noisy, slope_at(step))
        loss = F.cross_entropy(logits[chosen], seq[chosen])
        loss.backward()
        opt.step()
        torch_xla.sync()
        if (step + 1) % 12 == 0:
            print(f"{step + 1:3d} masked residue loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
