import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        var = x.pow(2).mean(-1, keepdim=True)
        return x * torch.rsqrt(var + self.eps) * self.weight


class GatedMLP(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.norm = RMSNorm(dim)
        self.gate = nn.Linear(dim, hidden, bias=False)
        self.up = nn.Linear(dim, hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)

    def forward(self, x):
        h = self.norm(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Model(nn.Module):
    def __init__(self, vocab=32, dim=16, layers=2):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList(
            GatedMLP(dim, 24) for _ in range(layers))
        self.head = nn.Linear(dim, vocab, bias=False)

    def forward(self, tokens):
        h = self.emb(tokens)
        for block in self.blocks:
            h = block(h)
        return self.head(h)


def main():
    torch.manual_seed(2)
    device = torch_xla.device()
    model = Model().to(torch.bfloat16).to(device)
    optim = torch.optim.SGD(model.parameters(), lr=0.05)
    tokens = torch.randint(0, 32, (5, 4, 9))
    for batch in tokens:
        batch = batch.to(device)
        optim.zero_grad()
        logits = model(batch[:, :-1]).float()
        loss = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        loss.backward()
        optim.step()
        torch_xla.sync()
        print("loss %.3f" % loss.item())


if __name__ == "__main__":
    main()
