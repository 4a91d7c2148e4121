import random

import torch
import torch_xla
from transformers import GPT2Config, GPT2LMHeadModel

SEQ_LEN = 12
ROWS = 4
STREAM = 400


class TokenStream:
    """A long token matrix that lives on the device; every step reads one window of it."""

    def __init__(self, rows, length, vocab, device, seed=0):
        g = torch.Generator().manual_seed(seed)
        trans = torch.softmax(3 * torch.randn(vocab, vocab, generator=g), dim=1)
        ids = torch.empty(rows, length, dtype=torch.long)
        ids[:, 0] = torch.randint(vocab, (rows,), generator=g)
        for t in range(1, length):
            ids[:, t] = torch.multinomial(trans[ids[:, t - 1]], 1, generator=g).squeeze(1)
        self.ids = ids.to(device)
        self.length = length
        self.rng = random.Random(seed)

    def window(self, size):
        start = self.rng.randrange(self.length - size)
        return self.ids[:, start:start + size]


def tiny_gpt(vocab):
    config = GPT2Config(
        vocab_size=vocab,
        n_positions=SEQ_LEN,
        n_embd=16,
        n_layer=1,
        n_head=2,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=0,
        eos_token_id=0,
        use_cache=False,
        attn_implementation="eager",
    )
    return GPT2LMHeadModel(config)


def param_groups(model, wd):
    decay, plain = [], []
    for name, p in model.named_parameters():
        (decay if p.ndim >= 2 and "wpe" not in name else plain).append(p)
    return [{"params": decay, "weight_decay": wd}, {"params": plain, "weight_decay": 0.0}]


def training_step(model, opt, batch):
    out = model(input_ids=batch, labels=batch)
    out.loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    opt.zero_grad(set_to_none=True)
    return out.loss.detach()


def main(steps=5, vocab=32):
    torch.manual_seed(0)
    device = torch_xla.device()
    stream = TokenStream(ROWS, STREAM, vocab, device)
    model = tiny_gpt(vocab).to(device)
    model.train()
    opt = torch.optim.SGD(param_groups(model, 0.01), lr=0.05, momentum=0.9, nesterov=True)
    torch_xla.sync()

    history = []
    for step in range(steps):
        batch = stream.window(SEQ_LEN)
        loss = training_step(model, opt, batch)
        torch_xla.sync()
        history.append(loss)
    for step, loss in enumerate(history):
        print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
