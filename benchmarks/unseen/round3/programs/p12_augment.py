import torch


class AudioAugment:
    def __init__(self, rng):
        self.rng = rng

    def gain(self, wave):
        return wave * self.rng.uniform(0.55, 1.45)

    def noise(self, wave):
        return wave + self.rng.uniform(0.01, 0.1) * torch.randn_like(wave)

    def shift(self, wave):
        return torch.roll(wave, self.rng.randint(-20, 20), dims=-1)

    def cut(self, wave):
        start = self.rng.randrange(0, wave.shape[1] - 16)
        wave = wave.clone()
        wave[:, start:start + 16] = 0
        return wave

    def __call__(self, wave):
        for f in (self.gain, self.noise, self.shift, self.cut):
            wave = f(wave)
        return wave
