// The umbrella that is force-included (as a precompiled header) before every Metal source.
#pragma once

#include "metal_types.h"
#include "metal_vector.h"
#include "metal_packed.h"
#include "metal_type_traits.h"
#include "metal_limits.h"
#include "metal_as_type.h"
#include "metal_relational.h"
#include "metal_common.h"
#include "metal_integer.h"
#include "metal_geometric.h"
#include "metal_array.h"
#include "metal_compute.h"
#include "metal_atomic.h"
#include "metal_math.h"
