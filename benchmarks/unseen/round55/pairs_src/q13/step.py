"""Gated message passing on padded ego nets."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

from data import EgoNetLoader


class GatedConv(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.msg = nn.Linear(dim, dim, bias=False)
        self.gate = nn.Linear(2 * dim, 1)
        self.upd = nn.Linear(2 * dim, dim)
        self.norm = nn.LayerNorm(dim)

    def forward(self, h, blk):
        hs, hd = h.index_select(0, blk.src), h.index_select(0, blk.dst)
        g = torch.sigmoid(self.gate(torch.cat([hs, hd], -1))) * blk.edge_mask.unsqueeze(-1)
        m = self.msg(hs) * g
        if blk.w is not None:
            m = m * blk.w.unsqueeze(-1)
        agg = torch.zeros_like(h).index_add(0, blk.dst, m)
        deg = torch.zeros(h.shape[0], 1, device=h.device).index_add(0, blk.dst, g)
        agg = agg / (deg + 1e-3)
        return self.norm(h + F.relu(self.upd(torch.cat([h, agg], -1))))


class Net(nn.Module):
    def __init__(self, in_dim, dim, n_classes, depth):
        super().__init__()
        self.inp = nn.Linear(in_dim, dim)
        self.convs = nn.ModuleList(GatedConv(dim) for _ in range(depth))
        self.out = nn.Linear(dim, n_classes)

    def forward(self, blk):
        h = F.relu(self.inp(blk.x))
        for conv in self.convs:
            h = conv(h, blk)
        return self.out(h)


def masked_ce(logits, y, mask):
    nll = F.nll_loss(F.log_softmax(logits, -1), y, reduction="none")
    return (nll * mask).sum() / mask.sum()


def train(epochs=1):
    torch.manual_seed(0)
    dev = torch_xla.device()
    loader = EgoNetLoader(n_nodes=48, dim=10, n_classes=4, n_batches=14)
    net = Net(10, 16, 4, depth=2).to(dev)
    opt = torch.optim.NAdam(net.parameters(), lr=3e-3, momentum_decay=4e-3)
    hits = torch.zeros((), device=dev)
    seen = torch.zeros((), device=dev)
    torch_xla.sync()
    it = 0
    for _ in range(epochs):
        for blk in loader:
            blk = blk.to(dev)
            logits = net(blk)
            loss = masked_ce(logits, blk.y, blk.seed_mask)
            loss.backward()
            opt.step()
            opt.zero_grad(set_to_none=True)
            with torch.no_grad():
                hits += ((logits.argmax(-1) == blk.y) * blk.seed_mask).sum()
                seen += blk.seed_mask.sum()
            torch_xla.sync()
            it += 1
            print(it, blk.src.shape[0], blk.w is not None, f"{loss.item():.4f}")
    print("train acc", (hits / seen).item())


if __name__ == "__main__":
    train()
