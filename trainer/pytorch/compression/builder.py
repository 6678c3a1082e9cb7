"""Builds the variants of a trained model."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import torch

from trainer.pytorch.compression.pruning import fine_tune, with_masks, without_channels, without_masks
from trainer.pytorch.compression.quantization import quantize_dynamic, quantize_static
from trainer.pytorch.deterministic import any_kernel

if TYPE_CHECKING:
    from torch import Tensor, nn

    from trainer.pytorch.compression.config import CompressionConfig, Variant
    from trainer.pytorch.compression.samples import Samples


class VariantBuilder:
    """Builds the variants of one model; what two of them share is done once."""

    def __init__(self, model: nn.Module, training: Samples, config: CompressionConfig) -> None:
        """Keep what the variants are built from.

        Args:
            model: On the CPU, in evaluation mode; left as it is.
            training: What calibrates and fine-tunes.
            config: How much.
        """
        self._model = model
        self._training = training
        self._config = config

    def build(self, variant: Variant) -> nn.Module:
        """Return the model of a variant, in evaluation mode.

        Raises:
            Exception: whatever torch raises for an architecture that it cannot compress; ValueError with a fix where
                the reason is known.
        """
        with any_kernel():
            match variant:
                case "int8":
                    return quantize_static(self._model, self._calibration)
                case "int8-dynamic":
                    return quantize_dynamic(self._model)
                case "pruned":
                    return self._pruned
                case "pruned-int8":
                    return quantize_static(self._pruned, self._calibration)
                case "sparse":
                    sparse = with_masks(self._model, self._config.sparsity)
                    return without_masks(fine_tune(sparse, self._training, self._config))
                case "pt2" | "compiled":
                    return self._model

    @cached_property
    def _calibration(self) -> Tensor:
        """Samples of all classes, whatever the order of the data."""
        samples = self._training.shuffled(torch.Generator().manual_seed(0))
        return samples.inputs[: self._config.calibration_samples]

    @cached_property
    def _pruned(self) -> nn.Module:
        smaller = without_channels(self._model, self._training.inputs[:2], self._config.sparsity)
        return fine_tune(smaller, self._training, self._config)
