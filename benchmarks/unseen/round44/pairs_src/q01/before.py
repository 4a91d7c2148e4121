"""Edge-conditioned message passing on small molecules, regression of two
quantum-chemical targets (gap, dipole).  AdamW, Huber loss."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class EdgeMPNN(nn.Module):
    def __init__(self, node_in=9, edge_in=4, hid=16, targets=2, rounds=2):
        super().__init__()
        self.embed = nn.Linear(node_in, hid)
        self.edge_gate = nn.Linear(edge_in, hid)
        self.message = nn.Linear(hid, hid)
        self.upd = nn.Linear(2 * hid, hid)
        self.norm = nn.LayerNorm(hid)
        self.att = nn.Linear(hid, 1)
        self.head = nn.Linear(hid, targets)
        self.rounds = rounds

    def propagate(self, h, gate, src, dst):
        m = F.silu(self.message(h))[src] * gate
        agg = torch.zeros_like(h)
        agg = agg.index_add(0, dst, m)
        return agg

    def forward(self, x, e, src, dst, graph_of, n_graphs):
        h = F.silu(self.embed(x))
        gate = torch.sigmoid(self.edge_gate(e))
        for _ in range(self.rounds):
            agg = self.propagate(h, gate, src, dst)
            h = self.norm(h + F.silu(self.upd(torch.cat([h, agg], dim=-1))))
        score = torch.sigmoid(self.att(h))
        pooled = h.new_zeros(n_graphs, h.size(1)).index_add(0, graph_of, score * h)
        return self.head(pooled)


def make_batch(gen, n_graphs=6, atoms=5, bonds=18):
    n = n_graphs * atoms
    x = torch.randn(n, 9, generator=gen)
    src = torch.randint(0, n, (bonds * n_graphs,), generator=gen)
    dst = torch.randint(0, n, (bonds * n_graphs,), generator=gen)
    e = torch.randn(bonds * n_graphs, 4, generator=gen)
    graph_of = torch.arange(n_graphs).repeat_interleave(atoms)
    y = torch.randn(n_graphs, 2, generator=gen)
    return x, e, src, dst, graph_of, y


def main(out):
    dev = torch_xla.device()
    torch.manual_seed(11)
    gen = torch.Generator().manual_seed(5)
    model = EdgeMPNN().to(dev)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)
    y_scale = torch.tensor([0.7, 1.3], device=dev)
    torch_xla.sync()
    for step in range(3):
        batch = [t.to(dev) for t in make_batch(gen)]
        x, e, src, dst, graph_of, y = batch
        pred = model(x, e, src, dst, graph_of, y.size(0))
        loss = F.huber_loss(pred / y_scale, y / y_scale, delta=0.5)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step == 2:
            live = [loss]
            for p in model.parameters():
                st = opt.state[p]
                live += [p, p.grad, st["exp_avg"], st["exp_avg_sq"]]
            with open(out, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(step, loss.item())


if __name__ == "__main__":
    main(sys.argv[1])
