import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class SelfAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.head_dim = dim // heads
        self.q_proj = nn.Linear(dim, dim)
        self.k_proj = nn.Linear(dim, dim)
        self.v_proj = nn.Linear(dim, dim)
        self.o_proj = nn.Linear(dim, dim)

    def split(self, t):
        b, n, _ = t.shape
        return t.view(b, n, self.heads, self.head_dim).transpose(1, 2)

    def forward(self, x):
        b, n, d = x.shape
        q = self.split(self.q_proj(x))
        k = self.split(self.k_proj(x))
        v = self.split(self.v_proj(x))
        att = torch.matmul(q, k.transpose(-2, -1)) * self.head_dim ** -0.5
        att = att.softmax(dim=-1)
        out = torch.matmul(att, v).transpose(1, 2).reshape(b, n, d)
        return self.o_proj(out)


class Block(nn.Module):
    def __init__(self, dim, heads, ratio=2):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attn = SelfAttention(dim, heads)
        self.norm2 = nn.LayerNorm(dim)
        self.fc1 = nn.Linear(dim, dim * ratio)
        self.fc2 = nn.Linear(dim * ratio, dim)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        h = self.fc2(F.silu(self.fc1(self.norm2(x))))
        return x + h


class SetRegressor(nn.Module):
    """Predict a per-element value and a set-level class."""

    def __init__(self, in_dim=5, dim=16, heads=4, depth=2, classes=3):
        super().__init__()
        self.inp = nn.Linear(in_dim, dim)
        self.blocks = nn.ModuleList([Block(dim, heads) for _ in range(depth)])
        self.reg_head = nn.Linear(dim, 1)
        self.cls_head = nn.Linear(dim, classes)

    def forward(self, x):
        h = self.inp(x)
        for blk in self.blocks:
            h = blk(h)
        return self.reg_head(h).squeeze(-1), self.cls_head(h.mean(dim=1))


def data(step):
    g = torch.Generator().manual_seed(100 + step)
    x = torch.randn(6, 7, 5, generator=g)
    return x, x[..., 0] * x[..., 1], (x.sum((1, 2)) > 0).long()


def compute_loss(model, x, y, c):
    pred, logits = model(x)
    reg_loss = F.mse_loss(pred, y)
    cls_loss = F.cross_entropy(logits, c)
    return reg_loss + cls_loss


def main():
    device = xm.xla_device()
    torch.manual_seed(4)
    model = SetRegressor()
    model.to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    xm.mark_step()
    for step in range(3):
        x, y, c = (t.to(device) for t in data(step))
        opt.zero_grad()
        loss = compute_loss(model, x, y, c)
        loss.backward()
        opt.step()
        xm.mark_step()
        print(step, "loss %.6f" % loss.item())
    print("checksum %.6f" % sum(p.detach().cpu().double().abs().sum().item() for p in model.parameters()))


if __name__ == "__main__":
    main()
