"""Distil a text classifier into a smaller student (flax + optax, bfloat16)."""
import argparse
from dataclasses import dataclass
from pathlib import Path

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax


@dataclass(frozen=True)
class DistillConfig:
    vocab: int = 64
    seq_len: int = 12
    n_classes: int = 5
    batch_size: int = 8
    temperature: float = 2.0
    alpha: float = 0.9
    alpha_end: float = 0.5
    hold_steps: int = 4
    total_steps: int = 10
    lr: float = 2e-3


class MixerBlock(nn.Module):
    expand: int = 2

    @nn.compact
    def __call__(self, x):
        dtype = x.dtype
        seq, dim = x.shape[1:]
        y = nn.LayerNorm(dtype=dtype, param_dtype=dtype)(x)
        y = jnp.swapaxes(y, 1, 2)
        y = nn.Dense(seq, dtype=dtype, param_dtype=dtype)(nn.gelu(
            nn.Dense(self.expand * seq, dtype=dtype, param_dtype=dtype)(y)))
        x = x + jnp.swapaxes(y, 1, 2)
        y = nn.LayerNorm(dtype=dtype, param_dtype=dtype)(x)
        y = nn.Dense(dim, dtype=dtype, param_dtype=dtype)(nn.gelu(
            nn.Dense(self.expand * dim, dtype=dtype, param_dtype=dtype)(y)))
        return x + y


class Classifier(nn.Module):
    vocab: int
    dim: int
    depth: int
    n_classes: int
    dtype: jnp.dtype = jnp.bfloat16

    @nn.compact
    def __call__(self, tokens):
        x = nn.Embed(self.vocab, self.dim, dtype=self.dtype, param_dtype=self.dtype)(tokens)
        for _ in range(self.depth):
            x = MixerBlock()(x)
        x = x.mean(axis=1)
        return nn.Dense(self.n_classes, dtype=self.dtype, param_dtype=self.dtype)(x)


def kd_loss(student_logits, teacher_logits, temperature):
    log_p = nn.log_softmax(student_logits / temperature)
    q = nn.softmax(teacher_logits / temperature)
    return -(q * log_p).sum(-1).mean() * temperature ** 2


def alpha_at(step, cfg):
    if step < cfg.hold_steps:
        return cfg.alpha
    return np.interp(step, [cfg.hold_steps, cfg.total_steps], [cfg.alpha, cfg.alpha_end])


def make_train_step(student, teacher, tx, cfg):
    @jax.jit
    def train_step(params, opt_state, teacher_params, tokens, labels, alpha):
        teacher_logits = teacher.apply(teacher_params, tokens)

        def loss_fn(p):
            logits = student.apply(p, tokens)
            ce = optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()
            kd = kd_loss(logits, teacher_logits, cfg.temperature)
            return alpha * kd + (1.0 - alpha) * ce

        loss, grads = jax.value_and_grad(loss_fn)(params)
        updates, opt_state = tx.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, loss

    return train_step


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hlo-dir", type=Path)
    parser.add_argument("--hlo-steps", type=int, nargs="*", default=[])
    args = parser.parse_args()

    cfg = DistillConfig()
    rng = np.random.default_rng(0)
    student = Classifier(cfg.vocab, 16, 1, cfg.n_classes)
    teacher = Classifier(cfg.vocab, 32, 1, cfg.n_classes)
    k1, k2 = jax.random.split(jax.random.key(0))
    tokens = jnp.zeros((cfg.batch_size, cfg.seq_len), jnp.int32)
    params, teacher_params = student.init(k1, tokens), teacher.init(k2, tokens)
    tx = optax.adamw(cfg.lr)
    opt_state = tx.init(params)
    train_step = make_train_step(student, teacher, tx, cfg)

    for step in range(cfg.total_steps):
        tokens = rng.integers(0, cfg.vocab, (cfg.batch_size, cfg.seq_len), dtype=np.int32)
        labels = tokens.sum(1) % cfg.n_classes
        inputs = (params, opt_state, teacher_params, tokens, labels.astype(np.int32),
                  alpha_at(step, cfg))
        if step in args.hlo_steps:
            hlo = train_step.lower(*inputs).compiler_ir("hlo").as_hlo_text()
            (args.hlo_dir / f"q15_{step}.hlo").write_text(hlo)
        params, opt_state, loss = train_step(*inputs)
        print(f"step {step} loss {float(loss):.4f} compiled {train_step._cache_size()}")


if __name__ == "__main__":
    main()
