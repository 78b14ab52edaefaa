"""Tensors: what exists is consistent, and size is checked before memory is taken."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from lefleet_client.wire import BadTensor, Tensor, decode_tensor, encode_tensor

DTYPES = ["u1", "i1", "<u2", "<i2", "<u4", "<i4", "<u8", "<i8", "<f2", "<f4", "<f8"]
SIZES = st.one_of(st.integers(-(2**63), 2**64 - 1), st.integers(-2, 8))


@given(
    st.sampled_from(DTYPES).flatmap(
        lambda dtype: npst.arrays(dtype, npst.array_shapes(max_dims=4, max_side=4))
    )
)
def test_round_trip(array):
    back = decode_tensor(encode_tensor(array))
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(back, array)


def test_big_endian_and_strided_arrays_arrive_as_they_were():
    array = np.arange(12, dtype=">f4").reshape(3, 4)[:, ::2].T
    tensor = encode_tensor(array)
    assert bytes(tensor.data[:8]) == np.array([0, 4], "<f4").tobytes()
    np.testing.assert_array_equal(decode_tensor(tensor), array)


def test_a_decoded_array_cannot_change_what_was_received():
    back = decode_tensor(encode_tensor(np.zeros(3, "f4")))
    with pytest.raises(ValueError, match="read-only"):
        back[0] = 1


@pytest.mark.parametrize("dtype", ["O", "U3", "S3", "c8", "M8[s]", "?", "V4"])
def test_other_dtypes_are_refused_on_both_ends(dtype):
    with pytest.raises(BadTensor, match="dtype"):
        encode_tensor(np.zeros(2, dtype))
    with pytest.raises(BadTensor, match="dtype"):
        Tensor(dtype, (2,), memoryview(b"12345678"))


@pytest.mark.parametrize(
    ("shape", "size"),
    [
        ((), 4),
        ((0,), 0),
        ((0, 2**62), 0),
        ((-1,), 4),
        ((-1, -1), 4),
        ((2,), 4),
        ((1,), 5),
        ((2**64 - 1,), 4),
        ((2**32, 2**32), 0),
        ((2**62, 4), 4),
        ((2**63, 2, 2), 4),
        ((1,) * 9, 4),
        ((4 * 2**20 + 1,), 4),
    ],
)
def test_hostile_shapes_are_refused(shape, size):
    with pytest.raises(BadTensor):
        Tensor("float32", shape, memoryview(bytes(size)))


@given(st.lists(SIZES, max_size=10).map(tuple), st.integers(0, 64))
def test_any_shape_is_right_or_a_typed_error(shape, size):
    try:
        tensor = Tensor("int16", shape, memoryview(bytes(size)))
    except BadTensor:
        return
    assert decode_tensor(tensor).nbytes == size
