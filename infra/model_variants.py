"""Variants of a model that the trainer publishes next to it; `trainer/pytorch/compression/config.py` has the same."""

from typing import Literal

ModelVariant = Literal["int8", "int8-dynamic", "pruned", "pruned-int8", "sparse", "pt2", "compiled"]
"""int8: weights and activations in 8 bits. int8-dynamic: linear layers alone, without calibration. pruned: without the
channels of least weight. pruned-int8: both. sparse: the smallest weights are zero, which makes nothing faster. pt2: as
torch.export writes it, not compressed. compiled: that as native code. Of a model that is
TorchScript, all others are, too."""
