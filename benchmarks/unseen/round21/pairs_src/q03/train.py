import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

DIM = 12
BATCH = 8
QUEUE = 64


class Encoder(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(d_in, 24), nn.ReLU(), nn.Linear(24, d_out))

    def forward(self, x):
        return F.normalize(self.net(x), dim=1)


class Contrast:
    """Query/key encoders with a queue of negatives."""

    def __init__(self, device, m=0.95, t=0.2):
        self.q = Encoder(20, DIM).to(device)
        self.k = Encoder(20, DIM).to(device)
        self.k.load_state_dict(self.q.state_dict())
        self.queue = F.normalize(torch.randn(QUEUE, DIM), dim=1).to(device)
        self.ptr = 0
        self.m, self.t = m, t

    @torch.no_grad()
    def momentum_update(self):
        for pq, pk in zip(self.q.parameters(), self.k.parameters()):
            pk.mul_(self.m).add_(pq.detach(), alpha=1.0 - self.m)

    @torch.no_grad()
    def enqueue(self, keys):
        n = keys.shape[0]
        self.queue[self.ptr:self.ptr + n] = keys
        self.ptr = (self.ptr + n) % QUEUE

    def loss(self, x1, x2):
        q = self.q(x1)
        with torch.no_grad():
            k = self.k(x2)
        pos = (q * k).sum(1, keepdim=True)
        neg = q @ self.queue.clone().detach().t()
        logits = torch.cat([pos, neg], 1) / self.t
        target = torch.zeros(len(q), dtype=torch.long, device=q.device)
        return F.cross_entropy(logits, target), k


def main():
    torch.manual_seed(1)
    device = torch_xla.device()
    algo = Contrast(device)
    optim = torch.optim.SGD(algo.q.parameters(), lr=0.05)
    data = torch.randn(6, BATCH, 20)
    for batch in data:
        x1 = (batch + 0.1 * torch.randn_like(batch)).to(device)
        x2 = (batch + 0.1 * torch.randn_like(batch)).to(device)
        optim.zero_grad()
        loss, keys = algo.loss(x1, x2)
        loss.backward()
        optim.step()
        algo.momentum_update()
        algo.enqueue(keys)
        xm.mark_step()
        print("loss %.4f" % loss.item())


if __name__ == "__main__":
    main()
