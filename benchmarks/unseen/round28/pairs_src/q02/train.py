import random
import torch
from torch import nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

SRC_VOCAB = 31
TGT_VOCAB = 29
BOS, PAD = 1, 0
SRC_LEN, TGT_LEN = 9, 3
BATCH = 12


class AdditiveAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.q = nn.Linear(dim, dim, bias=False)
        self.k = nn.Linear(dim, dim, bias=False)
        self.v = nn.Linear(dim, 1, bias=False)

    def forward(self, query, memory, mask):
        e = self.v(torch.tanh(self.q(query).unsqueeze(1) + self.k(memory))).squeeze(-1)
        e = e.masked_fill(mask, -1e4)
        return torch.bmm(F.softmax(e, -1).unsqueeze(1), memory).squeeze(1)


class Seq2Seq(nn.Module):
    def __init__(self, emb=20, hid=32):
        super().__init__()
        self.src_emb = nn.Embedding(SRC_VOCAB, emb, padding_idx=PAD)
        self.tgt_emb = nn.Embedding(TGT_VOCAB, emb, padding_idx=PAD)
        self.enc = nn.Linear(emb, hid)
        self.enc2 = nn.Linear(hid, hid)
        self.attn = AdditiveAttention(hid)
        self.cell = nn.GRUCell(emb + hid, hid)
        self.out = nn.Linear(2 * hid, TGT_VOCAB)

    def encode(self, src):
        x = self.src_emb(src)
        m = torch.relu(self.enc(x))
        m = m + torch.relu(self.enc2(m))
        return m, src.eq(PAD)

    def forward(self, src, tgt, tf_ratio=1.0):
        memory, mask = self.encode(src)
        h = memory.mean(1)
        tok = torch.full_like(tgt[:, 0], BOS)
        logits = []
        for t in range(tgt.size(1)):
            ctx = self.attn(h, memory, mask)
            h = self.cell(torch.cat([self.tgt_emb(tok), ctx], -1), h)
            step = self.out(torch.cat([h, ctx], -1))
            logits.append(step)
            if random.random() < tf_ratio:
                tok = tgt[:, t]
            else:
                tok = step.argmax(-1)
        return torch.stack(logits, 1)


def make_batch(gen):
    src = torch.randint(2, SRC_VOCAB, (BATCH, SRC_LEN), generator=gen)
    lens = torch.randint(5, SRC_LEN + 1, (BATCH,), generator=gen)
    src[torch.arange(SRC_LEN)[None] >= lens[:, None]] = PAD
    tgt = (src[:, :TGT_LEN] * 7 + 3) % (TGT_VOCAB - 2) + 2
    return src, tgt


def train(steps=5):
    random.seed(12)
    torch.manual_seed(12)
    gen = torch.Generator().manual_seed(8)
    dev = torch_xla.device()
    model = Seq2Seq().to(dev)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    xm.mark_step()
    ratio = 0.8
    for it in range(steps):
        src, tgt = (b.to(dev) for b in make_batch(gen))
        logits = model(src, tgt, tf_ratio=ratio)
        loss = F.cross_entropy(logits.flatten(0, 1), tgt.flatten(), ignore_index=PAD)
        opt.zero_grad()
        loss.backward()
        opt.step()
        xm.mark_step()
        print(it, loss.detach().cpu().item())


if __name__ == "__main__":
    train()
