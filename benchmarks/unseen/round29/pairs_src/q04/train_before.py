import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

D, H, FF, T, B, C = 32, 4, 64, 16, 4, 30


class Attention(nn.Module):

    def __init__(self):
        super().__init__()
        self.wq = nn.Parameter(torch.randn(D, D) * 0.05)
        self.wk = nn.Parameter(torch.randn(D, D) * 0.05)
        self.wv = nn.Parameter(torch.randn(D, D) * 0.05)
        self.wo = nn.Parameter(torch.randn(D, D) * 0.05)

    def split(self, x):
        return x.view(x.shape[0], x.shape[1], H, D // H).transpose(1, 2)

    def forward(self, x, mask):
        q = self.split(x.matmul(self.wq))
        k = self.split(x.matmul(self.wk))
        v = self.split(x.matmul(self.wv))
        scores = q.matmul(k.transpose(2, 3)) / math.sqrt(D // H)
        scores = scores.masked_fill(mask == 0, -1e9)
        ctx = F.softmax(scores, dim=-1).matmul(v)
        ctx = ctx.transpose(1, 2).reshape(x.shape)
        return ctx.matmul(self.wo)


class Layer(nn.Module):

    def __init__(self):
        super().__init__()
        self.att = Attention()
        self.w1 = nn.Parameter(torch.randn(D, FF) * 0.05)
        self.w2 = nn.Parameter(torch.randn(FF, D) * 0.05)
        self.g1 = nn.Parameter(torch.ones(D))
        self.g2 = nn.Parameter(torch.ones(D))

    def rms(self, x, g):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * g

    def forward(self, x, mask):
        x = x + self.att(self.rms(x, self.g1), mask)
        h = self.rms(x, self.g2).matmul(self.w1)
        h = h * torch.sigmoid(h)
        return x + h.matmul(self.w2)


class LM(nn.Module):

    def __init__(self):
        super().__init__()
        self.emb = nn.Parameter(torch.randn(C, D) * 0.1)
        self.pos = nn.Parameter(torch.randn(T, D) * 0.1)
        self.layers = nn.ModuleList([Layer(), Layer()])

    def forward(self, ids):
        mask = torch.tril(torch.ones(T, T, device=ids.device))
        x = F.embedding(ids, self.emb) + self.pos
        for layer in self.layers:
            x = layer(x, mask)
        return x.matmul(self.emb.t())


def main():
    torch.manual_seed(4)
    model = LM()
    data = torch.randint(0, C, (40, B, T + 1))
    device = torch_xla.device()
    model = model.to(device)
    momentum = [torch.zeros_like(p) for p in model.parameters()]
    torch_xla.sync()

    for step in range(5):
        batch = data[step].to(device)
        x, y = batch[:, :-1], batch[:, 1:]
        logits = model(x)
        loss = F.cross_entropy(logits.reshape(-1, C), y.reshape(-1))
        grads = torch.autograd.grad(loss, list(model.parameters()))
        with torch.no_grad():
            for p, g, m in zip(model.parameters(), grads, momentum):
                m.mul_(0.9).add_(g)
                p.sub_(0.05 * m)
        torch_xla.sync()
        print(step, "%.6f" % loss.item())
    total = sum(float(p.double().abs().sum()) for p in model.cpu().parameters())
    print("checksum %.5f" % total)


if __name__ == "__main__":
    main()
