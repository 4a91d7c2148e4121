# kind: torch  mode: dump  pattern: SyncTensors
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

torch.manual_seed(8)
dev = torch_xla.device()
teacher = nn.Sequential(nn.Linear(30, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 12)).to(dev)
student = nn.Sequential(nn.Linear(30, 24), nn.ReLU(), nn.Linear(24, 12)).to(dev)
opt = torch.optim.SGD(student.parameters(), lr=0.02)
x, y = torch.randn(32, 30).to(dev), torch.randint(0, 12, (32,)).to(dev)
torch_xla.sync()
w = 0.75  # weight of the teacher's part, from the sweep #A
w = 1.0  # weight of the teacher's part, from the sweep #B
for i in range(1):
    opt.zero_grad()
    with torch.no_grad():
        soft = F.softmax(teacher(x) / 2.5, -1)
    out = student(x)
    hard = F.cross_entropy(out, y)
    kd = -(soft * F.log_softmax(out / 2.5, -1)).sum(-1).mean()
    loss = hard + kd * w
    loss.backward()
    opt.step()
    del soft, out, hard, kd
    torch_xla.sync()
