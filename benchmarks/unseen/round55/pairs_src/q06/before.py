import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

MELS, DIM, HEADS, PHONES = 20, 16, 2, 12


class ConvModule(nn.Module):

    def __init__(self, dim, kernel=5):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.pointwise1 = nn.Linear(dim, 2 * dim)
        self.depthwise = nn.Conv1d(dim, dim, kernel, padding=kernel // 2, groups=dim)
        self.pointwise2 = nn.Linear(dim, dim)

    def forward(self, x):
        x, gate = self.pointwise1(self.norm(x)).chunk(2, dim=-1)
        x = x * torch.sigmoid(gate)
        x = self.depthwise(x.transpose(1, 2)).transpose(1, 2)
        return self.pointwise2(F.silu(x))


class FeedForward(nn.Module):

    def __init__(self, dim, mult=2):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.w1 = nn.Linear(dim, mult * dim)
        self.w2 = nn.Linear(mult * dim, dim)

    def forward(self, x):
        return self.w2(F.silu(self.w1(self.norm(x))))


class SelfAttention(nn.Module):

    def __init__(self, dim, heads):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        b, t, d = x.shape
        qkv = self.qkv(self.norm(x)).view(b, t, 3, self.heads, d // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        att = (q @ k.transpose(-1, -2)) * (d // self.heads) ** -0.5
        return self.out((att.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d))


class ConformerBlock(nn.Module):

    def __init__(self, dim, heads):
        super().__init__()
        self.ff = FeedForward(dim)
        self.attn = SelfAttention(dim, heads)
        self.conv = ConvModule(dim)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
        x = x + self.ff(x)
        x = x + self.attn(x)
        x = x + self.conv(x)
        return self.norm(x)


class FrameClassifier(nn.Module):

    def __init__(self):
        super().__init__()
        self.subsample = nn.Conv1d(MELS, DIM, 3, 2, 1)
        self.block = ConformerBlock(DIM, HEADS)
        self.head = nn.Linear(DIM, PHONES)

    def forward(self, mel):
        x = self.subsample(mel).transpose(1, 2)
        return self.head(self.block(x))


def build_optimizer(model, lr=0.02, weight_decay=1e-3):
    return torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9, weight_decay=weight_decay)


def frame_loss(logits, target, lengths):
    mask = torch.arange(logits.size(1), device=logits.device)[None] < lengths[:, None]
    loss = F.cross_entropy(logits.transpose(1, 2), target, reduction="none")
    return (loss * mask).sum() / mask.sum()


def train(steps=4):
    torch.manual_seed(2)
    device = torch_xla.device()
    model = FrameClassifier().to(device)
    optimizer = build_optimizer(model)
    losses = []
    torch_xla.sync()
    for _ in range(steps):
        mel = torch.randn(3, MELS, 24).to(device)
        target = torch.randint(PHONES, (3, 12)).to(device)
        lengths = torch.randint(6, 13, (3,)).to(device)
        loss = frame_loss(model(mel), target, lengths)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        losses.append(loss.detach())
    print([l.item() for l in losses])


if __name__ == "__main__":
    train()
