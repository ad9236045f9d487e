// The umbrella that is force-included (as a precompiled header) before every Metal source.
#pragma once

#include "metal_types.h"
#include "metal_vector.h"
#if __has_include("math.h")
#include "math.h"
#endif
