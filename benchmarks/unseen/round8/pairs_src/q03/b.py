import torch, torch.nn as nn, torch.nn.functional as F
import xdump

V, E, HID, B, CHUNK, NCHUNK = 50, 16, 24, 6, 4, 3


class CharLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(V, E)
        self.wx = nn.Linear(E, 4 * HID)
        self.wh = nn.Linear(HID, 4 * HID, bias=False)
        self.out = nn.Linear(HID, V)

    def cell(self, x, h, c):
        i, f, g, o = (self.wx(x) + self.wh(h)).chunk(4, -1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c

    def forward(self, ids, h, c):
        ys = []
        for t in range(ids.shape[1]):
            h, c = self.cell(self.emb(ids[:, t]), h, c)
            ys.append(self.out(h))
        return torch.stack(ys, 1), h, c


xdump.seed(3)
dev = xdump.device()
net = CharLM().to(dev)
opt = torch.optim.RMSprop(net.parameters(), lr=1e-3, alpha=0.95, momentum=0.5)
ids = torch.randint(0, V, (2, B, CHUNK * NCHUNK + 1)).to(dev)
H0, C0 = torch.zeros(B, HID).to(dev), torch.zeros(B, HID).to(dev)
xdump.sync()


def step(i, h, c):
    opt.zero_grad()
    total = 0
    for k in range(NCHUNK):
        seq = ids[i][:, k * CHUNK:(k + 1) * CHUNK + 1]
        h = h.detach()
        logits, h, c = net(seq[:, :-1], h, c)
        total = total + F.cross_entropy(logits.flatten(0, 1), seq[:, 1:].reshape(-1))
    loss = total / NCHUNK
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 0.25)
    opt.step()
    return loss, h.detach(), c.detach()


_, H0, C0 = step(0, H0, C0)
xdump.sync()
loss, H1, C1 = step(1, H0, C0)
named = list(net.named_parameters())
live = {"loss": loss, "h": H1, "c": C1}
live.update(named)
live.update(xdump.state_of(opt, named))
xdump.dump(live)
