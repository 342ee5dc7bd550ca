"""Watermark buckets: which streams a controller runs the cycle for.

A stream belongs to the bucket its name hashes to. The elected leader spreads the buckets over the live controllers so
that their loads differ by one at most, and moves as few as it can.

Source: PDP-33, Distributing Streams across Controller instances; upstream classes `BucketStore` and
`UniformBucketDistributor`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from wmlab.core.errors import ModelError

_MASK = 2**32 - 1
_NO_SIGN = 2**31 - 1


def bucket_of(stream: str, count: int) -> int:
    """The bucket 0 .. count - 1 of a stream, named "scope/stream".

    The hash is the 32-bit polynomial with base 31 over the UTF-16 units of the name, sign bit cleared. Raises
    `ModelError` for a count below 1. Source: upstream class `BucketStore` (getBucket).
    """
    _refuse_count(count)
    units = stream.encode("utf-16-be", "surrogatepass")
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & _MASK
    return (value & _NO_SIGN) % count


def distribute(
    controllers: Collection[str], count: int, before: Mapping[str, frozenset[int]] | None = None
) -> Mapping[str, frozenset[int]]:
    """The buckets 0 .. count - 1 of each controller: every bucket once, loads differing by one at most.

    A bucket leaves its controller `before` only if that is gone or has more than its share. Without controllers the
    result is empty. Raises `ModelError` for a count below 1. Source: upstream class `UniformBucketDistributor`.
    """
    _refuse_count(count)
    if not controllers:
        return {}
    held = {name: sorted(b for b in (before or {}).get(name, ()) if b < count) for name in sorted(controllers)}
    share, larger = divmod(count, len(held))
    # The controllers that hold most keep the one bucket that some have more than others.
    by_load = sorted(held, key=lambda name: (-len(held[name]), name))
    quota = {name: share + (rank < larger) for rank, name in enumerate(by_load)}
    kept = {name: buckets[: quota[name]] for name, buckets in held.items()}
    free = sorted(set(range(count)) - {bucket for buckets in kept.values() for bucket in buckets})
    for name, buckets in kept.items():
        missing = quota[name] - len(buckets)
        buckets.extend(free[:missing])
        del free[:missing]
    return {name: frozenset(buckets) for name, buckets in kept.items()}


def take(owners: Mapping[int, str], bucket: int, controller: str, count: int) -> tuple[Mapping[int, str], bool]:
    """The owners after a controller has tried to take a bucket, and whether it owns it now.

    Taking one's own bucket again succeeds; taking another's is refused until that lets go. Raises `ModelError` for a
    bucket outside 0 .. count - 1. Source: upstream class `BucketService` (takeBucketOwnership).
    """
    if not 0 <= bucket < count:
        raise ModelError(f"There is no bucket {bucket}.", remedy=f"Give a bucket between 0 and {count - 1}.")
    if owners.get(bucket, controller) != controller:
        return owners, False
    return {**owners, bucket: controller}, True


def _refuse_count(count: int) -> None:
    if count < 1:
        raise ModelError(f"{count} is not a number of buckets.", remedy="Give at least one bucket.")
