"""Next-event model for short monophonic melodies: a tiny randomly initialised OPT from transformers."""
import numpy as np
import torch
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, Dataset
from torch_xla.distributed.parallel_loader import MpDeviceLoader
from transformers import OPTConfig, OPTForCausalLM
from transformers import get_cosine_schedule_with_warmup
from transformers import set_seed

PAD, BOS, EOS = 0, 1, 2
PITCH_BASE = 3
N_PITCH = 24
DUR_BASE = PITCH_BASE + N_PITCH
N_DUR = 4
VOCAB = DUR_BASE + N_DUR
MAX_NOTES = 14

SCALES = {
    "major": (0, 2, 4, 5, 7, 9, 11),
    "minor": (0, 2, 3, 5, 7, 8, 10),
    "pentatonic": (0, 2, 4, 7, 9),
}


def random_melody(rng):
    """A random walk on a scale; long notes are more likely at the end of a phrase."""
    scale = SCALES[list(SCALES)[rng.integers(len(SCALES))]]
    degrees = [d + 12 * octave for octave in range(2) for d in scale]
    at = int(rng.integers(len(degrees)))
    events = [BOS]
    for note in range(int(rng.integers(4, MAX_NOTES + 1))):
        at = int(np.clip(at + rng.integers(-2, 3), 0, len(degrees) - 1))
        dur = 3 if note % 4 == 3 else int(rng.integers(0, 3))
        events += [PITCH_BASE + degrees[at], DUR_BASE + dur]
    return events + [EOS]


class Melodies(Dataset):
    def __init__(self, size, seed):
        rng = np.random.default_rng(seed)
        self.items = [random_melody(rng) for _ in range(size)]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return torch.tensor(self.items[i])


class MelodyCollator:
    def __init__(self, pad_id=PAD):
        self.pad_id = pad_id

    def __call__(self, items):
        ids = torch.nn.utils.rnn.pad_sequence(items, batch_first=True, padding_value=self.pad_id)
        mask = (ids != self.pad_id).long()
        return {"input_ids": ids, "attention_mask": mask, "labels": ids.masked_fill(mask == 0, -100)}


def build_model():
    config = OPTConfig(
        vocab_size=VOCAB,
        hidden_size=16,
        word_embed_proj_dim=16,
        ffn_dim=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=2 * MAX_NOTES + 2,
        dropout=0.05,
        attention_dropout=0.05,
        layerdrop=0.2,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        attn_implementation="eager",
    )
    return OPTForCausalLM(config)


def parameter_groups(model, weight_decay):
    decay, plain = [], []
    for name, p in model.named_parameters():
        (plain if p.ndim < 2 or "layer_norm" in name else decay).append(p)
    return [{"params": decay, "weight_decay": weight_decay}, {"params": plain, "weight_decay": 0.0}]


def main():
    set_seed(77)
    device = torch_xla.device()
    gen = torch.Generator().manual_seed(1)
    train = DataLoader(Melodies(24, 0), batch_size=3, shuffle=True, drop_last=True,
                       collate_fn=MelodyCollator(), generator=gen)
    loader = MpDeviceLoader(train, device)

    model = build_model().to(device)
    model.train()
    epochs = 2
    opt = torch.optim.SGD(parameter_groups(model, 0.001), lr=0.05, momentum=0.9)
    sched = get_cosine_schedule_with_warmup(opt, num_warmup_steps=3, num_training_steps=epochs * len(train))

    for epoch in range(epochs):
        losses = []
        for batch in loader:
            loss = model(**batch, use_cache=False).loss
            opt.zero_grad(set_to_none=True)
            loss.backward()
            xm.reduce_gradients(opt)
            opt.step()
            sched.step()
            losses.append(loss.detach())
        mean = torch.stack(losses).mean().item()
        print(f"epoch {epoch} loss {mean:.4f} perplexity {np.exp(mean):.2f}")


if __name__ == "__main__":
    main()
