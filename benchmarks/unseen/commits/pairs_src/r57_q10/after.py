"""FT-Transformer for binary classification on tables with numerical and categorical columns."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

N_NUM, CARDINALITIES, D_TOKEN, HEADS = 5, (4, 7, 11), 16, 2


class FeatureTokenizer(nn.Module):
    def __init__(self, n_num, cardinalities, d):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_num, d).uniform_(-(d**-0.5), d**-0.5))
        self.bias = nn.Parameter(torch.zeros(n_num, d))
        self.cat = nn.ModuleList(nn.Embedding(c, d) for c in cardinalities)
        self.cls = nn.Parameter(torch.randn(d) * 0.02)

    def forward(self, x_num, x_cat):
        num = x_num.unsqueeze(-1) * self.weight + self.bias
        cat = torch.stack([emb(x_cat[:, j]) for j, emb in enumerate(self.cat)], dim=1)
        cls = self.cls.expand(x_num.size(0), 1, -1)
        return torch.cat([num, cat, cls], dim=1)


class Attention(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (nn.Linear(d, d) for _ in range(4))

    def split(self, x):
        b, n, d = x.shape
        return x.view(b, n, self.heads, d // self.heads).transpose(1, 2)

    def forward(self, x):
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        scores = torch.matmul(q, k.transpose(-1, -2)) / q.size(-1) ** 0.5
        y = torch.matmul(torch.softmax(scores, dim=-1), v)
        return self.out(y.transpose(1, 2).reshape(x.shape))


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.attn = Attention(d, heads)
        self.ffn_in = nn.Linear(d, 4 * d)
        self.ffn_out = nn.Linear(2 * d, d)

    def forward(self, x):
        x = x + self.attn(F.layer_norm(x, x.shape[-1:]))
        h = self.ffn_in(F.layer_norm(x, x.shape[-1:]))
        a, gate = h.chunk(2, dim=-1)
        return x + self.ffn_out(a * F.relu(gate))


class FTTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokenizer = FeatureTokenizer(N_NUM, CARDINALITIES, D_TOKEN)
        self.block = Block(D_TOKEN, HEADS)
        self.head = nn.Linear(D_TOKEN, 1)

    def forward(self, x_num, x_cat):
        x = self.block(self.tokenizer(x_num, x_cat))
        return self.head(F.relu(x[:, 0])).squeeze(-1)


def table(n, seed=0):
    g = torch.Generator().manual_seed(seed)
    x_num = torch.randn(n, N_NUM, generator=g)
    x_cat = torch.stack([torch.randint(0, c, (n,), generator=g) for c in CARDINALITIES], dim=1)
    y = (x_num[:, 0] + 0.3 * x_cat[:, 1] > 1).float()
    return x_num, x_cat, y


def train_step(model, optimizer, x_num, x_cat, y):
    optimizer.zero_grad()
    loss = F.binary_cross_entropy_with_logits(model(x_num, x_cat), y)
    loss.backward()
    optimizer.step()
    return loss.detach()


def main(weights=None, steps=6, batch_size=32):
    torch.manual_seed(0)
    device = torch_xla.device()
    model = FTTransformer()
    if weights is not None:
        model.load_state_dict(weights)
    model = model.to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-5)
    data = [t.split(batch_size) for t in table(steps * batch_size)]
    torch_xla.sync()
    losses = []
    for batch in zip(*data):
        losses.append(train_step(model, optimizer, *(t.to(device) for t in batch)))
        torch_xla.sync()
    for step, loss in enumerate(losses):
        xm.master_print(f"step {step} loss {loss.item():.6f}")
    return model, [loss.item() for loss in losses]


if __name__ == "__main__":
    main()
