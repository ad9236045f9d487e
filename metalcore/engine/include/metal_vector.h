// vec<T, N>: plain members x, y, z, w, so that the optimiser splits it into scalars.
#pragma once

#include "metal_swizzle.h"
#include "metal_types.h"

__mc_begin

namespace metal {

// How many components an argument brings to a constructor, and what its element is.
template <typename A>
struct __mc_shape {
  static constexpr int dim = 1;
  typedef A element;
};
template <typename T, int N>
struct __mc_shape<vec<T, N>> {
  static constexpr int dim = N;
  typedef T element;
};
template <typename T, int N, typename V>
struct __mc_shape<packed_vec<T, N, V>> {
  static constexpr int dim = N;
  typedef T element;
};
template <bool B>
struct __mc_if {};
template <>
struct __mc_if<true> {
  typedef int type;
};
template <int Want, typename... A>
using __mc_dims = typename __mc_if<((__mc_shape<A>::dim + ... + 0)) == Want>::type;

// Component I of a scalar, vec or packed_vec.
template <int I, typename A>
constexpr typename __mc_shape<A>::element __mc_at(const A& a) {
  if constexpr (__mc_shape<A>::dim == 1)
    return a;
  else if constexpr (I == 0)
    return a.x;
  else if constexpr (I == 1)
    return a.y;
  else if constexpr (I == 2)
    return a.z;
  else
    return a.w;
}
template <typename T, int I, typename A, typename B>
constexpr T __mc_pick(const A& a, const B& b) {
  constexpr int n = __mc_shape<A>::dim;
  if constexpr (I < n)
    return __mc_cast<T>(__mc_at<I>(a));
  else
    return __mc_cast<T>(__mc_at<I - n>(b));
}
template <typename T, int I, typename A, typename B, typename C>
constexpr T __mc_pick(const A& a, const B& b, const C& c) {
  constexpr int n = __mc_shape<A>::dim;
  if constexpr (I < n)
    return __mc_cast<T>(__mc_at<I>(a));
  else
    return __mc_pick<T, I - n>(b, c);
}

// `float4 v = {a, b};`: the front end puts this in front of the values, and the rest is zero.
struct __mc_fewer_t {};
constexpr __mc_fewer_t __mc_fewer{};
// One value for all elements, but not in braces: the front end asks clang where this is called.
#define __mc_splat __attribute__((deprecated("mc:splat")))

// A size in bytes and its power of two, as Metal aligns vectors.
template <typename T, int N>
constexpr unsigned __mc_align = sizeof(T) * (N == 3 ? 4 : N);

// Component lists: op between two operands, before one, and a call of f on each.
#define __MC_BIN2(T, a, op, b) T(a.x op b.x), T(a.y op b.y)
#define __MC_BIN3(T, a, op, b) __MC_BIN2(T, a, op, b), T(a.z op b.z)
#define __MC_BIN4(T, a, op, b) __MC_BIN3(T, a, op, b), T(a.w op b.w)
#define __MC_UN2(T, op, a) T(op a.x), T(op a.y)
#define __MC_UN3(T, op, a) __MC_UN2(T, op, a), T(op a.z)
#define __MC_UN4(T, op, a) __MC_UN3(T, op, a), T(op a.w)

// A count past the width takes its low bits, each element by its own width. A narrow element is shifted as an int, so its
// count is cut here; a wide one's is cut in the IR, where the sanitizer has seen it, and never folded by clang before.
template <typename T>
T __mc_past_width(T count) { return count; }
template <typename T>
constexpr T __mc_count(T count) {
  if constexpr (sizeof(T) < 4)
    return T(count & T(8 * sizeof(T) - 1));
  else
    return count >= T(0) && count < T(8 * sizeof(T)) ? count : __mc_past_width(count);
}
#define __MC_SHIFT2(T, a, op, b) T(a.x op __mc_count(b.x)), T(a.y op __mc_count(b.y))
#define __MC_SHIFT3(T, a, op, b) __MC_SHIFT2(T, a, op, b), T(a.z op __mc_count(b.z))
#define __MC_SHIFT4(T, a, op, b) __MC_SHIFT3(T, a, op, b), T(a.w op __mc_count(b.w))
#define __MC_SHIFT(N, op)                                                                                  \
  friend constexpr vec operator op(const vec& l, const vec& r) { return vec(__MC_SHIFT##N(T, l, op, r)); } \
  constexpr vec& operator op##=(const vec& r) { return *this = *this op r; }

#define __MC_ARITHMETIC(N, op)                                                                             \
  friend constexpr vec operator op(const vec& l, const vec& r) { return vec(__MC_BIN##N(T, l, op, r)); }   \
  constexpr vec& operator op##=(const vec& r) { return *this = *this op r; }
#define __MC_COMPARE(N, op) \
  friend constexpr vec<bool, N> operator op(const vec& l, const vec& r) { return vec<bool, N>(__MC_BIN##N(bool, l, op, r)); }
#define __MC_OPERATORS(N)                                                                              \
  __MC_ARITHMETIC(N, +)                                                                                \
  __MC_ARITHMETIC(N, -)                                                                                \
  __MC_ARITHMETIC(N, *)                                                                                \
  __MC_ARITHMETIC(N, /)                                                                                \
  __MC_ARITHMETIC(N, %)                                                                                \
  __MC_ARITHMETIC(N, &)                                                                                \
  __MC_ARITHMETIC(N, |)                                                                                \
  __MC_ARITHMETIC(N, ^)                                                                                \
  __MC_SHIFT(N, <<)                                                                                    \
  __MC_SHIFT(N, >>)                                                                                    \
  __MC_COMPARE(N, ==)                                                                                  \
  __MC_COMPARE(N, !=)                                                                                  \
  __MC_COMPARE(N, <)                                                                                   \
  __MC_COMPARE(N, >)                                                                                   \
  __MC_COMPARE(N, <=)                                                                                  \
  __MC_COMPARE(N, >=)                                                                                  \
  __MC_COMPARE(N, &&)                                                                                  \
  __MC_COMPARE(N, ||)                                                                                  \
  friend constexpr vec operator+(const vec& a) { return a; }                                           \
  friend constexpr vec operator-(const vec& a) { return vec(__MC_UN##N(T, -, a)); }                    \
  friend constexpr vec operator~(const vec& a) { return vec(__MC_UN##N(T, ~, a)); }                    \
  friend constexpr vec<bool, N> operator!(const vec& a) { return vec<bool, N>(__MC_UN##N(bool, !, a)); } \
  constexpr vec& operator++() { return *this = *this + vec(T(1)); }                                    \
  constexpr vec& operator--() { return *this = *this - vec(T(1)); }                                    \
  constexpr vec operator++(int) {                                                                      \
    vec old = *this;                                                                                   \
    *this = old + vec(T(1));                                                                           \
    return old;                                                                                        \
  }                                                                                                    \
  constexpr vec operator--(int) {                                                                      \
    vec old = *this;                                                                                   \
    *this = old - vec(T(1));                                                                           \
    return old;                                                                                        \
  }

// The copies are written out: a class that is not trivially copyable is passed by address, never packed into integers, so that
// no bit twiddling hides the components from the optimiser. An assignment loads all before it stores, so wide accesses regroup.
template <typename T>
struct alignas(__mc_align<T, 2>) vec<T, 2> {
  typedef T __mc_element;
  T x, y;

  vec() = default;
  constexpr vec(const vec& o) : x(o.x), y(o.y) {}
  constexpr vec& operator=(const vec& o) {
    T a = o.x, b = o.y;
    x = a, y = b;
    return *this;
  }
  __mc_splat constexpr vec(T s) : x(s), y(s) {}
  constexpr vec(T a, T b) : x(a), y(b) {}
  constexpr vec(__mc_fewer_t, T a) : x(a), y(T(0)) {}
  template <typename U>
  explicit constexpr vec(const vec<U, 2>& o) : x(__mc_cast<T>(o.x)), y(__mc_cast<T>(o.y)) {}
  template <typename U, typename V>
  explicit constexpr vec(const packed_vec<U, 2, V>& o) : x(__mc_cast<T>(o.x)), y(__mc_cast<T>(o.y)) {}

  constexpr T operator[](size_t i) const { return __builtin_is_constant_evaluated() ? (i == 0 ? x : y) : reinterpret_cast<const T*>(this)[i]; }
  constexpr T& operator[](size_t i) & { return __builtin_is_constant_evaluated() ? (i == 0 ? x : y) : reinterpret_cast<T*>(this)[i]; }
  __MC_OPERATORS(2)
  __MC_SWIZZLES2
};

template <typename T>
struct alignas(__mc_align<T, 3>) vec<T, 3> {
  typedef T __mc_element;
  T x, y, z;

  vec() = default;
  constexpr vec(const vec& o) : x(o.x), y(o.y), z(o.z) {}
  constexpr vec& operator=(const vec& o) {
    T a = o.x, b = o.y, c = o.z;
    x = a, y = b, z = c;
    return *this;
  }
  __mc_splat constexpr vec(T s) : x(s), y(s), z(s) {}
  constexpr vec(T a, T b, T c) : x(a), y(b), z(c) {}
  constexpr vec(__mc_fewer_t, T a, T b = T(0), T c = T(0)) : x(a), y(b), z(c) {}
  template <typename U>
  explicit constexpr vec(const vec<U, 3>& o) : x(__mc_cast<T>(o.x)), y(__mc_cast<T>(o.y)), z(__mc_cast<T>(o.z)) {}
  template <typename U, typename V>
  explicit constexpr vec(const packed_vec<U, 3, V>& o) : x(__mc_cast<T>(o.x)), y(__mc_cast<T>(o.y)), z(__mc_cast<T>(o.z)) {}
  template <typename A, typename B, __mc_dims<3, A, B> = 0>
  constexpr vec(A a, B b) : x(__mc_pick<T, 0>(a, b)), y(__mc_pick<T, 1>(a, b)), z(__mc_pick<T, 2>(a, b)) {}

  constexpr T operator[](size_t i) const { return __builtin_is_constant_evaluated() ? (i == 0 ? x : i == 1 ? y : z) : reinterpret_cast<const T*>(this)[i]; }
  constexpr T& operator[](size_t i) & { return __builtin_is_constant_evaluated() ? (i == 0 ? x : i == 1 ? y : z) : reinterpret_cast<T*>(this)[i]; }
  __MC_OPERATORS(3)
  __MC_SWIZZLES3
};

template <typename T>
struct alignas(__mc_align<T, 4>) vec<T, 4> {
  typedef T __mc_element;
  T x, y, z, w;

  vec() = default;
  constexpr vec(const vec& o) : x(o.x), y(o.y), z(o.z), w(o.w) {}
  constexpr vec& operator=(const vec& o) {
    T a = o.x, b = o.y, c = o.z, d = o.w;
    x = a, y = b, z = c, w = d;
    return *this;
  }
  __mc_splat constexpr vec(T s) : x(s), y(s), z(s), w(s) {}
  constexpr vec(T a, T b, T c, T d) : x(a), y(b), z(c), w(d) {}
  constexpr vec(__mc_fewer_t, T a, T b = T(0), T c = T(0), T d = T(0)) : x(a), y(b), z(c), w(d) {}
  template <typename U>
  explicit constexpr vec(const vec<U, 4>& o) : x(__mc_cast<T>(o.x)), y(__mc_cast<T>(o.y)), z(__mc_cast<T>(o.z)), w(__mc_cast<T>(o.w)) {}
  template <typename U, typename V>
  explicit constexpr vec(const packed_vec<U, 4, V>& o) : x(__mc_cast<T>(o.x)), y(__mc_cast<T>(o.y)), z(__mc_cast<T>(o.z)), w(__mc_cast<T>(o.w)) {}
  template <typename A, typename B, __mc_dims<4, A, B> = 0>
  constexpr vec(A a, B b) : x(__mc_pick<T, 0>(a, b)), y(__mc_pick<T, 1>(a, b)), z(__mc_pick<T, 2>(a, b)), w(__mc_pick<T, 3>(a, b)) {}
  template <typename A, typename B, typename C, __mc_dims<4, A, B, C> = 0>
  constexpr vec(A a, B b, C c)
      : x(__mc_pick<T, 0>(a, b, c)), y(__mc_pick<T, 1>(a, b, c)), z(__mc_pick<T, 2>(a, b, c)), w(__mc_pick<T, 3>(a, b, c)) {}

  constexpr T operator[](size_t i) const { return __builtin_is_constant_evaluated() ? (i == 0 ? x : i == 1 ? y : i == 2 ? z : w) : reinterpret_cast<const T*>(this)[i]; }
  constexpr T& operator[](size_t i) & { return __builtin_is_constant_evaluated() ? (i == 0 ? x : i == 1 ? y : i == 2 ? z : w) : reinterpret_cast<T*>(this)[i]; }
  __MC_OPERATORS(4)
  __MC_SWIZZLES4
};

// f applied to each component: __mc_map<float>(f, a, b) is a vec<float, N>.
template <typename R, typename F, typename... A>
constexpr vec<R, 2> __mc_map(F f, const vec<A, 2>&... a) {
  return vec<R, 2>(f(a.x...), f(a.y...));
}
template <typename R, typename F, typename... A>
constexpr vec<R, 3> __mc_map(F f, const vec<A, 3>&... a) {
  return vec<R, 3>(f(a.x...), f(a.y...), f(a.z...));
}
template <typename R, typename F, typename... A>
constexpr vec<R, 4> __mc_map(F f, const vec<A, 4>&... a) {
  return vec<R, 4>(f(a.x...), f(a.y...), f(a.z...), f(a.w...));
}

// The vec type that a call with these arguments works on: at least one is a vec or packed_vec, the others are scalars or the same type.
// `__mc_vec_t<A, B>` does not exist (and so removes the overload) where all are scalars or where the vectors differ.
template <typename A>
struct __mc_as_vec {
  typedef void type;
};
template <typename T, int N>
struct __mc_as_vec<vec<T, N>> {
  typedef vec<T, N> type;
};
template <typename T, int N, typename V>
struct __mc_as_vec<packed_vec<T, N, V>> {
  typedef V type;
};
template <typename A, typename B>
struct __mc_same_vec {};
template <typename A>
struct __mc_same_vec<A, A> {
  typedef A type;
};
template <typename A>
struct __mc_same_vec<A, void> {
  typedef A type;
};
template <typename A>
struct __mc_same_vec<void, A> {
  typedef A type;
};
template <>
struct __mc_same_vec<void, void> {
  typedef void type;
};
template <typename V>
struct __mc_not_void {
  typedef V type;
};
template <>
struct __mc_not_void<void> {};
template <typename A, typename B = A, typename C = A, typename D = A>
using __mc_vec_t = typename __mc_not_void<
    typename __mc_same_vec<typename __mc_same_vec<typename __mc_as_vec<A>::type, typename __mc_as_vec<B>::type>::type,
                           typename __mc_same_vec<typename __mc_as_vec<C>::type, typename __mc_as_vec<D>::type>::type>::type>::type;

}  // namespace metal

__mc_end

// Every scalar that vectors have, with its name in theirs.
#define __MC_SCALARS(EACH)                                         \
  EACH(bool, bool)                                                 \
  EACH(char, char)                                                 \
  EACH(unsigned char, uchar)                                       \
  EACH(short, short)                                               \
  EACH(unsigned short, ushort)                                     \
  EACH(int, int)                                                   \
  EACH(unsigned int, uint)                                         \
  EACH(long, long)                                                 \
  EACH(unsigned long, ulong)                                       \
  EACH(_Float16, half)                                             \
  EACH(__bf16, bfloat)                                             \
  EACH(float, float)

// The names, globally and in metal::.
#define __MC_NAME(T, t)                                            \
  typedef metal::vec<T, 2> t##2;                                   \
  typedef metal::vec<T, 3> t##3;                                   \
  typedef metal::vec<T, 4> t##4;                                   \
  namespace metal {                                                \
  using ::t##2;                                                    \
  using ::t##3;                                                    \
  using ::t##4;                                                    \
  }
__MC_SCALARS(__MC_NAME)
#undef __MC_NAME
