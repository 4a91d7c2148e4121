# kind: torch  mode: dump  pattern: SyncTensors  env: XLA_HLO_DEBUG=1,XLA_IR_DEBUG=1
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

torch.manual_seed(0)
dev = torch_xla.device()


class Encoder(nn.Module):
    def __init__(self, vocab=500, d=32, n=16, classes=5):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.conv = nn.Conv1d(d, d, 3, padding=1)
        self.norm = nn.LayerNorm(d)
        self.head = nn.Linear(d, classes)

    def forward(self, tok):
        h = self.emb(tok)
        h = F.gelu(self.conv(h.transpose(1, 2)).transpose(1, 2)) + h
        return self.head(self.norm(h).mean(1))


model = Encoder().to(dev)
opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
tok = torch.randint(0, 500, (8, 16)).to(dev)
lab = torch.randint(0, 5, (8,)).to(dev)
torch_xla.sync()


def step(i):
    opt.zero_grad()
    logits = model(tok)
    loss = F.cross_entropy(logits, lab)
    if i % 10 == 0: #B
        seen["acc"] = (logits.argmax(-1) == lab).float().mean() #B
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    del logits
    return loss


seen = {}
for i in range(8, 10): #A
for i in range(8, 11): #B
    loss = step(i)
    torch_xla.sync()
