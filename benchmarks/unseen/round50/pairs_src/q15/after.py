"""Chemical structure recognition: greedy decoding of a token string with an
LSTM decoder and coverage attention over a padded feature map."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

BOS, EOS, PAD = 1, 2, 0


class Encoder(nn.Module):
    def __init__(self, ch=12):
        super().__init__()
        self.c1 = nn.Conv2d(1, ch, 3, stride=2, padding=1)
        self.b1 = nn.BatchNorm2d(ch)
        self.c2 = nn.Conv2d(ch, ch, 3, stride=2, padding=1)
        self.b2 = nn.BatchNorm2d(ch)

    def forward(self, img):
        x = F.relu(self.b1(self.c1(img)))
        x = F.relu(self.b2(self.c2(x)))
        return x.flatten(2).transpose(1, 2)


class CoverageAttention(nn.Module):
    def __init__(self, mem, query, hid):
        super().__init__()
        self.mem = nn.Linear(mem, hid, bias=False)
        self.query = nn.Linear(query, hid)
        self.cov = nn.Linear(1, hid, bias=False)
        self.v = nn.Linear(hid, 1, bias=False)

    def forward(self, keys, memory, h, coverage, pad):
        e = self.v(torch.tanh(keys + self.query(h).unsqueeze(1)
                              + self.cov(coverage.unsqueeze(-1)))).squeeze(-1)
        a = torch.softmax(e, dim=-1)
        a = a.masked_fill(pad, 0.0)
        ctx = torch.bmm(a.unsqueeze(1), memory).squeeze(1)
        return ctx, a


class Decoder(nn.Module):
    def __init__(self, vocab=18, ch=12, hid=16, emb=8):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb, padding_idx=PAD)
        self.att = CoverageAttention(ch, hid, 10)
        self.cell = nn.LSTMCell(emb + ch, hid)
        self.init_h = nn.Linear(ch, hid)
        self.init_c = nn.Linear(ch, hid)
        self.out = nn.Linear(hid + ch, vocab)

    def generate(self, memory, pad, steps=6):
        keep = (~pad).float().unsqueeze(-1)
        mean = (memory * keep).sum(1) / keep.sum(1).clamp(min=1)
        h, c = torch.tanh(self.init_h(mean)), torch.tanh(self.init_c(mean))
        keys = self.att.mem(memory)
        cov = torch.zeros_like(memory[:, :, 0])
        tok = torch.full_like(pad[:, 0], BOS, dtype=torch.long)
        done = torch.zeros_like(pad[:, 0])
        toks, score = [], torch.zeros_like(mean[:, 0])
        for _ in range(steps):
            ctx, a = self.att(keys, memory, h, cov, pad)
            cov = cov + a
            h, c = self.cell(torch.cat([self.emb(tok), ctx], -1), (h, c))
            logp = F.log_softmax(self.out(torch.cat([h, ctx], -1)), dim=-1)
            best, nxt = logp.max(-1)
            score = score + best.masked_fill(done, 0.0)
            tok = nxt.masked_fill(done, PAD)
            done = done | (tok == EOS)
            toks.append(tok)
        return torch.stack(toks, 1), score, cov


def main(path):
    torch.manual_seed(4)
    dev = xm.xla_device()
    enc, dec = Encoder().to(dev).eval(), Decoder().to(dev).eval()
    g = torch.Generator().manual_seed(8)
    for step in range(3):
        img = torch.rand(3, 1, 12, 20, generator=g).to(dev)
        width = torch.tensor([5, 3, 4])
        pad = (torch.arange(5)[None, :] >= width[:, None])
        pad = pad[:, None, :].expand(3, 3, 5).reshape(3, 15).to(dev)
        xm.mark_step()
        with torch.no_grad():
            memory = enc(img)
            toks, score, cov = dec.generate(memory, pad)
        if step == 1:
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo([toks, score, cov]))
        xm.mark_step()
        print(step, toks.tolist(), score.tolist(), cov.sum().item())


if __name__ == "__main__":
    main(sys.argv[1])
