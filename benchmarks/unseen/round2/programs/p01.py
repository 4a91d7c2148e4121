"""Greedy text generation with a small decoder-only model."""
import torch
import torch.nn as nn
import torch_xla


class Block(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.attn = nn.MultiheadAttention(d, h, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)

    def forward(self, x, mask):
        y = self.n1(x)
        x = x + self.attn(y, y, y, attn_mask=mask, need_weights=False)[0]
        return x + self.mlp(self.n2(x))


class Decoder(nn.Module):
    def __init__(self, vocab=40, d=16, max_len=32):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, d), nn.Embedding(max_len, d)
        self.block = Block(d, 2)
        self.lm_head = nn.Linear(d, vocab, bias=False)
        self.register_buffer("causal", torch.full((max_len, max_len), float("-inf")).triu(1))
        self.register_buffer("positions", torch.arange(max_len))

    def forward(self, ids):
        n = ids.shape[1]
        x = self.tok(ids) + self.pos(self.positions[:n])
        return self.lm_head(self.block(x, self.causal[:n, :n]))


@torch.no_grad()
def generate(model, prompt, new_tokens, eos=0):
    ids = prompt
    finished = torch.zeros(ids.shape[0], dtype=torch.bool, device=ids.device)
    for _ in range(new_tokens):
        logits = model(ids)[:, -1]
        nxt = logits.argmax(-1).masked_fill(finished, eos)
        finished = finished | (nxt == eos)
        ids = torch.cat([ids, nxt[:, None]], dim=1)
        torch_xla.sync()
    return ids


if __name__ == "__main__":
    torch.manual_seed(0)
    dev = torch_xla.device()
    model = Decoder().to(dev).train(False)
    out = generate(model, torch.randint(1, 40, (2, 4)).to(dev), 10)
    for row in out.cpu().tolist():
        print(row)
