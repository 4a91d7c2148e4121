"""Scores a GRU translation model on held-out pairs: greedy decoding, token accuracy, edit-free F1."""
import torch
import torch.nn as nn
import torch_xla

BOS, EOS, VOCAB, DIM = 1, 2, 60, 16


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, DIM)
        self.fwd, self.bwd = nn.GRUCell(DIM, DIM), nn.GRUCell(DIM, DIM)

    def forward(self, src):
        x = self.emb(src)
        n = src.shape[1]
        outf, outb = [], []
        hf = torch.zeros(src.shape[0], DIM, device=src.device)
        for t in range(n):
            hf = self.fwd(x[:, t], hf)
            outf.append(hf)
        hb = torch.zeros(src.shape[0], DIM, device=src.device)
        for t in reversed(range(n)):
            hb = self.bwd(x[:, t], hb)
            outb.insert(0, hb)
        return torch.cat([torch.stack(outf, 1), torch.stack(outb, 1)], -1)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, DIM)
        self.cell = nn.GRUCell(3 * DIM, 2 * DIM)
        self.att = nn.Linear(2 * DIM, 2 * DIM)
        self.out = nn.Linear(4 * DIM, VOCAB)

    def step(self, tok, ctx, h, memory):
        h = self.cell(torch.cat([self.emb(tok), ctx], -1), h)
        weights = torch.einsum("bsd,bd->bs", memory, self.att(h)).softmax(-1)
        ctx = torch.einsum("bs,bsd->bd", weights, memory)
        return self.out(torch.cat([h, ctx], -1)), ctx, h


@torch.no_grad()
def greedy(enc, dec, src, length):
    memory = enc(src)
    h = memory.mean(1)
    ctx = torch.zeros_like(h)
    tok = torch.full((src.shape[0],), BOS, dtype=torch.long, device=src.device)
    done = torch.zeros(src.shape[0], dtype=torch.bool, device=src.device)
    toks = []
    for _ in range(length):
        logits, ctx, h = dec.step(tok, ctx, h, memory)
        tok = logits.argmax(-1).masked_fill(done, EOS)
        done = done | (tok == EOS)
        toks.append(tok)
    return torch.stack(toks, 1)


def bag_f1(hyp, ref):
    classes = torch.arange(VOCAB, device=hyp.device)
    a = (hyp[:, :, None] == classes).sum(1)
    b = (ref[:, :, None] == classes).sum(1)
    common = torch.minimum(a, b).sum(1).float()
    precision = common / a.sum(1)
    recall = common / b.sum(1)
    return 2 * precision * recall / (precision + recall).clamp(min=1e-6)


def main():
    torch.manual_seed(17)
    device = torch_xla.device()
    enc, dec = Encoder().to(device).eval(), Decoder().to(device).eval()
    torch_xla.sync()
    for batch in range(2):
        src = torch.randint(3, VOCAB, (4, 7)).to(device)
        ref = torch.randint(3, VOCAB, (4, 6)).to(device)
        hyp = greedy(enc, dec, src, ref.shape[1])
        acc = (hyp == ref).float().mean()
        f1 = bag_f1(hyp, ref).mean()
        torch_xla.sync()
        print("batch", batch, "acc", acc.item(), "f1", f1.item())


if __name__ == "__main__":
    main()
