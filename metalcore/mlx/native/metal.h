// Launches of a plan on a GPU, encoded through MLX's own command encoder. Built for macOS, not run on a Mac yet.
#pragma once

#include "mlx/mlx.h"
#include "plan.h"

namespace metalcore {

// `arrays`: inputs, whose rows lie one after the other, then what the plan makes; all have memory.
void encode(const Plan& plan, mlx::core::Stream stream, std::vector<mlx::core::array>& arrays);

}  // namespace metalcore
