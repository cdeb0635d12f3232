"""Windows bitmaps of the kinds that Pillow reads and does not write."""

import struct

import numpy as np

MASKS = struct.pack("<3I", 0xff0000, 0xff00, 0xff)


def rows(values, bits):
    """Rows of indices as packed bits, each filled up to a multiple of four bytes, the lowest row first."""
    packed = [np.packbits(((line[:, None] >> np.arange(bits - 1, -1, -1)) & 1).astype(np.uint8)).tobytes() for line in values[::-1]]
    return b"".join(line + bytes(-len(line) % 4) for line in packed)


def bitmap(width, height, bits, pixels, palette=b"", colours=0, compression=0, header=40, behind=b"", gap=0):
    if header == 12:
        info = struct.pack("<IHHHH", 12, width, height, 1, bits)
    else:
        info = struct.pack("<IiiHHIIiiII", header, width, height, 1, bits, compression, len(pixels), 0, 0, colours, 0)
    info = (info + behind).ljust(header, b"\0") + bytes(gap)
    offset = 14 + len(info) + len(palette)
    return b"BM" + struct.pack("<IHHI", offset + len(pixels), 0, 0, offset) + info + palette + pixels


def variants(image):
    """{name: content} of an RGB image."""
    width, height = image.size
    rgb = np.asarray(image)
    bgr = rgb[:, :, ::-1]
    filled = np.concatenate([bgr, rgb[:, :, :1]], 2)  # of which the fourth byte means nothing, or alpha
    lines = [line.tobytes() + bytes(-3 * width % 4) for line in bgr]
    plain = b"".join(lines[::-1])
    made = {"top_down": bitmap(width, -height, 24, b"".join(lines)),
            "core_24_bits": bitmap(width, height, 24, plain, header=12),
            "masks": bitmap(width, height, 32, filled[::-1].tobytes(), compression=3, behind=MASKS, header=40),
            "masks_version_4": bitmap(width, height, 32, filled[::-1].tobytes(), compression=3, behind=MASKS, header=108),
            "alpha_version_5": bitmap(width, height, 32, filled[::-1].tobytes(), compression=3, header=124,
                                      behind=MASKS + struct.pack("<I", 0xff000000))}
    for bits, colours in [(1, 2), (4, 16), (4, 11), (8, 200)]:
        few = image.quantize(colours)
        palette = np.array(few.getpalette(), np.uint8).reshape(-1, 3)[:colours]
        palette = np.concatenate([palette, np.zeros((colours - len(palette), 3), np.uint8)])[:, ::-1]
        pixels = rows(np.asarray(few), bits)
        four = np.concatenate([palette, np.zeros((colours, 1), np.uint8)], 1).tobytes()
        made[f"{bits}_bits_{colours}_colours"] = bitmap(width, height, bits, pixels, four, colours)
        if colours == 1 << bits:
            made[f"core_{bits}_bits"] = bitmap(width, height, bits, pixels, palette.tobytes(), header=12)
    return made
