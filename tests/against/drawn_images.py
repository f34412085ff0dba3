"""Random images in the formats that requests take, of modes and depths that writers know and that none writes; and how references decode them."""
import io, zlib
import numpy, PIL.Image, PIL.ImageOps


def draw_size(rng):
    kind = rng.randrange(6)
    if kind == 0:
        return rng.randint(1, 8), rng.randint(1, 8)
    if kind == 1:
        long, short = rng.randint(200, 1500), rng.randint(1, 12)
        return rng.choice([(long, short), (short, long)])
    if kind == 2:
        unit = rng.choice([14, 28, 56, 224, 364, 448])
        return unit * rng.randint(1, 3) + rng.choice([-1, 0, 0, 1]), unit * rng.randint(1, 3) + rng.choice([-1, 0, 0, 1])
    return rng.randint(1, 900), rng.randint(1, 700)


def draw_pixels(rng, size, bands, deep=False):
    noise = numpy.random.default_rng(rng.randrange(1 << 30))
    width, height = size
    y, x = numpy.mgrid[0:height, 0:width].astype(float)
    planes = []
    for _ in range(bands):
        wave = 127.5 + 127.5 * numpy.sin(x * rng.uniform(0, 0.6) + y * rng.uniform(0, 0.6) + rng.uniform(0, 6))
        kind = rng.randrange(4)
        plane = wave if kind == 0 else noise.uniform(0, 255.99, (height, width)) if kind == 1 else (
            numpy.clip(wave + noise.normal(0, 20, (height, width)), 0, 255) if kind == 2 else 255.0 * (wave > rng.uniform(20, 230)))
        planes.append(plane)
    pixels = numpy.stack(planes, -1) if bands > 1 else planes[0]
    return (pixels * 257).astype(numpy.uint16) if deep else pixels.astype(numpy.uint8)


def exif_of(rng):
    exif = PIL.Image.Exif()
    exif[274] = rng.choice([1, 2, 3, 4, 5, 6, 7, 8, 6, 0, 9])
    if rng.random() < 0.5:
        exif[271] = "maker"
    return exif.tobytes()


def save(image, **options):
    stream = io.BytesIO()
    image.save(stream, **{key: value for key, value in options.items() if value is not None})
    return stream.getvalue()


def draw_jpeg(rng, size):
    mode = rng.choice(["RGB", "RGB", "L", "CMYK"])
    image = PIL.Image.fromarray(draw_pixels(rng, size, len(mode)), mode)
    sampling = rng.choice([None, 0, 1, 2, "4:1:1"]) if mode == "RGB" else None
    options = {"progressive": rng.random() < 0.4, "subsampling": sampling, "quality": rng.randint(5, 100), "optimize": rng.random() < 0.3,
               "exif": exif_of(rng) if rng.random() < 0.4 else None, "restart_marker_rows": rng.choice([None, 1, 3]),
               "keep_rgb": True if mode == "RGB" and rng.random() < 0.15 else None}
    if options["keep_rgb"]:
        options["subsampling"] = None
    return (mode, options), save(image, format="JPEG", **options)


def draw_png(rng, size):
    kind = rng.choice(["1", "L", "LA", "RGB", "RGBA", "P", "P1", "P2", "P4", "I;16", "RGB16", "L2", "L4"])
    options = {"exif": exif_of(rng) if rng.random() < 0.2 else None, "optimize": rng.random() < 0.2, "compress_level": rng.randint(0, 9)}
    if kind in ("RGB16", "L2", "L4") or rng.random() < 0.25:
        return draw_raw_png(rng, size)
    bands = {"LA": 2, "RGB": 3, "RGBA": 4}.get(kind, 1)
    if kind == "I;16":
        image = PIL.Image.fromarray(draw_pixels(rng, size, 1, deep=True))
    elif kind[0] == "P":
        bits = int(kind[1:] or 8)
        image = PIL.Image.fromarray(draw_pixels(rng, size, 1) >> (8 - bits), "P")
        image.putpalette([rng.randrange(256) for _ in range(3 * rng.choice([1 << bits, max(1, (1 << bits) - 1)]))])
        options["bits"] = bits
    else:
        image = PIL.Image.fromarray(draw_pixels(rng, size, bands), "L" if kind == "1" else kind)
        image = image.convert("1") if kind == "1" else image
    if rng.random() < 0.5:
        if kind[0] == "P":
            options["transparency"] = rng.choice([rng.randrange(4), bytes(rng.randrange(256) for _ in range(rng.randint(1, 1 << options["bits"])))])
        elif kind in ("L", "1"):
            options["transparency"] = rng.choice([0, 255, 128])
        elif kind == "RGB":
            options["transparency"] = image.getpixel((0, 0))
    return (kind, options), save(image, format="PNG", **options)


def chunk(name, data):
    return len(data).to_bytes(4, "big") + name + data + zlib.crc32(name + data).to_bytes(4, "big")


def draw_raw_png(rng, size):
    """What Pillow does not write: depths of 2, 4 and 16 bits of every colour, Adam7, chunks of odd kinds."""
    colour, depth = rng.choice([(0, 1), (0, 2), (0, 4), (0, 8), (0, 16), (2, 8), (2, 16), (3, 1), (3, 2), (3, 4), (3, 8), (4, 8), (4, 16), (6, 8), (6, 16)])
    bands = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colour]
    width, height = size
    values = draw_pixels(rng, size, bands, deep=depth == 16).reshape(height, width, bands).astype(numpy.uint32)
    if depth < 8:
        values >>= 8 - depth
    entries = rng.choice([1 << depth, max(1, (1 << depth) - 1)]) if colour == 3 else 0
    if colour == 3 and rng.random() < 0.85:
        values = numpy.minimum(values, entries - 1)
    interlaced = rng.random() < 0.5

    def rows(part):
        lines = b""
        for line in part:
            flat = line.reshape(-1)
            bits = ((flat[:, None] >> numpy.arange(depth - 1, -1, -1)[None]) & 1).astype(numpy.uint8).reshape(-1)
            lines += b"\0" + numpy.packbits(bits).tobytes()
        return lines
    passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)] if interlaced else [(0, 0, 1, 1)]
    parts = [values[y::dy, x::dx] for x, y, dx, dy in passes]
    data = zlib.compress(b"".join(rows(part) for part in parts if part.size))
    head = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes([depth, colour, 0, 0, int(interlaced)])
    out = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head)
    if rng.random() < 0.2:
        out += chunk(b"gAMA", (rng.choice([45455, 100000])).to_bytes(4, "big"))
    if rng.random() < 0.2:
        out += chunk(b"sBIT", bytes([max(1, min(depth, 8) - 1)] * (3 if colour == 3 else bands)))
    if colour == 3:
        out += chunk(b"PLTE", bytes(rng.randrange(256) for _ in range(3 * entries)))
    clear = rng.random() < 0.4 and colour in (0, 2, 3)
    if clear and colour == 3:
        out += chunk(b"tRNS", bytes(rng.choice([0, 255, rng.randrange(256)]) for _ in range(rng.randint(1, entries))))
    elif clear:
        out += chunk(b"tRNS", b"".join(int(v).to_bytes(2, "big") for v in values[0, 0]))
    if rng.random() < 0.2:
        out += chunk(b"eXIf", exif_of(rng)[6:])
    if rng.random() < 0.1:
        out += chunk(b"bKGD", bytes(1 if colour == 3 else 2 * (3 if bands > 2 else 1)))
    middle = rng.randint(0, len(data))
    out += chunk(b"IDAT", data[:middle]) + chunk(b"IDAT", data[middle:]) + chunk(b"IEND", b"")
    return (f"raw colour {colour} depth {depth}", {"interlaced": interlaced, "clear": clear}), out


def draw_webp(rng, size):
    mode = rng.choice(["RGB", "RGBA"])
    image = PIL.Image.fromarray(draw_pixels(rng, size, len(mode)), mode)
    options = {"lossless": rng.random() < 0.5, "quality": rng.randint(1, 100), "method": rng.randint(0, 4), "exact": rng.random() < 0.5,
               "exif": exif_of(rng) if rng.random() < 0.3 else None}
    if rng.random() < 0.2:
        options |= {"save_all": True, "append_images": [image.transpose(PIL.Image.Transpose.ROTATE_180)], "background": (9, 99, 199, rng.choice([0, 255]))}
    return (mode, options), save(image, format="WEBP", **options)


def draw_gif(rng, size):
    mode = rng.choice(["P", "L", "1", "RGB"])
    image = PIL.Image.fromarray(draw_pixels(rng, size, 3 if mode == "RGB" else 1), "L" if mode == "1" else mode)
    if mode == "P":
        image.putpalette([rng.randrange(256) for _ in range(3 * rng.choice([2, 7, 16, 255, 256]))])
    image = image.convert("1") if mode == "1" else image
    options = {"interlace": rng.randrange(2), "transparency": rng.choice([None, 0, rng.randrange(256)]) if mode != "RGB" else None,
               "background": rng.choice([None, rng.randrange(4)])}
    if rng.random() < 0.3:
        options |= {"save_all": True, "append_images": [image.transpose(PIL.Image.Transpose.ROTATE_180)], "disposal": rng.randrange(4)}
    return (mode, options), save(image, format="GIF", **options)


FORMATS = {"jpeg": draw_jpeg, "png": draw_png, "webp": draw_webp, "gif": draw_gif}


def break_file(rng, data):
    kind = rng.randrange(3)
    if kind == 0:
        return data[:rng.randint(0, len(data))]
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 8])):
        data[rng.randrange(len(data)) if kind == 1 else rng.randrange(min(64, len(data)))] = rng.randrange(256)
    return bytes(data)


def decode(data):
    """As vLLM's ImageMediaIO.load_bytes does it."""
    image = PIL.Image.open(io.BytesIO(data))
    try:
        image = PIL.ImageOps.exif_transpose(image)
    except Exception:
        pass
    image.load()
    if image.mode != "RGB" and (image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info):
        image = image if image.mode == "RGBA" else image.convert("RGBA")
        white = PIL.Image.new("RGB", image.size, (255, 255, 255))
        white.paste(image, mask=image.split()[3])
        return white
    return image if image.mode == "RGB" else image.convert("RGB")
