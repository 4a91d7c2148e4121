import torch
from torch import nn
import torch_xla

# soft actor-critic: the two critics only, replay data made up
torch.manual_seed(0)
dev = torch_xla.device()
obs_dim, act_dim, B = 17, 6, 64


class Q(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(obs_dim + act_dim, 64)
        self.l2 = nn.Linear(64, 64)
        self.l3 = nn.Linear(64, 1)

    def forward(self, o, a):
        h = torch.relu(self.l1(torch.cat([o, a], -1)))
        h = torch.relu(self.l2(h))
        return self.l3(h).squeeze(-1)


q1, q2 = Q().to(dev), Q().to(dev)
t1, t2 = Q().to(dev), Q().to(dev)
t1.load_state_dict(q1.state_dict())
t2.load_state_dict(q2.state_dict())
opt = torch.optim.Adam(list(q1.parameters()) + list(q2.parameters()), lr=3e-4, amsgrad=True)
torch_xla.sync()

for it in range(5):
    o = torch.randn(B, obs_dim).to(dev)
    o2 = torch.randn(B, obs_dim).to(dev)
    a = torch.tanh(torch.randn(B, act_dim)).to(dev)
    a2 = torch.tanh(torch.randn(B, act_dim)).to(dev)
    r = torch.randn(B).to(dev)
    done = (torch.rand(B) < 0.05).float().to(dev)
    with torch.no_grad():
        tgt = r + 0.99 * (1 - done) * torch.minimum(t1(o2, a2), t2(o2, a2))
    loss = ((q1(o, a) - tgt) ** 2).mean() + ((q2(o, a) - tgt) ** 2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    with torch.no_grad():
        for q, t in ((q1, t1), (q2, t2)):
            for p, tp in zip(q.parameters(), t.parameters()):
                tp.lerp_(p, 0.005)
    torch_xla.sync()
print(loss.item())
