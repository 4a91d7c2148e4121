import math
import torch
import torch.nn as nn
import torch_xla

MAX_LEN, D, VOCAB = 24, 16, 40


class CachedAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.proj = nn.Linear(D, 3 * D), nn.Linear(D, D)

    def forward(self, x, cache, positions):
        q, k, v = self.qkv(x).chunk(3, -1)
        keys = cache[0].index_copy(1, positions, k)
        values = cache[1].index_copy(1, positions, v)
        visible = torch.arange(MAX_LEN, device=x.device)[None] <= positions[:, None]
        scores = (q @ keys.transpose(1, 2)) / math.sqrt(D)
        scores = scores.masked_fill(~visible, -1e9)
        return self.proj(scores.softmax(-1) @ values), (keys, values)


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.pos = nn.Embedding(VOCAB, D), nn.Embedding(MAX_LEN, D)
        self.attn, self.head = CachedAttention(), nn.Linear(D, VOCAB)

    def forward(self, ids, cache, positions):
        x = self.tok(ids) + self.pos(positions)
        y, cache = self.attn(x, cache, positions)
        return self.head(x + y)[:, -1], cache


@torch.no_grad()
def main():
    torch.manual_seed(1)
    dev = torch_xla.device()
    lm = LM().to(dev).eval()
    prompt = torch.randint(0, VOCAB, (2, 6)).to(dev)
    cache = tuple(torch.zeros(2, MAX_LEN, D, device=dev) for _ in range(2))
    positions = torch.arange(6).to(dev)
    logits, cache = lm(prompt, cache, positions)
    token = logits.argmax(-1, keepdim=True)
    position = positions[-1:] + 1
    torch_xla.sync()
    generated = [token.cpu()]
    for _ in range(11):
        logits, cache = lm(token, cache, position)
        token = logits.argmax(-1, keepdim=True)
        position = position + 1
        torch_xla.sync()
        generated.append(token.cpu())
    print(torch.cat(generated, 1).tolist())


main()
