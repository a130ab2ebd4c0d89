"""Output sizes of the front ends for images and audio, computed without torch."""

PAD_SAMPLE = -32768  # marks padding in a batch of recordings: the one 16-bit value that no sample has
WINDOW, HOP = 0.025, 0.010  # seconds of a spectrogram's window, and between two windows
SUBSAMPLING = 4  # spectrogram frames per position: two convolutions of stride 2
_GRID = 7  # rows of patches that an image is cut into, at least


def hop_length(sample_rate: int) -> int:
    """Return the samples between two frames of a spectrogram."""
    return round(HOP * sample_rate)


def window_length(sample_rate: int) -> int:
    """Return the samples in the window of a frame."""
    return round(WINDOW * sample_rate)


def n_frames(n_samples: int, sample_rate: int) -> int:
    """Return the frames of a spectrogram; a frame is centred on every `hop_length`-th sample."""
    return -(-n_samples // hop_length(sample_rate))


def audio_positions(n_samples: int, sample_rate: int) -> int:
    """Return the positions of a recording in the encoder, one for every four frames begun."""
    return -(-n_frames(n_samples, sample_rate) // SUBSAMPLING)


def position_seconds(sample_rate: int) -> float:
    """Return the seconds from one position of a recording to the next."""
    return SUBSAMPLING * hop_length(sample_rate) / sample_rate


def position_samples(n_positions: int, sample_rate: int) -> int:
    """Return the samples of the longest recording with this many positions."""
    return n_positions * SUBSAMPLING * hop_length(sample_rate)


def image_positions(image_size: int, patch_size: int, *, class_token: bool) -> int:
    """Return the positions of an image in the encoder: one for each patch, and the class token.

    Args:
        image_size: height and width of the image in pixels.
        patch_size: height and width of a patch in pixels, which divides the image's.
        class_token: True if a learned token precedes the patches, for pooling by the first position.
    """
    return (image_size // patch_size) ** 2 + class_token


def usual_patch_size(image_size: int) -> int:
    """Return the largest patch that divides an image into at least 7 rows, or 1."""
    fits = (size for size in range(max(1, image_size // _GRID), 0, -1) if image_size % size == 0)
    return next(fits, 1)
