import numpy as np
import torch
import torch_xla
from transformers import Wav2Vec2Config, Wav2Vec2ForSequenceClassification


def tiny_config(classes):
    return Wav2Vec2Config(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=24,
        conv_dim=(8, 8), conv_stride=(5, 4), conv_kernel=(10, 8), num_feat_extract_layers=2,
        num_conv_pos_embeddings=4, num_conv_pos_embedding_groups=2, feat_extract_norm="layer",
        mask_time_prob=0.3, mask_time_length=3, layerdrop=0.0, num_labels=classes,
        classifier_proj_size=8, hidden_dropout=0.0, attention_dropout=0.0, feat_proj_dropout=0.0,
        final_dropout=0.0, activation_dropout=0.0, vocab_size=8, attn_implementation="eager",
    )


class SpeakerTask:
    def __init__(self, classes=4):
        self.classes = classes
        self.tones = torch.randn(classes, 1) * 3

    def batch(self, n=4, samples=600):
        y = torch.randint(0, self.classes, (n,))
        t = torch.linspace(0, 40, samples)[None]
        return torch.sin(self.tones[y] * t) + 0.1 * torch.randn(n, samples), y


def main():
    torch.manual_seed(0)
    np.random.seed(0)
    device = torch_xla.device()
    task = SpeakerTask()
    model = Wav2Vec2ForSequenceClassification(tiny_config(task.classes)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    model.train()
    for step in range(8):
        wave, label = task.batch()
        out = model(input_values=wave.to(device), labels=label.to(device))
        optimizer.zero_grad()
        out.loss.backward()
        optimizer.step()
        torch_xla.sync()
        print(step, out.loss.item())


main()
