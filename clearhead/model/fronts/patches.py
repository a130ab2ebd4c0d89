"""Images to vectors: an image is a sequence of patches (ViT, Dosovitskiy et al. 2021, Equation 1)."""

import torch
from torch import Tensor, nn

from ...errors import ModelError
from ..linear import Linear, learned_table
from .front import Front


class Patches(Front):
    """Cuts an image into squares, row by row, and projects the pixels of each.

    Pixels from 0 to 255 become -1 to 1. With `class_token`, a learned vector comes first, for a head that reads one
    position. In training, `augment` moves, mirrors and enlarges images at random.

    Args:
        d_model: the width of the embeddings.
        image_size: height and width of an image in pixels.
        image_channels: 1 for grey images, 3 for colour.
        patch_size: height and width of a patch; must divide `image_size`.
        class_token: whether to put a class token first.
        shift: maximum shift in each direction, in pixels.
        flip: whether to mirror half of the images, left to right.
        crop: minimum share of the area that a random crop keeps; 1 for no cropping.
    """

    def __init__(
        self,
        d_model: int,
        image_size: int,
        image_channels: int,
        patch_size: int,
        *,
        class_token: bool = False,
        shift: int = 0,
        flip: bool = False,
        crop: float = 1.0,
    ) -> None:
        super().__init__()
        self.shape, self.patch_size = (image_channels, image_size, image_size), patch_size
        self.shift, self.flip, self.crop = shift, flip, crop
        self.project = Linear(image_channels * patch_size**2, d_model)
        self.class_token = learned_table(d_model) if class_token else None

    def forward(self, inputs: Tensor) -> Tensor:  # (B, C, H, W) -> (B, S, D)
        if inputs.shape[1:] != self.shape:
            what = f"the images have shape {tuple(inputs.shape[1:])}"
            expected, fix = f"(C, H, W) = {self.shape}", "resize them to the model's size"
            raise ModelError(what, expected=expected, fix=fix, name="inputs", value=tuple(inputs.shape))
        pixels = inputs.to(self.project.weight.dtype) / 127.5 - 1
        x: Tensor = self.project(patches(pixels, self.patch_size))
        if self.class_token is None:
            return x
        return torch.cat((self.class_token.expand(x.size(0), 1, -1), x), 1)

    def names(self, inputs: Tensor) -> list[list[str]]:
        """Return row and column of each patch, counted from 0: "r2c5". The class token is called "class"."""
        across = range(self.shape[2] // self.patch_size)
        found = [f"r{row}c{column}" for row in across for column in across]
        return [["class"] * (self.class_token is not None) + found] * len(inputs)

    def augment(self, inputs: Tensor) -> Tensor:  # (B, C, H, W) -> (B, C, H, W)
        """Shift, mirror and crop each image at random. What comes from outside an image is black."""
        if not (self.shift or self.flip or self.crop < 1):
            return inputs
        n, (_, height, width), device = len(inputs), self.shape, inputs.device
        scale = 1 - (1 - self.crop**0.5) * torch.rand(n, device=device)  # share of each side that is kept
        free = (torch.rand(n, 2, device=device) * 2 - 1) * (1 - scale)[:, None]  # the crop stays inside the image
        pixels = torch.randint(-self.shift, self.shift + 1, (n, 2), device=device)
        centre = free + pixels * torch.tensor([2 / width, 2 / height], device=device)
        mirror = torch.where(torch.rand(n, device=device) < 0.5, -1.0, 1.0) if self.flip else torch.ones_like(scale)
        zero = torch.zeros_like(scale)
        rows = [torch.stack((scale * mirror, zero, centre[:, 0]), 1), torch.stack((zero, scale, centre[:, 1]), 1)]
        with torch.autocast(device.type, enabled=False):  # bfloat16 would move pixels by up to a 256th of the width
            grid = nn.functional.affine_grid(torch.stack(rows, 1), list(inputs.shape), align_corners=False)
            return nn.functional.grid_sample(inputs.to(grid.dtype), grid, align_corners=False)


def patches(images: Tensor, size: int) -> Tensor:
    """Cut images into patches, row by row; a patch lists its pixels by channel, row and column.

    (B, C, H, W) -> (B, S, N), for S = H/P * W/P patches of N = C * P * P numbers
    """
    n, channels, height, width = images.shape
    cut = images.view(n, channels, height // size, size, width // size, size)
    return cut.permute(0, 2, 4, 1, 3, 5).reshape(n, -1, channels * size * size)
