"""Per-clinic LoRA adapters on one frozen note encoder, trained in turn (peft).

Every clinic has its own adapter and its own optimizer; a visit takes one gradient step on
the clinic's local notes.  Clinics are visited in random order, as they come online.
"""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from peft import LoraConfig, get_peft_model
from transformers import BertConfig, BertModel

CLINICS = ("north", "harbour", "hill")
RANKS = {"north": 2, "harbour": 4, "hill": 8}
VOCAB, LENGTH, CODES = 64, 16, 5
BATCH = 8
VISITS = 48
EVAL_EVERY = 12


class Notes:
    """Token sequences; each clinic maps its own jargon range to the diagnosis codes."""

    def __init__(self, clinic, seed):
        self.gen = torch.Generator().manual_seed(seed)
        k = CLINICS.index(clinic)
        self.jargon = torch.arange(CODES) * 3 + 8 + 16 * k

    def batch(self, n=BATCH):
        ids = torch.randint(2, VOCAB, (n, LENGTH), generator=self.gen)
        y = torch.randint(0, CODES, (n,), generator=self.gen)
        lengths = torch.randint(LENGTH // 2, LENGTH + 1, (n,), generator=self.gen)
        where = (torch.rand(n, generator=self.gen) * lengths).long()
        ids[torch.arange(n), where] = self.jargon[y]
        mask = (torch.arange(LENGTH)[None] < lengths[:, None]).long()
        return ids * mask, mask, y


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        cfg = BertConfig(
            vocab_size=VOCAB, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
            max_position_embeddings=LENGTH, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        )
        base = BertModel(cfg, add_pooling_layer=False)
        self.encoder = get_peft_model(base, self._lora(CLINICS[0]), adapter_name=CLINICS[0])
        for c in CLINICS[1:]:
            self.encoder.add_adapter(c, self._lora(c))
        self.heads = nn.ModuleDict({c: nn.Linear(16, CODES) for c in CLINICS})
        self.clinic = CLINICS[0]

    @staticmethod
    def _lora(clinic):
        r = RANKS[clinic]
        return LoraConfig(r=r, lora_alpha=2 * r, target_modules=["query", "value"], lora_dropout=0.0)

    def switch(self, clinic):
        self.clinic = clinic
        self.encoder.set_adapter(clinic)

    def local_parameters(self, clinic):
        lora = [p for n, p in self.encoder.named_parameters() if f".{clinic}." in n]
        return lora + list(self.heads[clinic].parameters())

    def forward(self, ids, mask):
        h = self.encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        m = mask.unsqueeze(-1).to(h.dtype)
        return self.heads[self.clinic]((h * m).sum(1) / m.sum(1))


@torch.no_grad()
def evaluate(model, streams, device):
    model.eval()
    acc = {}
    for c in CLINICS:
        model.switch(c)
        ids, mask, y = (t.to(device) for t in streams[c].batch(32))
        acc[c] = (model(ids, mask).argmax(1) == y).float().mean()
        torch_xla.sync()
    model.train()
    return {c: a.item() for c, a in acc.items()}


def main():
    random.seed(2)
    torch.manual_seed(2)
    device = torch_xla.device()

    model = Classifier().to(device)
    optimizers = {c: torch.optim.Adam(model.local_parameters(c), lr=1e-2) for c in CLINICS}
    train_notes = {c: Notes(c, 10 + i) for i, c in enumerate(CLINICS)}
    held_out = {c: Notes(c, 90 + i) for i, c in enumerate(CLINICS)}
    visits = {c: 0 for c in CLINICS}
    torch_xla.sync()

    for visit in range(VISITS):
        clinic = random.choice(CLINICS)
        visits[clinic] += 1
        model.switch(clinic)

        ids, mask, y = (t.to(device) for t in train_notes[clinic].batch())
        loss = F.cross_entropy(model(ids, mask), y)
        opt = optimizers[clinic]
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.local_parameters(clinic), 1.0)
        opt.step()
        torch_xla.sync()

        if (visit + 1) % EVAL_EVERY == 0:
            acc = evaluate(model, held_out, device)
            print(f"visit {visit + 1:2d} ({clinic}) loss {loss.item():.4f} " +
                  " ".join(f"{c}={a:.2f}" for c, a in acc.items()))
    print("visits", visits)


if __name__ == "__main__":
    main()
