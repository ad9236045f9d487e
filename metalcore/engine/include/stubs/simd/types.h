#pragma once
#include "../macros.h"

// ../../metal_simd_names.h
using namespace metal::_simd_names;
namespace simd {
using namespace metal::_simd_scope;
}
