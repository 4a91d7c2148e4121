"""Scan-to-map odometry on a synthetic 2-D lidar.

The correspondences are known (reflector landmarks with ids), so a frame is a
few Gauss-Newton-like corrections of the pose against the map.
"""
import argparse
import math

import torch
import torch_xla
import torch_xla.core.xla_model as xm


def rotation(angle):
    c, s = torch.cos(angle), torch.sin(angle)
    return torch.stack([torch.stack([c, -s]), torch.stack([s, c])])


class World:
    def __init__(self, landmarks, seed):
        self.gen = torch.Generator().manual_seed(seed)
        self.points = torch.rand(landmarks, 2, generator=self.gen) * 20 - 10
        self.x, self.y, self.heading = 0.0, 0.0, 0.0

    def drive(self):
        self.heading += 0.05
        self.x += 0.2 * math.cos(self.heading)
        self.y += 0.2 * math.sin(self.heading)

    def scan(self):
        rot = rotation(torch.tensor(self.heading))
        local = (self.points - torch.tensor([self.x, self.y])) @ rot
        return local + 0.01 * torch.randn(local.shape, generator=self.gen)


class Odometry:
    def __init__(self, landmarks, device):
        self.map = landmarks.to(device)
        self.position = torch.zeros(2, device=device)
        self.heading = torch.zeros((), device=device)
        self.rounds = 2

    def residual(self, scan):
        world = scan @ rotation(self.heading).T + self.position
        return self.map - world, world

    def register(self, scan):
        for _ in range(self.rounds):
            res, world = self.residual(scan)
            arm = world - self.position
            cross = arm[:, 0] * res[:, 1] - arm[:, 1] * res[:, 0]
            self.heading = self.heading + cross.sum() / arm.pow(2).sum()
            res, _ = self.residual(scan)
            self.position = self.position + res.mean(0)
        res, _ = self.residual(scan)
        return res.norm(dim=1).mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--frames", type=int, default=30)
    parser.add_argument("--landmarks", type=int, default=24)
    parser.add_argument("--gate", type=float, default=0.5, help="frames above this residual are reported [m]")
    args = parser.parse_args()

    device = xm.xla_device()
    world = World(args.landmarks, seed=4)
    odometry = Odometry(world.points, device)
    lost = 0
    for frame in range(args.frames):
        world.drive()
        scan = world.scan().to(device)
        residual = odometry.register(scan).item()
        if residual > args.gate:
            lost += 1
        if frame % 5 == 0:
            print(f"frame {frame:3d} residual {residual:.4f} m")

    px, py = odometry.position.tolist()
    drift = math.hypot(px - world.x, py - world.y)
    print(f"end point ({px:.2f}, {py:.2f}), drift {drift:.3f} m, {lost} frames over the gate")


if __name__ == "__main__":
    main()
