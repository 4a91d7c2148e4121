import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

NODE_BUCKETS = (40, 80)
EDGE_BUCKETS = (72, 96, 144)
GRAPHS_PER_BATCH = 4


def bucket(n, sizes):
    for s in sizes:
        if n <= s:
            return s
    raise ValueError(f"batch of {n} does not fit {sizes}")


def random_molecule(g):
    n = int(torch.randint(5, 9, (1,), generator=g))
    src = torch.arange(n - 1)
    dst = src + 1
    extra = torch.randint(0, n, (2, n // 2), generator=g)
    edge = torch.cat([torch.stack([src, dst]), torch.stack([dst, src]), extra, extra.flip(0)], 1)
    return {
        "z": torch.randint(1, 10, (n,), generator=g),
        "edge": edge,
        "bond": torch.randint(0, 4, (edge.size(1),), generator=g),
        "y": torch.randn(1, generator=g),
    }


def collate(graphs):
    n_real = sum(len(m["z"]) for m in graphs)
    e_real = sum(m["edge"].size(1) for m in graphs)
    n_pad = bucket(n_real + 1, NODE_BUCKETS)
    e_pad = bucket(e_real, EDGE_BUCKETS)
    z = torch.zeros(n_pad, dtype=torch.long)
    owner = torch.full((n_pad,), GRAPHS_PER_BATCH)
    edge = torch.full((2, e_pad), n_pad - 1)
    bond = torch.zeros(e_pad, dtype=torch.long)
    y = torch.zeros(GRAPHS_PER_BATCH)
    i = j = 0
    for k, m in enumerate(graphs):
        n, e = len(m["z"]), m["edge"].size(1)
        z[i:i + n] = m["z"]
        owner[i:i + n] = k
        edge[:, j:j + e] = m["edge"] + i
        bond[j:j + e] = m["bond"]
        y[k] = m["y"]
        i, j = i + n, j + e
    return {"z": z, "owner": owner, "edge": edge, "bond": bond, "y": y}


class MessagePassing(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.msg = nn.Sequential(nn.Linear(3 * d, d), nn.SiLU(), nn.Linear(d, d))
        self.upd = nn.GRUCell(d, d)

    def forward(self, h, edge, e):
        src, dst = edge[0], edge[1]
        m = self.msg(torch.cat([h.index_select(0, src), h.index_select(0, dst), e], -1))
        agg = torch.zeros_like(h).index_add(0, dst, m)
        return self.upd(agg, h)


class PropertyNet(nn.Module):
    def __init__(self, d=12, layers=2):
        super().__init__()
        self.atom = nn.Embedding(12, d, padding_idx=0)
        self.bond = nn.Embedding(4, d)
        self.layers = nn.ModuleList(MessagePassing(d) for _ in range(layers))
        self.out = nn.Sequential(nn.Linear(d, d), nn.SiLU(), nn.Linear(d, 1))

    def forward(self, b):
        h, e = self.atom(b["z"]), self.bond(b["bond"])
        for layer in self.layers:
            h = layer(h, b["edge"], e)
        pooled = h.new_zeros(GRAPHS_PER_BATCH + 1, h.size(1)).index_add(0, b["owner"], h)
        return self.out(pooled[:GRAPHS_PER_BATCH]).squeeze(-1)


def train_step(model, opt, batch):
    opt.zero_grad()
    loss = F.smooth_l1_loss(model(batch), batch["y"])
    loss.backward()
    nn.utils.clip_grad_value_(model.parameters(), 1.0)
    opt.step()
    torch_xla.sync()
    return loss


def main(steps=8):
    torch.manual_seed(0)
    device = torch_xla.device()
    g = torch.Generator().manual_seed(3)
    data = [random_molecule(g) for _ in range(steps * GRAPHS_PER_BATCH)]
    model = PropertyNet().to(device)
    opt = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    torch_xla.sync()
    losses = []
    for s in range(steps):
        cpu = collate(data[s * GRAPHS_PER_BATCH:(s + 1) * GRAPHS_PER_BATCH])
        batch = {k: v.to(device) for k, v in cpu.items()}
        losses.append(train_step(model, opt, batch).detach())
        print(s, len(cpu["z"]), cpu["edge"].size(1))
    print(torch.stack(losses).mean().item())


if __name__ == "__main__":
    main()
