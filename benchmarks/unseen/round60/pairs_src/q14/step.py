"""Molecular property regression with a small GCN; batches are padded to a fixed budget."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

MAX_NODES, MAX_EDGES, MAX_GRAPHS = 96, 320, 8
ATOM_TYPES = 10


def random_molecules(n, seed=0):
    g = torch.Generator().manual_seed(seed)
    for _ in range(n):
        size = int(torch.randint(6, 12, (1,), generator=g))
        bonds = [(i, int(torch.randint(0, i, (1,), generator=g))) for i in range(1, size)]
        rings = torch.randint(0, size, (2, 2), generator=g).tolist()
        pairs = torch.tensor(bonds + [p for p in rings if p[0] != p[1]])
        atoms = torch.randint(0, ATOM_TYPES, (size,), generator=g)
        yield {
            "atoms": atoms,
            "edge_index": torch.cat([pairs.t(), pairs.t().flip(0)], dim=1),
            "y": atoms.float().mean() * 0.3 + 0.05 * pairs.size(0),
        }


def pad(t, size, value=0):
    return F.pad(t, (0, size - t.size(-1)), value=value)


def collate(molecules):
    num_nodes, atoms, edges, graph_of, ys = 0, [], [], [], []
    for i, mol in enumerate(molecules):
        atoms.append(mol["atoms"])
        edges.append(mol["edge_index"] + num_nodes)
        graph_of.append(torch.full_like(mol["atoms"], i))
        ys.append(mol["y"])
        num_nodes += mol["atoms"].numel()
    loops = torch.arange(num_nodes).repeat(2, 1)
    edge_index = torch.cat([*edges, loops], dim=1)
    return {
        "atoms": pad(torch.cat(atoms), MAX_NODES),
        "edge_index": pad(edge_index, MAX_EDGES),
        "edge_mask": pad(torch.ones(edge_index.size(1)), MAX_EDGES),
        "graph_of": pad(torch.cat(graph_of), MAX_NODES),
        "node_mask": pad(torch.ones(num_nodes), MAX_NODES),
        "num_nodes": num_nodes,
        "y": torch.stack(ys),
    }


def to_device(batch, device):
    return {k: v.to(device) if torch.is_tensor(v) else v for k, v in batch.items()}


def degree(index, num_nodes, weight):
    return weight.new_zeros(num_nodes).index_add(0, index, weight)


def gcn_norm(batch):
    """D^-1/2 (A + I) D^-1/2 per edge; the loops are among the edges."""
    src, dst = batch["edge_index"]
    inv_sqrt = degree(dst, batch["num_nodes"], batch["edge_mask"]).clamp(min=1).rsqrt()
    return inv_sqrt[src] * inv_sqrt[dst] * batch["edge_mask"]


class GCNLayer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.lin = nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x, edge_index, edge_weight):
        src, dst = edge_index
        h = self.lin(x)
        out = torch.zeros_like(h).index_add(0, dst, h[src] * edge_weight.unsqueeze(-1))
        return x + F.relu(self.norm(out))


class MoleculeNet(nn.Module):
    def __init__(self, dim=24, layers=2):
        super().__init__()
        self.embed = nn.Embedding(ATOM_TYPES, dim)
        self.layers = nn.ModuleList(GCNLayer(dim) for _ in range(layers))
        self.head = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, 1))

    def forward(self, batch):
        x = self.embed(batch["atoms"])
        edge_weight = gcn_norm(batch)
        for layer in self.layers:
            x = layer(x, batch["edge_index"], edge_weight)
        x = x * batch["node_mask"].unsqueeze(-1)
        pooled = x.new_zeros(MAX_GRAPHS, x.size(-1)).index_add(0, batch["graph_of"], x)
        count = batch["node_mask"].new_zeros(MAX_GRAPHS).index_add(0, batch["graph_of"], batch["node_mask"])
        return self.head(pooled / count.clamp(min=1).unsqueeze(-1)).squeeze(-1)


def grad_norm(model):
    return torch.stack([p.grad.norm() for p in model.parameters()]).norm()


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    molecules = list(random_molecules(80))
    model = MoleculeNet().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    history = []
    for step in range(len(molecules) // MAX_GRAPHS):
        batch = to_device(collate(molecules[step * MAX_GRAPHS:(step + 1) * MAX_GRAPHS]), device)
        optimizer.zero_grad()
        loss = F.smooth_l1_loss(model(batch), batch["y"])
        loss.backward()
        if step % 5 == 0:
            history.append({"step": step, "loss": loss.detach(), "grad_norm": grad_norm(model)})
        optimizer.step()
        torch_xla.sync()
    for entry in history:
        print({k: round(float(v), 4) for k, v in entry.items()})


if __name__ == "__main__":
    main()
