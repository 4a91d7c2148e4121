"""Formation energy of crystals from neighbour lists (gated graph convolutions, CGCNN style)."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

ATOM_IN, ATOM, BOND, NBRS = 10, 8, 6, 4
SIZES = (3, 2, 4)  # atoms per crystal


class GatedConv(nn.Module):

    def __init__(self):
        super().__init__()
        self.fc_full = nn.Linear(2 * ATOM + BOND, 2 * ATOM)
        self.norm = nn.LayerNorm(ATOM)

    def forward(self, atom_fea, nbr_fea, nbr_idx):
        # the linear map of a concatenation is a sum of three: project the atoms before the gather
        w_self, w_nbr, w_bond = self.fc_full.weight.split([ATOM, ATOM, BOND], dim=1)
        centre = F.linear(atom_fea, w_self, self.fc_full.bias)
        neighbour = F.linear(atom_fea, w_nbr).index_select(0, nbr_idx.reshape(-1))
        neighbour = neighbour.reshape(*nbr_idx.shape, 2 * ATOM)
        total = centre.unsqueeze(1) + neighbour + F.linear(nbr_fea, w_bond)
        gate, core = total.chunk(2, dim=2)
        summed = torch.sum(torch.sigmoid(gate) * F.softplus(core), dim=1)
        return F.softplus(atom_fea + self.norm(summed))


class CrystalNet(nn.Module):

    def __init__(self):
        super().__init__()
        self.embedding = nn.Linear(ATOM_IN, ATOM)
        self.convs = nn.ModuleList(GatedConv() for _ in range(2))
        self.hidden = nn.Linear(ATOM, 12)
        self.out = nn.Linear(12, 1)

    def forward(self, atom_in, nbr_fea, nbr_idx, sizes):
        x = self.embedding(atom_in)
        for conv in self.convs:
            x = conv(x, nbr_fea, nbr_idx)
        x = self.pool(x, sizes)
        return self.out(F.softplus(self.hidden(F.softplus(x)))).squeeze(1)

    @staticmethod
    def pool(x, sizes):
        return torch.stack([atoms.mean(dim=0) for atoms in x.split(sizes)])


class Normalizer:

    def __init__(self, mean, std):
        self.mean, self.std = mean, std

    def norm(self, t):
        return (t - self.mean) / self.std


def crystals(gen, device):
    n = sum(SIZES)
    atom_in = torch.randn(n, ATOM_IN, generator=gen)
    nbr_fea = torch.rand(n, NBRS, BOND, generator=gen)
    nbr_idx, begin = [], 0
    for size in SIZES:
        nbr_idx.append(torch.randint(begin, begin + size, (size, NBRS), generator=gen))
        begin += size
    energy = torch.randn(len(SIZES), generator=gen) - 1.5
    return [t.to(device) for t in (atom_in, nbr_fea, torch.cat(nbr_idx), energy)]


def main(dump=None, steps=3):
    torch.manual_seed(14)
    device = torch_xla.device()
    model = CrystalNet().to(device)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3, momentum=0.9)
    normalizer = Normalizer(-1.47, 0.83)
    gen = torch.Generator().manual_seed(2)
    torch_xla.sync()
    losses = []
    for step in range(steps):
        atom_in, nbr_fea, nbr_idx, energy = crystals(gen, device)
        optimizer.zero_grad()
        loss = F.smooth_l1_loss(model(atom_in, nbr_fea, nbr_idx, SIZES), normalizer.norm(energy))
        loss.backward()
        optimizer.step()
        if dump and step == 1:
            params = list(model.parameters())
            live = [loss] + params + [p.grad for p in params]
            for p in params:
                live += [optimizer.state[p]["square_avg"], optimizer.state[p]["momentum_buffer"]]
            with open(dump, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        losses.append(loss.item())
    return losses, [p.detach().cpu() for p in model.parameters()]


if __name__ == "__main__":
    print(main(*sys.argv[1:])[0])
