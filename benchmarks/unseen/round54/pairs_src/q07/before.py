"""Masked-code pre-training on patients' visits (diagnosis codes, age, visit number)."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

N_CODES, N_AGES, MAX_VISITS, MASK_ID, PAD_ID = 120, 100, 16, 1, 0


class VisitEmbeddings(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.code = nn.Embedding(N_CODES, dim, padding_idx=PAD_ID)
        self.age = nn.Embedding(N_AGES, dim)
        self.visit = nn.Embedding(MAX_VISITS, dim)
        self.norm = nn.LayerNorm(dim)

    def forward(self, codes, ages, visits):
        return self.norm(self.code(codes) + self.age(ages) + self.visit(visits))


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.ffn = nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))

    def forward(self, x, bias):
        b, t, d = x.shape
        split = lambda z: z.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        q, k, v = split(self.q(x)), split(self.k(x)), split(self.v(x))
        att = (q @ k.transpose(-1, -2) * (d // self.heads) ** -0.5 + bias).softmax(-1)
        x = self.norm1(x + self.o((att @ v).transpose(1, 2).reshape(b, t, d)))
        return self.norm2(x + self.ffn(x))


class PatientModel(nn.Module):
    def __init__(self, dim=32, heads=4, layers=1):
        super().__init__()
        self.embeddings = VisitEmbeddings(dim)
        self.layers = nn.ModuleList(Layer(dim, heads) for _ in range(layers))
        self.transform = nn.Linear(dim, dim)
        self.decoder = nn.Linear(dim, N_CODES)

    def tie_weights(self):
        self.decoder.weight = self.embeddings.code.weight

    def forward(self, codes, ages, visits):
        bias = (codes == PAD_ID).float()[:, None, None, :] * -1e4
        x = self.embeddings(codes, ages, visits)
        for layer in self.layers:
            x = layer(x, bias)
        return self.decoder(torch.tanh(self.transform(x)))


def patients(gen, batch=6, length=18):
    codes = torch.randint(2, N_CODES, (batch, length), generator=gen)
    visits = torch.randint(0, 2, (batch, length), generator=gen).cumsum(1).clamp(max=MAX_VISITS - 1)
    ages = torch.randint(20, 80, (batch, 1), generator=gen) + visits
    n = torch.randint(length // 2, length + 1, (batch, 1), generator=gen)
    codes = codes.masked_fill(torch.arange(length) >= n, PAD_ID)
    chosen = (torch.rand(codes.shape, generator=gen) < 0.15) & (codes != PAD_ID)
    labels = codes.masked_fill(~chosen, -100)
    return codes.masked_fill(chosen, MASK_ID), ages, visits, labels


def main():
    torch.manual_seed(7)
    gen = torch.Generator().manual_seed(7)
    device = torch_xla.device()
    model = PatientModel().to(device)
    model.tie_weights()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(4):
        codes, ages, visits, labels = (t.to(device) for t in patients(gen))
        logits = model(codes, ages, visits)
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        print(step, f"{loss.item():.5f}")


if __name__ == "__main__":
    main()
