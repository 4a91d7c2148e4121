"""Set transformer with two heads: element regression + set classification."""
from functools import partial

import torch
from torch import nn
from torch.nn.functional import linear, log_softmax, nll_loss
import torch_xla


def fold_heads(t, n_heads):
    return t.unflatten(-1, (n_heads, -1)).permute(0, 2, 1, 3)


def unfold_heads(t):
    return t.permute(0, 2, 1, 3).flatten(2)


def attend(query, key, value, scale):
    weights = torch.einsum("bhid,bhjd->bhij", query, key) * scale
    weights = torch.softmax(weights, -1)
    return torch.einsum("bhij,bhjd->bhid", weights, value)


class MHSA(nn.Module):
    def __init__(self, width, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.scale = (width // n_heads) ** -0.5
        # creation order kept for reproducible init
        self.to_q, self.to_k, self.to_v = (nn.Linear(width, width) for _ in range(3))
        self.merge = nn.Linear(width, width)

    def forward(self, tokens):
        proj = partial(fold_heads, n_heads=self.n_heads)
        value = proj(linear(tokens, self.to_v.weight, self.to_v.bias))
        key = proj(linear(tokens, self.to_k.weight, self.to_k.bias))
        query = proj(linear(tokens, self.to_q.weight, self.to_q.bias))
        return self.merge(unfold_heads(attend(query, key, value, self.scale)))


class FeedForward(nn.Module):
    def __init__(self, width, mult):
        super().__init__()
        self.up = nn.Linear(width, width * mult)
        self.down = nn.Linear(width * mult, width)

    def forward(self, tokens):
        u = self.up(tokens)
        return self.down(u * torch.sigmoid(u))


class PreNorm(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.inner = inner

    def forward(self, tokens):
        return self.inner(self.norm(tokens)) + tokens


def layer(width, n_heads, mult=2):
    return [PreNorm(width, MHSA(width, n_heads)), PreNorm(width, FeedForward(width, mult))]


class SetTransformer(nn.Module):
    def __init__(self, features=5, width=16, n_heads=4, n_layers=2, n_classes=3):
        super().__init__()
        self.embed = nn.Linear(features, width)
        trunk = []
        for _ in range(n_layers):
            trunk += layer(width, n_heads)
        self.trunk = nn.Sequential(*trunk)
        self.value_out = nn.Linear(width, 1)
        self.class_out = nn.Linear(width, n_classes)

    def forward(self, elements):
        tokens = self.trunk(self.embed(elements))
        pooled = tokens.transpose(1, 2).mean(-1)
        return {"classes": self.class_out(pooled), "values": self.value_out(tokens)[..., 0]}


def objective(out, values, classes):
    ce = nll_loss(log_softmax(out["classes"], dim=-1), classes)
    return ce + nn.MSELoss()(out["values"], values)


def fetch(step):
    g = torch.Generator().manual_seed(100 + step)
    x = torch.randn(6, 7, 5, generator=g)
    return x, x[..., 0] * x[..., 1], (x.sum((1, 2)) > 0).long()


if __name__ == "__main__":
    dev = torch_xla.device()
    torch.manual_seed(4)
    net = SetTransformer().to(dev)
    groups = list(reversed(list(net.parameters())))
    sgd = torch.optim.SGD(groups, lr=0.02, momentum=0.9)
    torch_xla.sync()
    for step in range(3):
        elements, values, classes = fetch(step)
        classes = classes.to(dev)
        values, elements = values.to(dev), elements.to(dev)
        sgd.zero_grad()
        total = objective(net(elements), values, classes)
        total.backward()
        sgd.step()
        torch_xla.sync()
        print(step, "loss %.6f" % total.item())
    print("checksum %.6f" % sum(p.detach().cpu().double().abs().sum().item() for p in groups))
