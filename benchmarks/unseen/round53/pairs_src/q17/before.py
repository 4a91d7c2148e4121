"""Learned particle simulator (encode, process, decode), one-step acceleration loss."""
import torch
import torch.nn as nn
import torch_xla


def mlp(n_in, n_out, hidden=24, norm=True):
    layers = [nn.Linear(n_in, hidden), nn.ReLU(), nn.Linear(hidden, n_out)]
    if norm:
        layers.append(nn.LayerNorm(n_out))
    return nn.Sequential(*layers)


class InteractionBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.edge_fn = mlp(3 * dim, dim)
        self.node_fn = mlp(2 * dim, dim)

    def forward(self, nodes, edges, senders, receivers):
        e = self.edge_fn(torch.cat([edges, nodes[senders], nodes[receivers]], -1))
        agg = torch.zeros_like(nodes).index_add(0, receivers, e)
        n = self.node_fn(torch.cat([nodes, agg], -1))
        return nodes + n, edges + e


class Simulator(nn.Module):
    def __init__(self, dim=24, history=5, types=3, blocks=1):
        super().__init__()
        self.type_embed = nn.Embedding(types, 8)
        self.node_enc = nn.Linear(2 * history + 8, dim)
        self.edge_enc = nn.Linear(3, dim)
        self.blocks = nn.ModuleList(InteractionBlock(dim) for _ in range(blocks))
        self.decoder = mlp(dim, 2, norm=False)

    def forward(self, velocities, position, kind, senders, receivers):
        nodes = self.node_enc(torch.cat([velocities.flatten(1), self.type_embed(kind)], -1))
        rel = position[senders] - position[receivers]
        edges = self.edge_enc(torch.cat([rel, rel.norm(dim=-1, keepdim=True)], -1))
        for block in self.blocks:
            nodes, edges = block(nodes, edges, senders, receivers)
        return self.decoder(nodes)


def build_optimizer(model, lr=1e-3, weight_decay=1e-4):
    return torch.optim.AdamW(model.parameters(), lr=lr, betas=(0.9, 0.99), weight_decay=weight_decay)


def random_walk_noise(velocities, std):
    steps = velocities.shape[1]
    return torch.cumsum(torch.randn_like(velocities) * (std / steps ** 0.5), dim=1)


def train_step(model, opt, sample, noise_std=3e-3):
    velocities, position, kind, senders, receivers, target = sample
    noise = random_walk_noise(velocities, noise_std)
    pred = model(velocities + noise, position, kind, senders, receivers)
    free = (kind != 2).float()[:, None]
    loss = ((pred - (target - noise[:, -1])) ** 2 * free).sum() / free.sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss


def samples(count, device, n=40, e=160, seed=0):
    g = torch.Generator().manual_seed(seed)
    for _ in range(count):
        yield [t.to(device) for t in (
            torch.randn(n, 5, 2, generator=g) * 0.1, torch.rand(n, 2, generator=g),
            torch.randint(0, 3, (n,), generator=g), torch.randint(0, n, (e,), generator=g),
            torch.randint(0, n, (e,), generator=g), torch.randn(n, 2, generator=g))]


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    model = Simulator().to(device)
    opt = build_optimizer(model)
    torch_xla.sync()
    for step, sample in enumerate(samples(4, device)):
        loss = train_step(model, opt, sample)
        torch_xla.sync()
        print(step, loss.item())


if __name__ == "__main__":
    main()
