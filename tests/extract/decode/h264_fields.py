"""Writes H.264 of field pictures, two for each frame, which no encoder at hand does (ITU-T H.264, section 7.3)."""

WIDTH, HEIGHT = 32, 64  # of a frame, in macroblocks of 16: each field has half the lines


class Bits:
    def __init__(self):
        self.bits = ""

    def put(self, value, count):
        self.bits += f"{value:0{count}b}"
        return self

    def ue(self, value):
        digits = f"{value + 1:b}"
        self.bits += "0" * (len(digits) - 1) + digits
        return self

    def align(self):
        self.bits += "0" * (-len(self.bits) % 8)
        return self

    def unit(self, kind):
        """Behind the start code, with the stop bit and the bytes that keep start codes out."""
        bits = self.bits + "1"
        bits += "0" * (-len(bits) % 8)
        out, zeros = bytearray(), 0
        for byte in int(bits, 2).to_bytes(len(bits) // 8, "big"):
            if zeros >= 2 and byte <= 3:
                out.append(3)
                zeros = 0
            out.append(byte)
            zeros = zeros + 1 if byte == 0 else 0
        return b"\0\0\0\1" + bytes([kind]) + bytes(out)


def headers(rate):
    sps = Bits().put(77, 8).put(0, 8).put(30, 8)  # main profile, level 3
    sps.ue(0).ue(0).ue(2).ue(1).put(0, 1)  # frame_num of 4 bits, pictures in the order of decoding, one reference
    sps.ue(WIDTH // 16 - 1).ue(HEIGHT // 32 - 1).put(0, 1).put(0, 1)  # fields are allowed, no frames of both kinds
    sps.put(1, 1).put(0, 1)  # direct_8x8_inference, no cropping
    sps.put(1, 1).put(0, 4).put(1, 1).put(1, 32).put(2 * rate, 32).put(1, 1).put(0, 4)  # VUI: the rate, and nothing else
    pps = Bits().ue(0).ue(0).put(0, 1).put(0, 1).ue(0).ue(0).ue(0).put(0, 1).put(0, 2).ue(0).ue(0).ue(0).put(0, 3)
    return sps.unit(0x67) + pps.unit(0x68)


def field(frame, bottom, level, is_key):
    """A field of one level, or (None) one that repeats the field before."""
    is_idr = is_key and not bottom
    bits = Bits().ue(0).ue(7 if level is not None else 5).ue(0).put(frame % 16, 4).put(1, 1).put(int(bottom), 1)
    if is_idr:
        bits.ue(0)
    if level is None:
        bits.put(0, 1).put(0, 1)  # the usual number and order of references
    bits.put(0, 2 if is_idr else 1)  # dec_ref_pic_marking
    bits.ue(0)  # slice_qp_delta
    macroblocks = WIDTH * HEIGHT // 2 // 256
    if level is None:
        return bits.ue(macroblocks).unit(0x61)  # mb_skip_run
    for _ in range(macroblocks):
        bits.ue(25).align()  # I_PCM
        for value in [level] * 256 + [128] * 128:
            bits.put(value, 8)
    return bits.unit(0x65 if is_idr else 0x61)


def stream(levels, rate=25, group=5):
    """A frame of each level, of which every `group`th stands alone; the second field of every third one repeats."""
    out = b""
    for i, level in enumerate(levels):
        key = i % group == 0
        start = b"\0\0\0\1\x09\xf0" + (headers(rate) if key else b"")
        second = field(i % group, True, None if i % 3 == 2 else level, False)
        out += start + field(i % group, False, level, key) + b"\0\0\0\1\x09\xf0" + second
    return out
