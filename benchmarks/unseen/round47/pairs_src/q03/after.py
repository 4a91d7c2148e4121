"""Message passing on small grids of a water network: predict the pressure class of each network. torch_xla.

Networks are padded to NODES; mask says which nodes are there.
"""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

NODES, FEAT, EDGE, HID, LAYERS, CLASSES, BATCH = 7, 5, 3, 12, 2, 4, 6


class MessageLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.msg = nn.Linear(2 * HID + EDGE, HID)
        self.gate = nn.Linear(2 * HID + EDGE, HID)
        self.upd = nn.Linear(2 * HID, HID)

    def forward(self, h, edges, adj):
        b, n, d = h.shape
        src = h.unsqueeze(1).expand(b, n, n, d)
        dst = h.unsqueeze(2).expand(b, n, n, d)
        pair = torch.cat([dst, src, edges], -1)
        m = torch.sigmoid(self.gate(pair)) * F.softplus(self.msg(pair))
        m = m * adj.unsqueeze(-1)
        deg = adj.sum(2, keepdim=True).clamp(min=1)
        agg = m.sum(2) / deg
        return h + torch.relu(self.upd(torch.cat([h, agg], -1)))


class WaterNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(FEAT, HID)
        self.layers = nn.ModuleList(MessageLayer() for _ in range(LAYERS))
        self.score = nn.Linear(HID, 1)
        self.head = nn.Linear(2 * HID, CLASSES)

    def readout(self, h, mask):
        m = mask.unsqueeze(-1)
        mean = (h * m).mean(1)
        att = self.score(h).squeeze(-1).masked_fill(mask == 0, -1e9)
        att = torch.softmax(att, dim=1)
        return torch.cat([mean, torch.einsum("bn,bnd->bd", att, h)], -1)

    def forward(self, x, edges, adj, mask):
        h = self.inp(x)
        for layer in self.layers:
            h = layer(h, edges, adj)
        return self.head(self.readout(h, mask))


def train_step(model, opt, batch):
    x, edges, adj, mask, y = batch
    opt.zero_grad()
    loss = F.cross_entropy(model(x, edges, adj, mask), y, label_smoothing=0.05)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    return loss.detach()


def make_batch(gen, dev):
    n = torch.randint(4, NODES + 1, (BATCH,), generator=gen)
    mask = (torch.arange(NODES)[None] < n[:, None]).float()
    adj = (torch.rand(BATCH, NODES, NODES, generator=gen) < 0.5).float()
    adj = torch.maximum(adj, adj.transpose(1, 2)) * mask[:, None] * mask[:, :, None]
    x = torch.randn(BATCH, NODES, FEAT, generator=gen) * mask[..., None]
    edges = torch.randn(BATCH, NODES, NODES, EDGE, generator=gen)
    y = torch.randint(0, CLASSES, (BATCH,), generator=gen)
    return [t.to(dev) for t in (x, edges, adj, mask, y)]


def live(model, opt):
    ps = list(model.parameters())
    out = ps + [p.grad for p in ps]
    for p in ps:
        out += [opt.state[p][k] for k in sorted(opt.state[p]) if opt.state[p][k].device.type == "xla"]
    return out


def main(path):
    torch.manual_seed(11)
    dev = torch_xla.device()
    model = WaterNet().to(dev)
    opt = torch.optim.RMSprop(model.parameters(), lr=1e-3, alpha=0.95)
    torch_xla.sync()
    gen = torch.Generator().manual_seed(2)
    for step in range(4):
        loss = train_step(model, opt, make_batch(gen, dev))
        if step == 3:
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live(model, opt) + [loss]))
        torch_xla.sync()
        print(step, round(loss.item(), 6))


if __name__ == "__main__":
    main(sys.argv[1])
