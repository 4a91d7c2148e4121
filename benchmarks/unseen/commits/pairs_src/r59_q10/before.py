"""Return-conditioned policy (decision transformer) on continuous actions."""
import math
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

OBS, ACT, DIM, HEADS, CTX, BATCH = 9, 3, 24, 2, 5, 6


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.q, self.k, self.v, self.o = (nn.Linear(DIM, DIM) for _ in range(4))
        self.up, self.down = nn.Linear(DIM, 2 * DIM), nn.Linear(2 * DIM, DIM)

    def attention(self, x, mask):
        b, t, _ = x.shape
        q = self.q(x).view(b, t, HEADS, -1).transpose(1, 2)
        k = self.k(x).view(b, t, HEADS, -1).transpose(1, 2)
        v = self.v(x).view(b, t, HEADS, -1).transpose(1, 2)
        w = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(DIM // HEADS)
        w = torch.softmax(w.masked_fill(~mask, -1e9), -1)
        return self.o(torch.matmul(w, v).transpose(1, 2).reshape(b, t, DIM))

    def forward(self, x, mask):
        x = x + self.attention(self.ln1(x), mask)
        h = self.up(self.ln2(x))
        return x + self.down(h * torch.sigmoid(1.702 * h))


class DecisionTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.ret, self.obs, self.act = nn.Linear(1, DIM), nn.Linear(OBS, DIM), nn.Linear(ACT, DIM)
        self.time = nn.Embedding(50, DIM)
        self.block, self.ln = Block(), nn.LayerNorm(DIM)
        self.head = nn.Linear(DIM, ACT)
        self.register_buffer("mask", torch.tril(torch.ones(3 * CTX, 3 * CTX, dtype=torch.bool)))

    def forward(self, r, s, a, t):
        te = self.time(t)
        x = torch.stack([self.ret(r) + te, self.obs(s) + te, self.act(a) + te], 2)
        x = x.reshape(s.size(0), 3 * CTX, DIM)
        x = self.ln(self.block(x, self.mask)).view(s.size(0), CTX, 3, DIM)
        return torch.tanh(self.head(x[:, :, 1]))


def action_loss(pred, target, valid):
    err = (pred - target).pow(2).mean(-1)
    return (err * valid).sum() / valid.sum()


def main():
    torch.manual_seed(44)
    device = torch_xla.device()
    model = DecisionTransformer().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4, foreach=False)
    rng = np.random.default_rng(3)

    def put(x):
        return torch.from_numpy(x).to(device)

    torch_xla.sync()
    for step in range(6):
        s = put(rng.standard_normal((BATCH, CTX, OBS), dtype=np.float32))
        a = put(np.tanh(rng.standard_normal((BATCH, CTX, ACT), dtype=np.float32)))
        r = put(rng.random((BATCH, CTX, 1), dtype=np.float32))
        t = put(rng.integers(0, 40, (BATCH, 1)) + np.arange(CTX))
        valid = put((np.arange(CTX) >= rng.integers(0, 3, (BATCH, 1))).astype(np.float32))
        opt.zero_grad()
        loss = action_loss(model(r, s, a, t), a, valid)
        loss.backward()
        opt.step()
        torch_xla.sync()
        print(step, loss.item(), flush=True)


if __name__ == "__main__":
    main()
