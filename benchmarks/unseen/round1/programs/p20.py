import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


def net(width):
    return nn.Sequential(nn.Linear(14, width), nn.ReLU(), nn.Linear(width, 5))


def distill_loss(student_logits, teacher_logits, labels, temp, mix):
    soft = F.kl_div(
        F.log_softmax(student_logits / temp, -1),
        F.softmax(teacher_logits / temp, -1),
        reduction="batchmean",
    ) * temp ** 2
    hard = F.cross_entropy(student_logits, labels)
    return mix * soft + (1 - mix) * hard


torch.manual_seed(8)
dev = xm.xla_device()
teacher, student = net(64).to(dev).eval(), net(8).to(dev)
opt = torch.optim.SGD(student.parameters(), lr=0.1, momentum=0.9, nesterov=True)
for epoch in range(10):
    temp = 4.0 - 0.25 * epoch
    mix = 0.9 - 0.03 * epoch
    x = torch.randn(12, 14).to(dev)
    y = torch.randint(0, 5, (12,)).to(dev)
    with torch.no_grad():
        t_logits = teacher(x)
    loss = distill_loss(student(x), t_logits, y, temp, mix)
    opt.zero_grad()
    loss.backward()
    xm.optimizer_step(opt)
    xm.mark_step()
    print(f"epoch {epoch} T={temp:.2f} mix={mix:.2f} loss={loss.item():.4f}")
