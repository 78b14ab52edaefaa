"""Arrays inside a body: a dtype of a short list, a shape, and little-endian data."""

from math import prod
from typing import Annotated, Any

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from lefleet_client.wire.errors import BadTensor
from lefleet_client.wire.limits import MAX_DIMENSIONS, MAX_TENSOR_BYTES

# Numbers only: nothing that refers to memory or carries code.
_ITEM_BYTES = {
    "uint8": 1,
    "int8": 1,
    "uint16": 2,
    "int16": 2,
    "uint32": 4,
    "int32": 4,
    "uint64": 8,
    "int64": 8,
    "float16": 2,
    "float32": 4,
    "float64": 8,
}


class Tensor(Struct, frozen=True):
    """An array as it travels. What exists is consistent: a wrong one cannot be made."""

    dtype: Annotated[str, Meta(max_length=16)]
    shape: Annotated[tuple[int, ...], Meta(min_length=1, max_length=MAX_DIMENSIONS)]
    data: memoryview

    def __post_init__(self) -> None:
        item_bytes = _ITEM_BYTES.get(self.dtype)
        if item_bytes is None:
            raise BadTensor(f"dtype {self.dtype[:40]!r} is not one of {', '.join(_ITEM_BYTES)}")
        if not 1 <= len(self.shape) <= MAX_DIMENSIONS:
            raise BadTensor(f"{len(self.shape)} dimensions, not 1 to {MAX_DIMENSIONS}")
        if any(size < 1 for size in self.shape):
            raise BadTensor(f"shape {self.shape} has a size below 1")
        expected = prod(self.shape) * item_bytes
        if expected > MAX_TENSOR_BYTES:
            raise BadTensor(f"shape {self.shape} of {self.dtype} is above {MAX_TENSOR_BYTES} bytes")
        if self.data.nbytes != expected:
            raise BadTensor(
                f"shape {self.shape} of {self.dtype} is {expected} bytes, data has "
                f"{self.data.nbytes}"
            )


def encode_tensor(array: NDArray[Any]) -> Tensor:
    """An array as a tensor; it shares the array's memory where the layout allows it."""
    if array.dtype.name not in _ITEM_BYTES:
        raise BadTensor(f"dtype {array.dtype.name!r} is not one of {', '.join(_ITEM_BYTES)}")
    plain = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return Tensor(array.dtype.name, array.shape, octets(plain))


def decode_tensor(tensor: Tensor) -> NDArray[Any]:
    """The array: a read-only view of the body's bytes."""
    dtype = np.dtype(tensor.dtype).newbyteorder("<")
    array = np.frombuffer(tensor.data, dtype=dtype).reshape(tensor.shape)
    array.flags.writeable = False
    return array


def octets(array: NDArray[Any]) -> memoryview:
    """The bytes of a contiguous array, not copied."""
    return array.reshape(-1).view(np.uint8).data


def require_floats(tensor: Tensor, dimensions: int, field: str) -> None:
    """Check that a field which means numbers of a robot is float32 with so many dimensions."""
    if tensor.dtype != "float32" or len(tensor.shape) != dimensions:
        raise BadTensor(
            f"{field}: float32 with {dimensions} dimensions is needed, "
            f"not {tensor.dtype} of shape {tensor.shape}"
        )
