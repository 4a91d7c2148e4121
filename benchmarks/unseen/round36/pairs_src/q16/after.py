"""Graph attention on small molecules (edge features, two layers), one Adam step."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

ATOMS, BONDS, GRAPHS = 26, 60, 4
F_ATOM, F_BOND, HEADS, DIM = 9, 4, 2, 8


def segment_sum(values, index, size):
    out = values.new_zeros((size,) + tuple(values.shape[1:]))
    return out.index_add(0, index, values)


def segment_softmax(score, index, size):
    score = torch.exp(score - score.detach().max())
    norm = segment_sum(score, index, size)
    return score / (norm[index] + 1e-9)


class EdgeGAT(nn.Module):
    def __init__(self, d_in):
        super().__init__()
        self.lin = nn.Linear(d_in, HEADS * DIM, bias=False)
        self.edge = nn.Linear(F_BOND, HEADS, bias=False)
        self.att_src = nn.Parameter(0.3 * torch.randn(1, HEADS, DIM))
        self.att_dst = nn.Parameter(0.3 * torch.randn(1, HEADS, DIM))
        self.bias = nn.Parameter(torch.zeros(HEADS * DIM))

    def forward(self, x, src, dst, bonds):
        n = x.size(0)
        h = self.lin(x).view(n, HEADS, DIM)
        a_src = (h * self.att_src).sum(dim=-1)
        a_dst = (h * self.att_dst).sum(dim=-1)
        score = F.leaky_relu(a_src[src] + a_dst[dst] + self.edge(bonds), 0.2)
        alpha = segment_softmax(score, src, n)
        out = segment_sum(alpha.unsqueeze(-1) * h[src], dst, n)
        return out.reshape(n, HEADS * DIM) + self.bias


class MolNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.gat1 = EdgeGAT(F_ATOM)
        self.gat2 = EdgeGAT(HEADS * DIM)
        self.skip = nn.Linear(F_ATOM, HEADS * DIM)
        self.read = nn.Sequential(nn.Linear(HEADS * DIM, 16), nn.SiLU(), nn.Linear(16, 1))

    def forward(self, g):
        x, bonds, src, dst, mol = g
        h = F.elu(self.gat1(x, src, dst, bonds) + self.skip(x))
        h = F.elu(self.gat2(h, src, dst, bonds) + h)
        total = segment_sum(h, mol, GRAPHS)
        count = segment_sum(torch.ones_like(h[:, :1]), mol, GRAPHS)
        return self.read(total / count.clamp(min=1.0)).squeeze(-1)


def train_step(net, opt, g, y):
    opt.zero_grad()
    loss = F.smooth_l1_loss(net(g), y, beta=0.5)
    loss.backward()
    opt.step()
    opt.zero_grad()
    return loss.detach()


def live(net, opt, loss):
    out = list(net.parameters())
    for p in net.parameters():
        s = opt.state[p]
        out += [s["exp_avg"], s["exp_avg_sq"], s["max_exp_avg_sq"]]
    return out + [loss]


def setup():
    torch.manual_seed(16)
    dev = torch_xla.device()
    net = MolNet().to(dev)
    opt = torch.optim.Adam(net.parameters(), lr=3e-3, amsgrad=True)
    mol = torch.arange(ATOMS) * GRAPHS // ATOMS
    src = torch.randint(0, ATOMS, (BONDS,))
    first = torch.tensor([(mol < m).sum() for m in range(GRAPHS)])
    size = torch.tensor([(mol == m).sum() for m in range(GRAPHS)])
    dst = first[mol[src]] + torch.randint(0, 1000, (BONDS,)) % size[mol[src]]
    g = tuple(v.to(dev) for v in (
        torch.randn(ATOMS, F_ATOM), torch.randn(BONDS, F_BOND), src, dst, mol))
    y = torch.randn(GRAPHS).to(dev)
    torch_xla.sync()
    return net, opt, g, y


def main(path):
    net, opt, g, y = setup()
    for it in range(4):
        loss = train_step(net, opt, g, y)
        if it == 3 and path:
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live(net, opt, loss)))
        torch_xla.sync()
        print(it, loss.item())


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
