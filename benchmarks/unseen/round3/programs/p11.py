import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm


class WGAN:
    def __init__(self, device, penalty_every=3):
        self.device, self.penalty_every, self.n = device, penalty_every, 0
        self.critic = nn.Sequential(nn.Linear(2, 24), nn.Softplus(), nn.Linear(24, 1)).to(device)
        self.gen = nn.Sequential(nn.Linear(3, 24), nn.ReLU(), nn.Linear(24, 2)).to(device)
        self.oc = torch.optim.SGD(self.critic.parameters(), lr=0.01)
        self.og = torch.optim.SGD(self.gen.parameters(), lr=0.01)

    def gradient_penalty(self, real, fake):
        mix = torch.rand(real.shape[0], 1, device=self.device)
        x = (mix * real + (1 - mix) * fake).requires_grad_()
        g, = torch.autograd.grad(self.critic(x).sum(), x, create_graph=True)
        return (g.norm(dim=1) - 1).pow(2).mean()

    def step(self, real):
        z = torch.randn(real.shape[0], 3, device=self.device)
        fake = self.gen(z)
        loss = self.critic(fake.detach()).mean() - self.critic(real).mean()
        if self.n % self.penalty_every == 0:
            loss = loss + 10.0 * self.penalty_every * self.gradient_penalty(real, fake.detach())
        self.oc.zero_grad()
        loss.backward()
        self.oc.step()
        self.og.zero_grad()
        (-self.critic(fake).mean()).backward()
        self.og.step()
        self.n += 1
        xm.mark_step()
        return loss


torch.manual_seed(1)
gan = WGAN(xm.xla_device())
for i in range(12):
    real = torch.randn(16, 2) @ torch.tensor([[1.0, 0.4], [0.0, 0.3]])
    loss = gan.step(real.to(gan.device))
    if i % 4 == 0:
        print(i, round(loss.item(), 4))
