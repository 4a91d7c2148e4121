"""2D-to-3D pose lifting: residual MLP on keypoints, epochs with a validation pass."""
import torch
import torch.nn as nn
import torch_xla

JOINTS = 17


class Residual(nn.Module):
    def __init__(self, width, p):
        super().__init__()
        self.fc1, self.norm1 = nn.Linear(width, width), nn.LayerNorm(width)
        self.fc2, self.norm2 = nn.Linear(width, width), nn.LayerNorm(width)
        self.act, self.drop = nn.ReLU(), nn.Dropout(p)

    def forward(self, x):
        h = self.drop(self.act(self.norm1(self.fc1(x))))
        return x + self.drop(self.act(self.norm2(self.fc2(h))))


class Lifter(nn.Module):
    def __init__(self, width=32, p=0.25):
        super().__init__()
        self.inp = nn.Sequential(nn.Linear(2 * JOINTS, width), nn.LayerNorm(width), nn.ReLU(), nn.Dropout(p))
        self.block = Residual(width, p)
        self.out = nn.Linear(width, 3 * JOINTS)

    def forward(self, kp):
        return self.out(self.block(self.inp(kp.flatten(1)))).view(-1, JOINTS, 3)


def center(pose):
    return pose - pose[:, :1]


def mpjpe(pred, target):
    return torch.linalg.vector_norm(center(pred) - center(target) + 1e-8, dim=-1).mean()


def bone_loss(pred, target, parents):
    a = torch.linalg.vector_norm(pred[:, 1:] - pred[:, parents] + 1e-8, dim=-1)
    b = torch.linalg.vector_norm(target[:, 1:] - target[:, parents] + 1e-8, dim=-1)
    return (a - b).abs().mean()


def poses(n, batch, seed):
    g = torch.Generator().manual_seed(seed)
    for _ in range(n):
        p = torch.randn(batch, JOINTS, 3, generator=g)
        p[..., 2] += 5
        yield p[..., :2] / p[..., 2:].clamp(min=1), p


class Trainer:
    def __init__(self, device):
        self.device = device
        self.model = Lifter().to(device)
        self.parents = torch.tensor([0, 1, 2, 0, 4, 5, 0, 7, 8, 9, 8, 11, 12, 8, 14, 15], device=device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.best = float("inf")

    def train_step(self, kp, pose):
        self.optimizer.zero_grad()
        pred = self.model(kp)
        loss = mpjpe(pred, pose) + 0.1 * bone_loss(pred, pose, self.parents)
        loss.backward()
        self.optimizer.step()
        torch_xla.sync()
        return loss

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        errors = []
        for kp, pose in poses(2, 16, seed=99):
            errors.append(mpjpe(self.model(kp.to(self.device)), pose.to(self.device)))
            torch_xla.sync()
        return torch.stack(errors).mean().item()

    def fit(self, epochs):
        self.model.train()
        for epoch in range(epochs):
            for kp, pose in poses(4, 16, seed=epoch):
                loss = self.train_step(kp.to(self.device), pose.to(self.device))
            score = self.validate()
            self.best = min(self.best, score)
            print(f"epoch {epoch} loss {loss.item():.4f} mpjpe {score:.4f} best {self.best:.4f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    trainer = Trainer(torch_xla.device())
    torch_xla.sync()
    trainer.fit(3)
