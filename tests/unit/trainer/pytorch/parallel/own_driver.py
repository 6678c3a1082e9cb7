"""A training of the language model in which nothing is the trainer's: forward pass, loss, clipping and AdamW."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tests.unit.trainer.pytorch.parallel.train_layouts import GPT, MASKS, OPTIMIZER, STEPS, Case, batch
from trainer.pytorch.parallel.blocks import BlocksConfig
from trainer.pytorch.parallel.build import Recipe
from trainer.pytorch.parallel.degrees import ParallelConfig
from trainer.pytorch.precision import PrecisionConfig
from trainer.pytorch.task import NOT_COUNTED

SHAPE = GPT.shape


def train() -> tuple[list[float], list[float]]:
    """Return the loss of each step, over all counted targets of the batch, and the norm of its gradient."""
    model, device = GPT.build(), torch.device("cpu")
    Recipe(model=GPT, parallel=ParallelConfig(), precision=PrecisionConfig(), blocks=BlocksConfig()).draw(model, device)
    parameters = {name: value.clone().requires_grad_() for name, value in model.state_dict().items()}
    moments = {name: (torch.zeros_like(value), torch.zeros_like(value)) for name, value in parameters.items()}
    losses, norms = [], []
    for step in range(STEPS):
        tokens, targets = batch(Case("own", GPT), step % (STEPS - 1), MASKS[step])
        loss = mean_of_counted(logits_of(parameters, tokens), targets)
        gradients = torch.autograd.grad(loss, list(parameters.values()))
        norm = math.sqrt(sum(float(each.square().sum()) for each in gradients))
        scale = min(1.0, OPTIMIZER.gradient_clip_norm / norm) if norm else 1.0
        for (name, value), gradient in zip(parameters.items(), gradients, strict=True):
            update(value, scale * gradient, moments[name], step + 1)
        losses.append(loss.item())
        norms.append(norm)
    return losses, norms


def mean_of_counted(logits: Tensor, targets: Tensor) -> Tensor:
    total, counted = logits.sum() * 0, 0
    for row, target in zip(logits.flatten(0, 1), targets.flatten().tolist(), strict=True):
        if target != NOT_COUNTED:
            total, counted = total + row.exp().sum().log() - row[target], counted + 1
    return total / max(1, counted)


def logits_of(parameters: dict[str, Tensor], tokens: Tensor) -> Tensor:
    x = parameters["embedding.tokens.weight"][tokens] + parameters["embedding.positions.weight"][: tokens.shape[1]]
    for block in range(SHAPE.layers):
        own = {name.partition(f"blocks.{block}.")[2]: value for name, value in parameters.items()}
        x = x + attention(own, normal(own, "attention_norm", x))
        hidden = normal(own, "feed_forward_norm", x) @ own["feed_forward.input.weight"].T
        x = x + (hidden * (1 + (hidden / math.sqrt(2)).erf()) / 2) @ own["feed_forward.output.weight"].T
    return normal(parameters, "head.norm", x) @ parameters["head.logits.weight"].T


def attention(own: dict[str, Tensor], x: Tensor) -> Tensor:
    width = SHAPE.width // SHAPE.heads
    query, key, value = (x @ own[f"attention.{name}.weight"].T for name in ("query", "key", "value"))
    later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
    mixed = []
    for head in range(SHAPE.heads):
        part = slice(head * width, (head + 1) * width)
        scores = query[..., part] @ key[..., part].transpose(1, 2) / math.sqrt(width)
        weights = scores.masked_fill(later, -math.inf).exp()
        mixed.append(weights / weights.sum(2, keepdim=True) @ value[..., part])
    return torch.cat(mixed, 2) @ own["attention.output.weight"].T


def normal(own: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return (
        centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt() * own[f"{name}.weight"] + own[f"{name}.bias"]
    )


def update(value: Tensor, gradient: Tensor, moments: tuple[Tensor, Tensor], step: int) -> None:
    """Loshchilov and Hutter, "Decoupled Weight Decay Regularization", algorithm 2; matrices alone decay."""
    first, second = OPTIMIZER.adam_betas
    moments[0].mul_(first).add_((1 - first) * gradient)
    moments[1].mul_(second).add_((1 - second) * gradient.square())
    with torch.no_grad():
        if value.ndim > 1:
            value.mul_(1 - OPTIMIZER.learning_rate * OPTIMIZER.weight_decay)
        root = (moments[1] / (1 - second**step)).sqrt() + OPTIMIZER.adam_epsilon
        value.sub_(OPTIMIZER.learning_rate * moments[0] / (1 - first**step) / root)
