// From an element's number, or its position in the grid, to its place in a strided array.
#pragma once

template <typename IdxT = int64_t>
METAL_FUNC IdxT elem_to_loc(IdxT elem, constant const int* shape, constant const int64_t* strides, int ndim) {
  IdxT place = 0;
  for (int axis = ndim - 1; axis >= 0 && elem > 0; --axis) {
    const IdxT length = IdxT(shape[axis]);
    const IdxT rest = elem / length;
    place += (elem - rest * length) * IdxT(strides[axis]);
    elem = rest;
  }
  return place;
}

// x runs over the last axis, y over the one before it, z over all others.
template <typename IdxT = int64_t>
METAL_FUNC IdxT elem_to_loc(uint3 elem, constant const int* shape, constant const int64_t* strides, int ndim) {
  IdxT place = elem.x * IdxT(strides[ndim - 1]) + elem.y * IdxT(strides[ndim - 2]);
  uint z = elem.z;
  for (int axis = ndim - 3; axis >= 0; --axis) {
    place += (z % shape[axis]) * IdxT(strides[axis]);
    z /= shape[axis];
  }
  return place;
}

template <typename IdxT = int64_t>
METAL_FUNC IdxT elem_to_loc_1(uint elem, constant const int64_t& stride) {
  return elem * IdxT(stride);
}
template <typename IdxT = int64_t>
METAL_FUNC IdxT elem_to_loc_2(uint2 elem, constant const int64_t strides[2]) {
  return elem.x * IdxT(strides[1]) + elem.y * IdxT(strides[0]);
}
template <typename IdxT = int64_t>
METAL_FUNC IdxT elem_to_loc_3(uint3 elem, constant const int64_t strides[3]) {
  return elem.x * IdxT(strides[2]) + elem.y * IdxT(strides[1]) + elem.z * IdxT(strides[0]);
}

// The same element in two or three arrays of one shape.
template <typename IdxT = int64_t>
METAL_FUNC vec<IdxT, 2> elem_to_loc_2_nd(
    uint3 elem,
    constant const int* shape,
    constant const int64_t* a_strides,
    constant const int64_t* b_strides,
    int ndim) {
  return vec<IdxT, 2>(
      elem_to_loc<IdxT>(elem, shape, a_strides, ndim), elem_to_loc<IdxT>(elem, shape, b_strides, ndim));
}
template <typename IdxT = int64_t>
METAL_FUNC vec<IdxT, 3> elem_to_loc_3_nd(
    uint3 elem,
    constant const int* shape,
    constant const int64_t* a_strides,
    constant const int64_t* b_strides,
    constant const int64_t* c_strides,
    int ndim) {
  return vec<IdxT, 3>(
      elem_to_loc<IdxT>(elem, shape, a_strides, ndim),
      elem_to_loc<IdxT>(elem, shape, b_strides, ndim),
      elem_to_loc<IdxT>(elem, shape, c_strides, ndim));
}

// Walks an array of any shape one element, or n elements, at a time.
template <int DIM, typename OffsetT = size_t, bool General = true>
struct LoopedElemToLoc {
  int dim;
  OffsetT offset{0};
  OffsetT elem{0};

  LoopedElemToLoc(int d) : dim(d) {}

  void next(const constant int* shape, const constant int64_t* strides) { next(1, shape, strides); }
  void next(int n, const constant int* shape, const constant int64_t* strides) {
    elem += OffsetT(n);
    offset = dim == 0 ? OffsetT(0) : elem_to_loc<OffsetT>(elem, shape, strides, dim);
  }
  OffsetT location() { return offset; }
};

// One axis only: no division.
template <typename OffsetT>
struct LoopedElemToLoc<1, OffsetT, false> {
  OffsetT offset{0};

  LoopedElemToLoc(int) {}

  void next(const constant int* shape, const constant int64_t* strides) { next(1, shape, strides); }
  void next(int n, const constant int*, const constant int64_t* strides) { offset += n * OffsetT(strides[0]); }
  OffsetT location() { return offset; }
};
