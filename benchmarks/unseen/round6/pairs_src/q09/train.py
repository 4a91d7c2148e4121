# kind: torch  mode: dump  pattern: SyncTensors  env: XLA_HLO_DEBUG=1,XLA_IR_DEBUG=1
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
import torch_xla

torch.manual_seed(7)
dev = torch_xla.device()


class Tagger(nn.Module):
    def __init__(self, v=200, d=24, tags=7):
        super().__init__()
        self.emb = nn.Embedding(v, d)
        self.i, self.h = nn.Linear(d, 3 * d), nn.Linear(d, 3 * d)
        self.tag = nn.Linear(d, tags)

    def forward(self, tok):
        x = self.emb(tok)
        h = torch.zeros(tok.shape[0], x.shape[-1], device=tok.device)
        out = []
        for t in range(tok.shape[1]):
            ir, iz, inn = self.i(x[:, t]).chunk(3, -1)
            hr, hz, hn = self.h(h).chunk(3, -1)
            r, z = torch.sigmoid(ir + hr), torch.sigmoid(iz + hz)
            h = z * h + (1 - z) * torch.tanh(inn + r * hn)
            out.append(self.tag(h))
        return torch.stack(out, 1)


data = TensorDataset(torch.randint(0, 200, (84, 6)), torch.randint(0, 7, (84, 6)))
net = Tagger().to(dev)
opt = torch.optim.Adagrad(net.parameters(), lr=0.1)
torch_xla.sync()
loss = tok = tag = None
batches = list(DataLoader(data, batch_size=16))
for tok, tag in batches[:1]: #A
for tok, tag in batches[-1:]: #B
    tok, tag = tok.to(dev), tag.to(dev)
    opt.zero_grad()
    loss = F.cross_entropy(net(tok).flatten(0, 1), tag.flatten())
    loss.backward()
    opt.step()
    torch_xla.sync()
