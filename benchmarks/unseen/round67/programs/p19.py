"""Aftershock sequences as a neural point process, trained with Lightning."""
import lightning as L
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from lightning.pytorch.accelerators import CPUAccelerator
from lightning.pytorch.strategies import SingleDeviceStrategy
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset


class Lazy(CPUAccelerator):
    def setup_device(self, device):
        pass


class StepMarker(L.Callback):
    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        torch_xla.sync()


class Catalogue(Dataset):
    """Branching (ETAS) simulation of thirty days after a mainshock."""

    def __init__(self, n, seed, window=30.0):
        self.window = window
        self.rng = np.random.default_rng(seed)
        self.sequences = [self.simulate(self.rng.uniform(5.6, 7.4)) for _ in range(n)]

    def simulate(self, mainshock):
        queue, events = [(0.0, mainshock)], []
        while queue and len(events) < 512:
            t0, m0 = queue.pop(0)
            events.append((t0, m0))
            for _ in range(self.rng.poisson(0.6 * 10 ** (0.75 * (m0 - 4.0)))):
                t = t0 + 0.05 * ((1 - self.rng.uniform()) ** (-1 / 0.25) - 1)
                if t < self.window:
                    queue.append((t, min(3.0 + self.rng.exponential(0.42), m0)))
        events = np.asarray(sorted(events), dtype=np.float32)
        return torch.from_numpy(events)

    def __len__(self):
        return len(self.sequences)

    def __getitem__(self, i):
        return self.sequences[i]


class Collate:
    def __init__(self, multiple=8):
        self.multiple = multiple

    def __call__(self, sequences):
        lengths = torch.tensor([len(s) for s in sequences])
        events = pad_sequence(sequences, batch_first=True)
        extra = -events.shape[1] % self.multiple
        events = F.pad(events, (0, 0, 0, extra))
        mask = torch.arange(events.shape[1])[None] < lengths[:, None]
        return events, mask


class AftershockProcess(L.LightningModule):
    """Causal convolutional history, log-normal mixture for the next waiting time, exponential magnitudes."""

    def __init__(self, width=24, mixtures=4, lr=4e-3):
        super().__init__()
        self.save_hyperparameters()
        self.inp = nn.Linear(3, width)
        self.convs = nn.ModuleList(nn.Conv1d(width, width, 3, dilation=d) for d in (1, 2, 4))
        self.gap = nn.Linear(width, 3 * mixtures)
        self.size = nn.Linear(width, 1)

    def history(self, events):
        t, m = events.unbind(-1)
        dt = F.pad((t[:, 1:] - t[:, :-1]).clamp(min=0.0), (1, 0))
        h = self.inp(torch.stack([torch.log(dt + 1e-3), torch.log1p(t), m - 3.0], -1)).transpose(1, 2)
        for conv in self.convs:
            h = h + F.gelu(conv(F.pad(h, (2 * conv.dilation[0], 0))))
        return h.transpose(1, 2)

    def log_likelihood(self, events, mask):
        h = self.history(events)[:, :-1]
        wait = (events[:, 1:, 0] - events[:, :-1, 0]).clamp(min=1e-4)
        excess = (events[:, 1:, 1] - 3.0).clamp(min=0.0)
        logit, mu, log_sd = self.gap(h).chunk(3, -1)
        log_sd = log_sd.clamp(-3.0, 3.0)
        z = (wait.log().unsqueeze(-1) - mu) / log_sd.exp()
        gap = torch.logsumexp(logit.log_softmax(-1) - log_sd - 0.5 * z ** 2, -1) - wait.log()
        rate = F.softplus(self.size(h).squeeze(-1)) + 0.1
        keep = mask[:, 1:].float()
        return ((gap + rate.log() - rate * excess) * keep).sum() / keep.sum()

    def training_step(self, batch, batch_idx):
        events, mask = batch
        return -self.log_likelihood(events, mask)

    def configure_optimizers(self):
        opt = torch.optim.RMSprop(self.parameters(), lr=self.hparams.lr)
        return {"optimizer": opt, "lr_scheduler": torch.optim.lr_scheduler.ExponentialLR(opt, 0.9)}


class Report(L.Callback):
    def __init__(self, every=6):
        self.every, self.seen = every, []

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        self.seen.append(outputs["loss"].detach())
        if trainer.global_step % self.every == 0:
            print(f"step {trainer.global_step:3d}  nll {np.mean([s.item() for s in self.seen]):.4f}")
            self.seen.clear()


def main():
    L.seed_everything(17, verbose=False)
    loader = DataLoader(Catalogue(120, 17), batch_size=4, shuffle=True, drop_last=True, collate_fn=Collate())
    strategy = SingleDeviceStrategy(device=torch_xla.device(), accelerator=Lazy())
    trainer = L.Trainer(
        strategy=strategy, max_steps=30, max_epochs=2, gradient_clip_val=1.0, callbacks=[StepMarker(), Report()],
        logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )
    trainer.fit(AftershockProcess(), loader)


if __name__ == "__main__":
    main()
