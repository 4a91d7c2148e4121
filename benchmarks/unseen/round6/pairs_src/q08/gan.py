# kind: torch  mode: dump  pattern: SyncTensors  env: XLA_HLO_DEBUG=1,XLA_IR_DEBUG=1
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

torch.manual_seed(9)
dev = torch_xla.device()
gen = nn.Sequential(nn.Linear(8, 32), nn.LeakyReLU(0.2), nn.Linear(32, 32), nn.LeakyReLU(0.2), nn.Linear(32, 16)).to(dev)
dis = nn.Sequential(nn.Linear(16, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1)).to(dev)
og = torch.optim.RMSprop(gen.parameters(), lr=2e-3)
od = torch.optim.RMSprop(dis.parameters(), lr=2e-3)
replay = torch.zeros(64, 16).to(dev)
real, z = torch.randn(16, 16).to(dev), torch.randn(16, 8).to(dev)
torch_xla.sync()
torch_xla._XLAC._set_buffer_donation(replay, True) #B
fake = gen(z)
ld = F.binary_cross_entropy_with_logits(dis(real), torch.ones(16, 1, device=dev)) + F.binary_cross_entropy_with_logits(
    dis(fake.detach()), torch.zeros(16, 1, device=dev))
od.zero_grad()
ld.backward()
od.step()
og.zero_grad()
lg = F.softplus(-dis(fake)).mean()
lg.backward()
og.step()
latest = torch.cat([replay[16:], fake.detach()])
drift = (latest.mean(0) - replay.mean(0)).abs().max()
for p in dis.parameters():
    p.grad = None
del fake
torch_xla.sync()
