"""Keyword spotting: data2vec-audio encoder with a classification head, trained from scratch."""
import torch
import torch_xla
from torch.utils.data import DataLoader, TensorDataset
from transformers import Data2VecAudioConfig, Data2VecAudioForSequenceClassification

SAMPLE_RATE = 16000
CLIP = 800  # 50 ms crops around the detected onset
KEYWORDS = ["yes", "no", "stop", "go", "up", "down"]


def synth_clips(n, seed):
    g = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, len(KEYWORDS), (n,), generator=g)
    t = torch.arange(CLIP) / SAMPLE_RATE
    f0 = 200.0 + 150.0 * labels.float()
    wav = torch.sin(2 * torch.pi * f0[:, None] * t) + 0.1 * torch.randn(n, CLIP, generator=g)
    wav = (wav - wav.mean(1, keepdim=True)) / wav.std(1, keepdim=True)
    return wav, labels


def build_model():
    config = Data2VecAudioConfig(
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        conv_dim=(16,),
        conv_kernel=(80,),
        conv_stride=(40,),
        conv_bias=False,
        feat_extract_activation="relu",
        hidden_act="relu",
        num_conv_pos_embeddings=1,
        num_conv_pos_embedding_groups=2,
        conv_pos_kernel_size=5,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        activation_dropout=0.0,
        feat_proj_dropout=0.0,
        final_dropout=0.0,
        apply_spec_augment=False,
        classifier_proj_size=16,
        num_labels=len(KEYWORDS),
        attn_implementation="eager",
    )
    model = Data2VecAudioForSequenceClassification(config)
    model.freeze_feature_encoder()
    return model


class Trainer:
    def __init__(self, model, device, lr=0.05):
        self.model = model.to(device).train()
        self.device = device
        params = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.SGD(params, lr=lr)
        self.seen = 0

    def training_step(self, wav, labels):
        self.optimizer.zero_grad()
        out = self.model(input_values=wav, labels=labels)
        out.loss.backward()
        self.optimizer.step()
        self.seen += labels.numel()
        return out.loss.detach()

    def fit(self, loader, epochs):
        for epoch in range(epochs):
            for wav, labels in loader:
                wav, labels = wav.to(self.device), labels.to(self.device)
                loss = self.training_step(wav, labels)
                torch_xla.sync()
            print(f"epoch {epoch}: seen {self.seen}, last loss {loss.item():.4f}")


def main():
    torch.manual_seed(11)
    loader = DataLoader(TensorDataset(*synth_clips(40, seed=3)), batch_size=4, shuffle=True, drop_last=True)
    trainer = Trainer(build_model(), torch_xla.device())
    trainer.fit(loader, epochs=2)


if __name__ == "__main__":
    main()
