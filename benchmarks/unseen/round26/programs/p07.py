"""Link prediction on a transaction graph: edges are sampled per step, accounts have learned embeddings."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


def num_nodes_of(edge_index, num_nodes=None):
    return int(edge_index.max()) + 1 if num_nodes is None else num_nodes


def add_self_loops(edge_index, num_nodes=None):
    n = num_nodes_of(edge_index, num_nodes)
    loop = torch.arange(n, device=edge_index.device)
    return torch.cat([edge_index, torch.stack([loop, loop])], dim=1)


class SageConv(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.lin_l = nn.Linear(d_in, d_out)
        self.lin_r = nn.Linear(d_in, d_out, bias=False)

    def forward(self, x, edge_index):
        src, dst = edge_index[0], edge_index[1]
        agg = torch.zeros(x.size(0), x.size(1), device=x.device).index_add(0, dst, x[src])
        deg = torch.zeros(x.size(0), device=x.device).index_add(0, dst, torch.ones_like(dst, dtype=x.dtype))
        return self.lin_l(agg / deg.clamp(min=1).unsqueeze(1)) + self.lin_r(x)


class LinkModel(nn.Module):
    def __init__(self, n_accounts, dim=24):
        super().__init__()
        self.emb = nn.Embedding(n_accounts, dim)
        self.conv1 = SageConv(dim, dim)
        self.conv2 = SageConv(dim, dim)

    def encode(self, edge_index):
        edge_index = add_self_loops(edge_index)
        x = self.emb.weight
        x = F.relu(self.conv1(x, edge_index))
        return self.conv2(x, edge_index)

    def score(self, z, pairs):
        return (z[pairs[0]] * z[pairs[1]]).sum(-1)


class TransactionGraph:
    def __init__(self, n_accounts=400, n_comm=5, n_edges=1500, seed=0):
        g = torch.Generator().manual_seed(seed)
        comm = torch.randint(0, n_comm, (n_accounts,), generator=g)
        src = (torch.rand(n_edges * 8, generator=g) ** 4 * n_accounts).long()
        dst = (torch.rand(n_edges * 8, generator=g) ** 4 * n_accounts).long()
        keep = (comm[src] == comm[dst]) | (torch.rand(src.shape, generator=g) < 0.03)
        self.edges = torch.stack([src, dst])[:, keep][:, :n_edges]
        self.n_accounts, self.g = n_accounts, g

    def batch(self, n_message, n_pos):
        pick = torch.randperm(self.edges.size(1), generator=self.g)[:n_message + n_pos]
        message, pos = self.edges[:, pick[:n_message]], self.edges[:, pick[n_message:]]
        neg = torch.randint(0, self.n_accounts, (2, n_pos), generator=self.g)
        pairs = torch.cat([pos, neg], 1)
        y = torch.cat([torch.ones(n_pos), torch.zeros(n_pos)])
        return message, pairs, y


def train(steps=70, n_message=96, n_pos=32):
    torch.manual_seed(0)
    device = xm.xla_device()
    graph = TransactionGraph()
    model = LinkModel(graph.n_accounts).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    running = torch.zeros((), device=device)
    torch_xla.sync()
    for step in range(1, steps + 1):
        message, pairs, y = (t.to(device) for t in graph.batch(n_message, n_pos))
        opt.zero_grad()
        z = model.encode(message)
        loss = F.binary_cross_entropy_with_logits(model.score(z, pairs), y)
        loss.backward()
        opt.step()
        running.mul_(0.9).add_(loss.detach(), alpha=0.1)
        torch_xla.sync()
        if step % 10 == 0:
            print(f"{step:4d}  loss(ema) {running.item():.4f}", flush=True)


if __name__ == "__main__":
    train()
