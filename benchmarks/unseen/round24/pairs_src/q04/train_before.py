# image-text matching, small two-tower model
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

D = 16
HEADS = 2
PATCH = 4
VOCAB = 20


class TwoTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Linear(3 * PATCH * PATCH, D)
        self.img_pos = nn.Parameter(torch.randn(4, D) * 0.02)
        self.img_ln = nn.LayerNorm(D)
        self.wq = nn.Linear(D, D)
        self.wk = nn.Linear(D, D)
        self.wv = nn.Linear(D, D)
        self.wo = nn.Linear(D, D)
        self.img_proj = nn.Linear(D, D, bias=False)
        self.word = nn.Embedding(VOCAB, D)
        self.txt_fc1 = nn.Linear(D, 2 * D)
        self.txt_fc2 = nn.Linear(2 * D, D)
        self.txt_proj = nn.Linear(D, D, bias=False)
        self.logit_scale = nn.Parameter(torch.tensor(2.0))

    def encode_image(self, img):
        b, c, h, w = img.shape
        x = img.reshape(b, c, h // PATCH, PATCH, w // PATCH, PATCH)
        x = x.permute(0, 2, 4, 1, 3, 5).reshape(b, -1, c * PATCH * PATCH)
        x = self.patch(x) + self.img_pos
        y = self.img_ln(x)
        n = y.shape[1]
        q = self.wq(y).view(b, n, HEADS, D // HEADS).transpose(1, 2)
        k = self.wk(y).view(b, n, HEADS, D // HEADS).transpose(1, 2)
        v = self.wv(y).view(b, n, HEADS, D // HEADS).transpose(1, 2)
        s = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(D // HEADS)
        s = F.softmax(s, dim=-1)
        o = torch.matmul(s, v).transpose(1, 2).reshape(b, n, D)
        x = x + self.wo(o)
        return self.img_proj(x.mean(dim=1))

    def encode_text(self, ids):
        x = self.word(ids)
        m = (ids != 0).float().unsqueeze(-1)
        x = x + self.txt_fc2(F.gelu(self.txt_fc1(x)))
        x = (x * m).sum(dim=1) / m.sum(dim=1)
        return self.txt_proj(x)

    def forward(self, img, ids):
        zi = self.encode_image(img)
        zt = self.encode_text(ids)
        zi = zi / zi.norm(dim=-1, keepdim=True)
        zt = zt / zt.norm(dim=-1, keepdim=True)
        logits = self.logit_scale.exp() * zi @ zt.t()
        labels = torch.arange(logits.shape[0], device=logits.device)
        loss_i = F.cross_entropy(logits, labels)
        loss_t = F.cross_entropy(logits.t(), labels)
        return (loss_i + loss_t) * 0.5


def batch(gen, n=6):
    img = torch.rand(n, 3, 2 * PATCH, 2 * PATCH, generator=gen)
    ids = torch.randint(0, VOCAB, (n, 7), generator=gen)
    ids[:, 0] = 1
    return img, ids


if __name__ == "__main__":
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(0)
    device = torch_xla.device()
    model = TwoTower().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.01)
    xm.mark_step()
    for step in range(3):
        img, ids = batch(gen)
        img = img.to(device)
        ids = ids.to(device)
        opt.zero_grad()
        loss = model(img, ids)
        loss.backward()
        opt.step()
        xm.mark_step()
        print("step", step, "loss", loss.item())
