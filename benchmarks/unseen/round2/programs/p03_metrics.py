import torch


class Accuracy:
    def __init__(self, device):
        self.hits = torch.zeros((), device=device)
        self.seen = torch.zeros((), device=device)

    def __call__(self, logits, target):
        self.hits = self.hits + ((logits > 0).float() == target).sum()
        self.seen = self.seen + target.numel()
        return self.hits / self.seen


class RankingScore:
    """Share of (positive, negative) pairs that are in the right order (AUC)."""

    def __init__(self):
        self.scores = None
        self.targets = None

    def __call__(self, logits, target):
        if self.scores is None:
            self.scores, self.targets = logits, target
        else:
            self.scores = torch.cat([self.scores, logits])
            self.targets = torch.cat([self.targets, target])
        diff = self.scores[:, None] - self.scores[None, :]
        pairs = self.targets[:, None] * (1 - self.targets[None, :])
        return ((diff > 0) * pairs).sum() / pairs.sum().clamp(min=1)
