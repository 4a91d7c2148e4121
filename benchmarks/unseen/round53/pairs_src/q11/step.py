"""Visual behaviour cloning for a 7-DoF arm (two cameras, proprioception)."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class RandomShift:
    """Pad-and-crop augmentation for pixels (DrQ)."""

    def __init__(self, pad=4, seed=0):
        self.pad = pad
        self.rng = np.random.default_rng(seed)

    def __call__(self, img):
        h, w = img.shape[-2:]
        img = F.pad(img, (self.pad,) * 4, mode="replicate")
        top, left = (int(v) for v in self.rng.integers(0, 2 * self.pad + 1, size=2))
        return img[..., top:top + h, left:left + w]


class CameraEncoder(nn.Module):
    def __init__(self, channels=(3, 16, 32), out_dim=48):
        super().__init__()
        convs = []
        for i, (cin, cout) in enumerate(zip(channels[:-1], channels[1:])):
            convs += [nn.Conv2d(cin, cout, 3, stride=2, padding=1), nn.GroupNorm(4, cout), nn.ReLU()]
        self.convs = nn.Sequential(*convs)
        self.proj = nn.Linear(channels[-1] * 2, out_dim)

    def spatial_softmax(self, f):
        b, c, h, w = f.shape
        p = f.flatten(2).softmax(-1)
        ys = torch.linspace(-1, 1, h, device=f.device).repeat_interleave(w)
        xs = torch.linspace(-1, 1, w, device=f.device).repeat(h)
        return torch.cat([(p * xs).sum(-1), (p * ys).sum(-1)], -1)

    def forward(self, img):
        return self.proj(self.spatial_softmax(self.convs(img)))


class Policy(nn.Module):
    def __init__(self, cams=("wrist", "front"), proprio=14, act_dim=7, hidden=64):
        super().__init__()
        self.encoders = nn.ModuleDict({c: CameraEncoder() for c in cams})
        self.proprio = nn.Sequential(nn.Linear(proprio, hidden), nn.LayerNorm(hidden), nn.Tanh())
        self.trunk = nn.Sequential(
            nn.Linear(48 * len(cams) + hidden, hidden), nn.ReLU(),
            nn.Linear(hidden, hidden), nn.ReLU())
        self.arm = nn.Linear(hidden, act_dim - 1)
        self.gripper = nn.Linear(hidden, 1)

    def forward(self, images, proprio):
        feats = [enc(images[cam]) for cam, enc in self.encoders.items()]
        z = self.trunk(torch.cat(feats + [self.proprio(proprio)], -1))
        return torch.tanh(self.arm(z)), self.gripper(z).squeeze(-1)


def demonstrations(batch, steps, device, seed=1):
    g = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        images = {c: torch.rand(batch, 3, 32, 32, generator=g).to(device) for c in ("wrist", "front")}
        proprio = torch.randn(batch, 14, generator=g).to(device)
        action = torch.rand(batch, 7, generator=g).mul(2).sub(1)
        action[:, 6] = (action[:, 6] > 0).float()
        yield images, proprio, action.to(device)


def train_step(policy, opt, augment, images, proprio, action):
    opt.zero_grad()
    images = {cam: augment(img - 0.5) for cam, img in images.items()}
    arm, gripper = policy(images, proprio)
    pos = F.smooth_l1_loss(arm, action[:, :6])
    grip = F.binary_cross_entropy_with_logits(gripper, action[:, 6])
    loss = pos + 0.1 * grip
    loss.backward()
    opt.step()
    return loss


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    policy = Policy().to(device)
    opt = torch.optim.SGD(policy.parameters(), lr=1e-2, momentum=0.9)
    augment = RandomShift(pad=4)
    torch_xla.sync()
    for step, (images, proprio, action) in enumerate(demonstrations(8, 5, device)):
        loss = train_step(policy, opt, augment, images, proprio, action)
        torch_xla.sync()
        print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
