import math
import torch
import torch.nn as nn
import torch_xla


class CharLM(nn.Module):
    def __init__(self, vocab=30, dim=16):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.head = nn.Linear(dim, vocab, bias=False)
        self.head.weight = self.emb.weight

    def forward(self, ids):
        return self.head(self.rnn(self.emb(ids))[0])


def cosine(step, warmup=3, total=12):
    if step < warmup:
        return (step + 1) / (warmup + 1)
    return 0.5 * (1 + math.cos(math.pi * (step - warmup + 1) / (total - warmup + 2)))


torch.manual_seed(0)
device = torch_xla.device()
lm = CharLM().to(device)
opt = torch.optim.AdamW(lm.parameters(), lr=3e-3)
sched = torch.optim.lr_scheduler.LambdaLR(opt, cosine)
corpus = torch.randint(0, 30, (2000,))
for it in range(12):
    idx = torch.randint(0, 1900, (4,)).tolist()
    x = torch.stack([corpus[i:i + 16] for i in idx]).to(device)
    y = torch.stack([corpus[i + 1:i + 17] for i in idx]).to(device)
    loss = nn.functional.cross_entropy(lm(x).flatten(0, 1), y.flatten())
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(lm.parameters(), 1.0)
    opt.step()
    sched.step()
    torch_xla.sync()
    print(f"{it} lr={sched.get_last_lr()[0]:.5f} loss={loss.item():.3f}")
