// Metal's floating-point math: metal::, metal::fast::, metal::precise::. How each function works and how exact it is:
// docs/design/math.md.
#pragma once

#include "math_api.h"
#include "math_builtins.h"
#include "math_constants.h"
