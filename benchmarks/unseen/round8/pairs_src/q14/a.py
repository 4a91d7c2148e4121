import torch, torch.nn as nn, torch.nn.functional as F
import xdump

B, S, D, C = 8, 12, 20, 9
LOW = torch.bfloat16


class Lin(nn.Linear):
    def forward(self, x):
        return F.linear(x, self.weight.to(LOW), self.bias.to(LOW))


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.t1, self.t2 = Lin(S, 24), Lin(24, S)
        self.c1, self.c2 = Lin(D, 40), Lin(40, D)

    def forward(self, x):
        y = self.n1(x.float()).to(LOW).transpose(1, 2)
        x = x + self.t2(F.gelu(self.t1(y))).transpose(1, 2)
        return x + self.c2(F.gelu(self.c1(self.n2(x.float()).to(LOW))))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp, self.head = Lin(15, D), Lin(D, C)
        self.blocks = nn.ModuleList(Mixer() for _ in range(2))

    def forward(self, x):
        x = self.inp(x.to(LOW))
        for b in self.blocks:
            x = b(x)
        return self.head(x.mean(1))


xdump.seed(14)
dev = xdump.device()
net = Net().to(dev)
opt = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
X = torch.randn(2, B, S, 15).to(dev)
Y = torch.randint(0, C, (2, B)).to(dev)
xdump.sync()


def step(i):
    opt.zero_grad()
    logits = net(X[i])
    loss = F.cross_entropy(logits.float(), Y[i])
    loss.backward()
    opt.step()
    return loss


step(0)
xdump.sync()
loss = step(1)
named = list(net.named_parameters())
live = {"loss": loss}
live.update(named)
live.update(xdump.state_of(opt, named))
xdump.dump(live)
