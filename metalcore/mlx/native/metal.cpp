#include "metal.h"

#include "mlx/backend/metal/device.h"

namespace mx = mlx::core;

namespace metalcore {

void encode(const Plan& plan, mx::Stream stream, std::vector<mx::array>& arrays) {
  auto& device = mx::metal::device(stream.device);
  auto& encoder = mx::metal::get_command_encoder(stream);
  for (const Step& step : plan.steps) {
    if (step.kind != Step::METAL) continue;  // what kernels note is not waited for
    auto library = device.get_library(step.library, [&] { return step.source; });
    auto kernel = device.get_kernel(step.text, library);
    auto most = static_cast<int64_t>(kernel->maxTotalThreadsPerThreadgroup());
    auto asked = static_cast<int64_t>(step.group[0] * step.group[1] * step.group[2]);
    if (asked > most)  // Metal would drop the launch without a word
      throw std::runtime_error("metalcore." + plan.name + ": " + shown(asked) +
                               " threads in a threadgroup; this GPU takes " + shown(most) + " of " + step.text);
    encoder.set_compute_pipeline_state(kernel);
    for (size_t i = 0; i < step.slots.size(); i++) {
      const Slot& slot = step.slots[i];
      int at = static_cast<int>(i);
      if (slot.kind == Slot::NUMBER)
        encoder.set_bytes(reinterpret_cast<const char*>(&slot.value), static_cast<int>(slot.size), at);
      else if (slot.kind == Slot::INPUT)
        encoder.set_input_array(arrays[slot.value], at);
      else if (slot.kind == Slot::OUTPUT)
        encoder.set_output_array(arrays[slot.value], at);
    }
    encoder.dispatch_threadgroups(MTL::Size::Make(step.groups[0], step.groups[1], step.groups[2]),
                                  MTL::Size::Make(step.group[0], step.group[1], step.group[2]));
  }
  // Memory of what is no result is to live until the launches are done.
  encoder.add_temporaries({arrays.begin() + static_cast<std::ptrdiff_t>(plan.inputs.size()), arrays.end()});
}

}  // namespace metalcore
