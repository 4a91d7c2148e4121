import os, torch, torch.nn as nn, torch.nn.functional as F
import torch_xla
V = os.environ["VARIANT"] == "1"
torch.manual_seed(0)
dev = torch_xla.device()


class AC(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(24, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.pi, self.v = nn.Linear(64, 6), nn.Linear(64, 1)

    def forward(self, o):
        h = self.body(o)
        return self.pi(h), self.v(h).squeeze(-1)


net = AC().to(dev)
opt = torch.optim.Adam(net.parameters(), lr=3e-4, eps=1e-5)
N = 32
obs, act = torch.randn(N, 24).to(dev), torch.randint(0, 6, (N,)).to(dev)
oldlp, ret = (torch.randn(N) - 2).to(dev), torch.randn(N).to(dev)
torch_xla.sync()
logits, val = net(obs)
lp_all = F.log_softmax(logits, -1)
lp = lp_all.gather(1, act[:, None]).squeeze(1)
adv = ret - (val if V else val.detach())
adv = (adv - adv.mean()) / (adv.std() + 1e-8)
ratio = (lp - oldlp).exp()
pg = -torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean()
vf = 0.5 * (val - ret).pow(2).mean()
ent = -(lp_all.exp() * lp_all).sum(-1).mean()
loss = pg + 0.5 * vf - 0.01 * ent
loss.backward()
nn.utils.clip_grad_norm_(net.parameters(), 0.5, foreach=False)
opt.step()
outs = [loss, pg, vf, ent] + list(net.parameters()) + [s[k] for s in opt.state.values() for k in ("exp_avg", "exp_avg_sq")]
open(os.environ["OUT"], "w").write(torch_xla._XLAC._get_xla_tensors_hlo(outs))
